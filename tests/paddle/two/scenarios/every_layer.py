"""Layers of `paddle.nn` by what they are made with: results, gradients, state, and evaluation."""

import numpy as np

# A layer, and its inputs: a kind and a shape. Kinds: f any numbers, p between 0 and 1 (q: without
# gradient), n logarithms of probabilities, s 1 or -1, b 0 or 1, i5 whole numbers below 5 (j5: int32
# labels from 2 on, l5 and k5: lengths of 5, int64 and int32). With ! the layer draws, or Paddle's
# gradient isn't whole: it only evaluates.
LAYERS = """
Linear(3, 4) | f 2,5,3
Linear(3, 4, bias_attr=False) | f 5,3
Conv1D(3, 4, 3, stride=2, padding=1) | f 2,3,9
Conv1D(4, 4, 2, dilation=2, groups=2, padding_mode='circular', padding=2) | f 2,4,7
Conv2D(3, 4, 3, padding=1, padding_mode='circular') | f 2,3,4,5
Conv3D(2, 3, 2, padding=1, padding_mode='circular') | f 2,2,4,3,4
Conv1D(3, 4, 3, data_format='NLC', padding='SAME') | f 2,7,3
Conv2D(3, 4, 3, padding=[1, 2], dilation=2) | f 2,3,7,8
Conv2D(4, 6, [2, 3], stride=[2, 1], groups=2, padding='VALID') | f 2,4,6,7
Conv2D(3, 4, 3, padding=1, padding_mode='reflect') | f 2,3,5,6
Conv2D(3, 2, 3, padding=[[0, 0], [0, 0], [1, 2], [0, 1]]) | f 2,3,5,6
Conv2D(3, 2, 2, padding='SAME', data_format='NHWC') | f 2,5,6,3
Conv3D(2, 3, 2, padding=1, padding_mode='replicate') | f 2,2,4,3,4
Conv1DTranspose(3, 4, 3, stride=2, padding=1, output_padding=1) | f 2,3,5
Conv2DTranspose(4, 6, 3, stride=2, groups=2, padding='SAME') | f 2,4,4,5
Conv2DTranspose(3, 2, [2, 3], dilation=[1, 2], output_padding=0) | f 2,3,4,5
Conv3DTranspose(2, 3, 2, stride=2) | f 2,2,3,2,3
BatchNorm(3, act='relu') | f 4,3,5
BatchNorm1D(3, momentum=0.6) | f 6,3
BatchNorm1D(3, use_global_stats=True) | f 4,3,5
BatchNorm2D(3, epsilon=1e-3) | f 4,3,2,5
BatchNorm2D(3, data_format='NHWC', weight_attr=False) ! | f 4,2,5,3
BatchNorm3D(2, bias_attr=False) ! | f 3,2,2,3,2
GroupNorm(2, 4) | f 3,4,3,2
GroupNorm(4, 4, epsilon=1e-2, weight_attr=False, bias_attr=False) | f 3,4,5
InstanceNorm1D(3) | f 2,3,6
InstanceNorm2D(3, epsilon=1e-3) | f 2,3,4,3
InstanceNorm3D(2, weight_attr=False, bias_attr=False) | f 2,2,3,2,3
LayerNorm(5) | f 2,3,5
LayerNorm([3, 5], epsilon=1e-4, weight_attr=False) | f 2,3,5
LocalResponseNorm(3, alpha=0.1, beta=0.6, k=1.5) | f 2,5,3,4
LocalResponseNorm(4, alpha=0.2) | f 2,5,6
LocalResponseNorm(3, data_format="NLC") | f 2,6,5
LocalResponseNorm(2, alpha=0.3, data_format='NHWC') | f 2,3,4,5
SpectralNorm([3, 4], dim=1, power_iters=2) | f 3,4
Embedding(6, 4) | i6 3,5
Embedding(6, 4, padding_idx=2) | i6 3,5
Embedding(6, 4, padding_idx=-1) | i6 7
Bilinear(3, 4, 5) | f 6,3 | f 6,4
PReLU(num_parameters=3, init=0.2) | f 2,3,4
PReLU(data_format='NHWC') | f 2,3,4
Fold([4, 5], [2, 2], strides=2, paddings=1) | f 2,12,9
Unfold([2, 3], strides=[1, 2], paddings=[0, 1], dilations=1) | f 2,3,5,6
ChannelShuffle(3) | f 2,6,2,3
PixelShuffle(2) | f 2,8,2,3
PixelShuffle(2, data_format='NHWC') | f 2,2,3,8
PixelUnshuffle(2) | f 2,2,4,6
PixelUnshuffle(2, data_format='NHWC') | f 2,4,6,2
ChannelShuffle(2, data_format='NHWC') | f 2,2,3,6
Flatten(1, 2) | f 2,3,4,5
Unflatten(1, [2, -1]) | f 3,6,2
Identity() | f 3,2
Maxout(2, axis=1) | f 2,6,3,2
Softmax(axis=1) | f 2,3,4
LogSoftmax(axis=0) | f 4,3
Softmax2D() | f 2,3,4,2
GLU(axis=1) | f 2,6,3
CELU(0.7) | f 3,4
ELU(0.6) | f 3,4
GELU() | f 3,4
GELU(True) | f 3,4
Hardshrink(0.4) | f 3,4
Hardsigmoid() | f 3,4
Hardswish() | f 3,4
Hardtanh(-0.5, 0.8) | f 3,4
LeakyReLU(0.2) | f 3,4
LogSigmoid() | f 3,4
Mish() | f 3,4
ReLU() | f 3,4
ReLU6() | f 3,4
SELU(1.2, 1.1) | f 3,4
Sigmoid() | f 3,4
Silu() | f 3,4
Softplus(2.0, 1.5) | f 3,4
Softshrink(0.4) | f 3,4
Softsign() | f 3,4
Swish() | f 3,4
Tanh() | f 3,4
Tanhshrink() | f 3,4
ThresholdedReLU(0.3) | f 3,4
Dropout(0.0) | f 3,4
Dropout(0.4, mode='downscale_in_infer') ! | f 3,4
Dropout2D(0.4) ! | f 3,4,2,2
Dropout3D(0.4) ! | f 3,4,2,2,2
AlphaDropout(0.4) ! | f 3,4
RReLU(0.1, 0.4) ! | f 3,4
AvgPool1D(3, stride=2, padding=1, exclusive=False) | f 2,3,8
AvgPool2D([2, 3], stride=[1, 2], padding=1, ceil_mode=True) | f 2,3,5,6
AvgPool2D(2, divisor_override=3, data_format='NHWC') | f 2,4,5,3
AvgPool3D(2, padding='SAME') | f 2,2,3,4,5
MaxPool1D(3, padding=1, ceil_mode=True) | f 2,3,8
MaxPool2D([2, 3], stride=1, padding='VALID') | f 2,3,5,6
MaxPool3D(2, stride=2, data_format='NDHWC') | f 2,4,5,4,2
AdaptiveAvgPool1D(3) | f 2,3,7
AdaptiveAvgPool2D([2, None]) | f 2,3,5,4
AdaptiveAvgPool3D(2) | f 2,2,4,3,5
AdaptiveMaxPool1D(3) | f 2,3,7
AdaptiveMaxPool2D([2, 3]) | f 2,3,5,7
AdaptiveMaxPool3D(2) | f 2,2,4,3,5
Pad1D([1, 2], mode='replicate') | f 2,3,5
Pad2D([1, 0, 2, 1], value=0.5) | f 2,3,4,5
Pad2D(1, mode='reflect', data_format='NHWC') | f 2,4,5,3
Pad3D([1, 2, 0, 1, 1, 1], mode='circular') | f 2,2,3,4,3
ZeroPad2D([1, 0, 2, 1]) | f 2,3,4,5
Upsample(scale_factor=2, mode='nearest') | f 2,3,3,4
Upsample(size=[5, 7], mode='bilinear', align_corners=True) | f 2,3,3,4
Upsample(size=[5, 7], mode='bicubic') | f 2,3,3,4
Upsample(size=[6], mode='linear', data_format='NCW') | f 2,3,4
Upsample(scale_factor=[2, 1.5, 2], mode='trilinear', data_format='NCDHW') | f 2,2,3,4,2
UpsamplingBilinear2D(size=[5, 7]) | f 2,3,3,4
UpsamplingNearest2D(scale_factor=2) | f 2,3,3,4
CosineSimilarity(axis=1) | f 3,4 | f 3,4
PairwiseDistance(p=3.0, keepdim=True) | f 3,4 | f 3,4
BCELoss() | p 3,4 | b 3,4
BCELoss(reduction='none') | p 3,4 | b 3,4
BCEWithLogitsLoss(reduction='sum') | f 3,4 | b 3,4
CTCLoss(blank=1) | f 6,2,5 | j5 2,3 | l6 2 | l3 2
CosineEmbeddingLoss(margin=0.2) | f 5,4 | f 5,4 | s 5
CrossEntropyLoss(ignore_index=2) | f 6,5 | i5 6
CrossEntropyLoss(reduction='sum', axis=1) | f 3,5,4 | i5 3,4
CrossEntropyLoss(soft_label=True) | f 6,5 | p 6,5
CrossEntropyLoss(use_softmax=False) | p 6,5 | i5 6
GaussianNLLLoss(full=True) | f 5,3 | f 5,3 | q 5,3
HSigmoidLoss(4, 6) | f 5,4 | i6 5,1
HSigmoidLoss(4, 7, bias_attr=False) | f 5,4 | i6 5,1
HingeEmbeddingLoss(margin=0.6) | f 5,3 | s 5,3
KLDivLoss('batchmean') | n 5,3 | p 5,3
KLDivLoss('none') | n 5,3 | p 5,3
L1Loss('sum') | f 5,3 | f 5,3
MSELoss('none') | f 5,3 | f 5,3
MarginRankingLoss(margin=0.3) | f 5,3 | f 5,3 | s 5,3
MultiLabelSoftMarginLoss(reduction='none') | f 5,3 | s 5,3
MultiMarginLoss(p=2, margin=0.7) | f 5,4 | i4 5
NLLLoss(ignore_index=1) | n 6,4 | i4 6
NLLLoss(reduction='none') | n 3,4,2,5 | i4 3,2,5
PoissonNLLLoss(log_input=False, full=True) | p 5,3 | p 5,3
PoissonNLLLoss() | f 5,3 | p 5,3
RNNTLoss(fastemit_lambda=0.0) | f 2,4,3,5 | j5 2,2 | k4 2 | k2 2
SmoothL1Loss(delta=0.5) | f 5,3 | f 5,3
SoftMarginLoss() | f 5,3 | s 5,3
TripletMarginLoss(margin=0.8, swap=True) | f 5,3 | f 5,3 | f 5,3
TripletMarginWithDistanceLoss(margin=0.8, reduction='sum') | f 5,3 | f 5,3 | f 5,3
MultiHeadAttention(6, 2) | f 2,4,6
MultiHeadAttention(6, 3, kdim=4, vdim=5) | f 2,3,6 | f 2,4,4 | f 2,4,5
TransformerEncoderLayer(6, 2, 8, dropout=0.0) | f 2,4,6
TransformerEncoderLayer(6, 2, 8, dropout=0.0, activation='gelu', normalize_before=True) | f 2,4,6
TransformerDecoderLayer(6, 2, 8, dropout=0.0) | f 2,4,6 | f 2,3,6
Transformer(6, 2, 1, 2, 8, dropout=0.0) | f 2,4,6 | f 2,3,6
Transformer(6, 2, 2, 1, 8, dropout=0.0, normalize_before=True) | f 2,4,6 | f 2,3,6
GRUCell(3, 4) | f 2,3 | f 2,4
SimpleRNNCell(3, 4, activation='relu') | f 2,3 | f 2,4
LSTMCell(3, 4) | f 2,3
"""


