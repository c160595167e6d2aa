"""The layers that are functions with settings: activations, pools, losses, resizing."""

from __future__ import annotations

from refluid.paddle.nn.functional import (
    activation,
    distances,
    likelihoods,
    loss,
    norm,
    pooling,
    shapes,
    unpooling,
    vision,
)
from refluid.paddle.nn.layer.made import layer_of
from refluid.paddle.tensor import manipulation, math

_POOL = "kernel_size stride padding"

CELU = layer_of("CELU", activation.celu, "alpha")
ELU = layer_of("ELU", activation.elu, "alpha")
GELU = layer_of("GELU", activation.gelu, "approximate")
GLU = layer_of("GLU", activation.glu, "axis")
Hardshrink = layer_of("Hardshrink", activation.hardshrink, "threshold")
Hardsigmoid = layer_of("Hardsigmoid", activation.hardsigmoid)
Hardswish = layer_of("Hardswish", activation.hardswish)
Hardtanh = layer_of("Hardtanh", activation.hardtanh, "min max")
LeakyReLU = layer_of("LeakyReLU", activation.leaky_relu, "negative_slope")
LogSigmoid = layer_of("LogSigmoid", activation.log_sigmoid)
LogSoftmax = layer_of("LogSoftmax", activation.log_softmax, "axis")
Maxout = layer_of("Maxout", activation.maxout, "groups axis")
Mish = layer_of("Mish", activation.mish)
RReLU = layer_of("RReLU", activation.rrelu, "lower upper", trains=True)
ReLU = layer_of("ReLU", activation.relu)
ReLU6 = layer_of("ReLU6", activation.relu6)
SELU = layer_of("SELU", activation.selu, "scale alpha")
Sigmoid = layer_of("Sigmoid", math.sigmoid)
Silu = layer_of("Silu", activation.silu)
Softmax = layer_of("Softmax", activation.softmax, "axis")
Softplus = layer_of("Softplus", activation.softplus, "beta threshold")
Softshrink = layer_of("Softshrink", activation.softshrink, "threshold")
Softsign = layer_of("Softsign", activation.softsign)
Swish = layer_of("Swish", activation.swish)
Tanh = layer_of("Tanh", math.tanh)
Tanhshrink = layer_of("Tanhshrink", activation.tanhshrink)
ThresholdedReLU = layer_of("ThresholdedReLU", activation.thresholded_relu, "threshold")

AdaptiveAvgPool1D = layer_of("AdaptiveAvgPool1D", pooling.adaptive_avg_pool1d, "output_size")
AdaptiveAvgPool2D = layer_of(
    "AdaptiveAvgPool2D", pooling.adaptive_avg_pool2d, "output_size data_format"
)
AdaptiveAvgPool3D = layer_of(
    "AdaptiveAvgPool3D", pooling.adaptive_avg_pool3d, "output_size data_format"
)
AdaptiveMaxPool1D = layer_of(
    "AdaptiveMaxPool1D", pooling.adaptive_max_pool1d, "output_size return_mask"
)
AdaptiveMaxPool2D = layer_of(
    "AdaptiveMaxPool2D", pooling.adaptive_max_pool2d, "output_size return_mask"
)
AdaptiveMaxPool3D = layer_of(
    "AdaptiveMaxPool3D", pooling.adaptive_max_pool3d, "output_size return_mask"
)
AvgPool1D = layer_of("AvgPool1D", pooling.avg_pool1d, f"{_POOL} exclusive ceil_mode")
AvgPool2D = layer_of(
    "AvgPool2D", pooling.avg_pool2d, f"{_POOL} ceil_mode exclusive divisor_override data_format"
)
AvgPool3D = layer_of(
    "AvgPool3D", pooling.avg_pool3d, f"{_POOL} ceil_mode exclusive divisor_override data_format"
)
MaxPool1D = layer_of("MaxPool1D", pooling.max_pool1d, f"{_POOL} return_mask ceil_mode")
MaxPool2D = layer_of("MaxPool2D", pooling.max_pool2d, f"{_POOL} return_mask ceil_mode data_format")
MaxPool3D = layer_of("MaxPool3D", pooling.max_pool3d, f"{_POOL} return_mask ceil_mode data_format")

BCELoss = layer_of("BCELoss", loss.binary_cross_entropy, "weight reduction")
BCEWithLogitsLoss = layer_of(
    "BCEWithLogitsLoss", loss.binary_cross_entropy_with_logits, "weight reduction pos_weight"
)
CTCLoss = layer_of("CTCLoss", loss.ctc_loss, "blank reduction", named=False)
CosineEmbeddingLoss = layer_of(
    "CosineEmbeddingLoss", distances.cosine_embedding_loss, "margin reduction"
)
CosineSimilarity = layer_of(
    "CosineSimilarity", distances.cosine_similarity, "axis eps", named=False
)
CrossEntropyLoss = layer_of(
    "CrossEntropyLoss",
    loss.cross_entropy,
    "weight ignore_index reduction soft_label axis use_softmax label_smoothing",
)
HingeEmbeddingLoss = layer_of(
    "HingeEmbeddingLoss", distances.hinge_embedding_loss, "margin reduction"
)
KLDivLoss = layer_of("KLDivLoss", loss.kl_div, "reduction", named=False)
L1Loss = layer_of("L1Loss", distances.l1_loss, "reduction")
MSELoss = layer_of("MSELoss", distances.mse_loss, "reduction", named=False)
MarginRankingLoss = layer_of("MarginRankingLoss", distances.margin_ranking_loss, "margin reduction")
MultiLabelSoftMarginLoss = layer_of(
    "MultiLabelSoftMarginLoss", distances.multi_label_soft_margin_loss, "weight reduction"
)
NLLLoss = layer_of("NLLLoss", loss.nll_loss, "weight ignore_index reduction")
PairwiseDistance = layer_of("PairwiseDistance", distances.pairwise_distance, "p epsilon keepdim")
SmoothL1Loss = layer_of("SmoothL1Loss", distances.smooth_l1_loss, "reduction delta")
SoftMarginLoss = layer_of("SoftMarginLoss", distances.soft_margin_loss, "reduction")
TripletMarginLoss = layer_of(
    "TripletMarginLoss", distances.triplet_margin_loss, "margin p epsilon swap reduction", p=2.0
)
TripletMarginWithDistanceLoss = layer_of(
    "TripletMarginWithDistanceLoss",
    distances.triplet_margin_with_distance_loss,
    "distance_function margin swap reduction",
)

GaussianNLLLoss = layer_of(
    "GaussianNLLLoss", likelihoods.gaussian_nll_loss, "full epsilon reduction"
)
MultiMarginLoss = layer_of(
    "MultiMarginLoss", likelihoods.multi_margin_loss, "p margin weight reduction"
)
PoissonNLLLoss = layer_of(
    "PoissonNLLLoss", likelihoods.poisson_nll_loss, "log_input full epsilon reduction"
)

_UNPOOL = "kernel_size stride padding data_format output_size"
MaxUnPool1D = layer_of("MaxUnPool1D", unpooling.max_unpool1d, _UNPOOL)
MaxUnPool2D = layer_of("MaxUnPool2D", unpooling.max_unpool2d, _UNPOOL)
MaxUnPool3D = layer_of("MaxUnPool3D", unpooling.max_unpool3d, _UNPOOL)

AlphaDropout = layer_of("AlphaDropout", shapes.alpha_dropout, "p", trains=True)
Fold = layer_of("Fold", vision.fold, "output_sizes kernel_sizes dilations paddings strides")
ChannelShuffle = layer_of("ChannelShuffle", vision.channel_shuffle, "groups data_format")
Dropout = layer_of("Dropout", shapes.dropout, "p axis mode", trains=True)
Dropout2D = layer_of("Dropout2D", shapes.dropout2d, "p data_format", trains=True)
Dropout3D = layer_of("Dropout3D", shapes.dropout3d, "p data_format", trains=True)
Flatten = layer_of(
    "Flatten", manipulation.flatten, "start_axis stop_axis", named=False, start_axis=1
)
LocalResponseNorm = layer_of(
    "LocalResponseNorm", norm.local_response_norm, "size alpha beta k data_format"
)
PixelShuffle = layer_of("PixelShuffle", vision.pixel_shuffle, "upscale_factor data_format")
PixelUnshuffle = layer_of("PixelUnshuffle", vision.pixel_unshuffle, "downscale_factor data_format")
Unfold = layer_of("Unfold", vision.unfold, "kernel_sizes dilations paddings strides")
Upsample = layer_of(
    "Upsample", vision.upsample, "size scale_factor mode align_corners align_mode data_format"
)
ZeroPad2D = layer_of("ZeroPad2D", vision.zeropad2d, "padding data_format")
RNNTLoss = layer_of("RNNTLoss", loss.rnnt_loss, "blank fastemit_lambda reduction")