def _drawn(random, kind, shape):
    if kind == "f":
        return random.uniform(-1.5, 1.5, shape).astype("float32")
    if kind in "pq":
        return random.uniform(0.05, 0.95, shape).astype("float32")
    if kind == "n":
        return np.log(random.dirichlet(np.ones(shape[-1]), shape[:-1]) + 0.01).astype("float32")
    if kind == "s":
        return random.choice([-1.0, 1.0], shape).astype("float32")
    if kind == "b":
        return random.choice([0.0, 1.0], shape).astype("float32")
    bound = int(kind[1:])
    if kind[0] in "lk":  # lengths, the longest there
        return np.full(shape, bound, "int64" if kind[0] == "l" else "int32")
    low, dtype = (2, "int32") if kind[0] == "j" else (0, "int64")  # labels that are no blank
    return random.randint(low, bound, shape).astype(dtype)


def _tensors(value):
    if isinstance(value, (list, tuple)):
        return [one for part in value for one in _tensors(part)]
    return [value]


def _scenario(made, inputs):
    only_evaluates = "!" in made

    def run(paddle):
        paddle.disable_static()
        random = np.random.RandomState(3)
        layer = eval(f"nn.{made.replace('!', '')}", {"nn": paddle.nn})
        state = layer.state_dict()
        for name in sorted(state):
            low = 0.3 if "variance" in name else -0.7
            value = random.uniform(low, 0.7, state[name].shape).astype("float32")
            state[name].set_value(value)
        given = []
        for one in inputs:
            kind, _, shape = one.partition(" ")
            array = _drawn(random, kind, tuple(map(int, shape.split(","))))
            given.append(paddle.to_tensor(array, stop_gradient=kind not in "fpn"))
        found = {}
        if not only_evaluates:
            outs, loss = _tensors(layer(*given)), 0.0
            for number, out in enumerate(outs):
                weights = random.uniform(0.5, 1.5, out.shape or [1]).astype("float32")
                loss = loss + (out * paddle.to_tensor(weights).reshape(out.shape)).sum()
                found[f"out{number}"] = out.numpy()
            if not loss.stop_gradient:
                loss.backward()
        slopes = dict(layer.named_parameters()) | {f"x{n}": one for n, one in enumerate(given)}
        for name, one in slopes.items():
            if name.endswith("k_proj.bias"):
                continue  # 0 but for rounding: softmax takes it off again
            if not one.stop_gradient and one.grad is not None:
                found[f"grad_{name}"] = np.asarray(one.grad.numpy())
        found |= {f"state_{n}": one.numpy() for n, one in layer.state_dict().items() if "_m" in n}
        layer.eval()
        for number, out in enumerate(_tensors(layer(*given))):
            found[f"later{number}"] = out.numpy()
        return found

    return run


SCENARIOS = {}
for _line in LAYERS.strip().splitlines():
    _made, *_inputs = [one.strip() for one in _line.split(" | ")]
    SCENARIOS[_made.replace("|", "/")] = _scenario(_made, _inputs)
