"""Calls of `paddle.nn.functional`."""

from tests.paddle.two.cases import Call, b, c, f, i, numbered


def n(name: str, *args: object, **settings: object) -> Call:
    """A call of a function of `nn.functional`."""
    return c(f"nn.functional.{name}", *args, **settings)


_PLAIN = """
celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu log_sigmoid log_softmax mish
relu relu6 selu sigmoid silu softmax softplus softshrink softsign swish tanh tanhshrink
thresholded_relu glu
"""
_PAIRED = "mse_loss l1_loss smooth_l1_loss soft_margin_loss"
ACTIVATIONS = [
    *(n(name, f(3, 4, low=-8, high=8)) for name in _PLAIN.split()),
    *(n(name, f(2, 4, 3)) for name in _PLAIN.split() if name != "glu"),
    n("glu", f(2, 4, 3), 1),
    n("gelu", f(3, 4), True),
    n("elu", f(3, 4), 0.5),
    n("celu", f(3, 4), 2.0),
    n("leaky_relu", f(3, 4), 0.2),
    n("hardtanh", f(3, 4), -0.5, 0.5),
    n("softplus", f(3, 4), 2.0, 1.5),
    n("softmax", f(3, 4, 2), 1),
    n("softmax", f(3, 4), -1, "float64"),
    n("log_softmax", f(3, 4, 2), 0),
    n("maxout", f(2, 6, 2, 2), 3),
    n("prelu", f(2, 3, 2, 2), f(3)),
    n("prelu", f(2, 3), f(1)),
    n("rrelu", f(3, 4), training=False),
]
CONVOLUTIONS = [
    n("conv2d", f(2, 4, 5, 5), f(6, 4, 3, 3)),
    n("conv2d", f(2, 4, 5, 5), f(6, 4, 3, 3), f(6), 2, 1),
    n("conv2d", f(2, 4, 5, 6), f(6, 2, 3, 2), f(6), [1, 2], [1, 0], 1, 2),
    n("conv2d", f(2, 4, 5, 5), f(6, 4, 3, 3), None, 1, "SAME"),
    n("conv2d", f(2, 4, 5, 5), f(6, 4, 2, 2), None, 1, "VALID", 2),
    n("conv2d", f(2, 4, 5, 5), f(6, 4, 3, 3), None, 1, [1, 2, 0, 1]),
    n("conv2d", f(2, 5, 5, 4), f(6, 4, 3, 3), f(6), data_format="NHWC"),
    n("conv2d", f(2, 4, 5, 5), f(4, 1, 3, 3), groups=4),
    n("conv1d", f(2, 4, 7), f(6, 4, 3), f(6), 2, 1),
    n("conv1d", f(2, 4, 7), f(6, 4, 3), padding="SAME"),
    n("conv1d", f(2, 4, 7), f(4, 2, 3), padding=[1, 2], groups=2),
    n("conv3d", f(1, 2, 4, 4, 4), f(3, 2, 2, 2, 2), f(3), 1, 1),
    n("conv2d_transpose", f(2, 4, 4, 4), f(4, 3, 3, 3), f(3), 2, 1),
    n("conv2d_transpose", f(2, 4, 4, 4), f(4, 3, 3, 3), None, 2, 1, 1),
    n("conv2d_transpose", f(2, 4, 4, 4), f(4, 2, 3, 3), None, 2, 1, 0, 1, 2),
    n("conv2d_transpose", f(2, 4, 4, 4), f(4, 3, 3, 3), None, 2, output_size=[10, 10]),
    n("conv1d_transpose", f(2, 4, 5), f(4, 3, 3), f(3), 2, 1),
    n("conv3d_transpose", f(1, 2, 3, 3, 3), f(2, 3, 2, 2, 2), f(3), 2),
]
POOLS = [
    n("max_pool2d", f(2, 3, 6, 6), 2),
    n("max_pool2d", f(2, 3, 7, 7), 3, 2, 1),
    n("max_pool2d", f(2, 3, 7, 7), 2, 2, 0, False, True),
    n("max_pool2d", f(2, 3, 6, 6), 2, return_mask=True),
    n("max_pool1d", f(2, 3, 8), 2),
    n("max_pool1d", f(2, 3, 8), 3, 2, 1),
    n("max_pool3d", f(1, 2, 4, 4, 4), 2),
    n("avg_pool2d", f(2, 3, 6, 6), 2),
    n("avg_pool2d", f(2, 3, 7, 7), 3, 2, 1),
    n("avg_pool2d", f(2, 3, 7, 7), 3, 2, 1, exclusive=False),
    n("avg_pool2d", f(2, 3, 6, 6), 2, divisor_override=3),
    n("avg_pool1d", f(2, 3, 8), 3, 2, 1),
    n("avg_pool3d", f(1, 2, 4, 4, 4), 2),
    n("adaptive_avg_pool2d", f(2, 3, 6, 6), 1),
    n("adaptive_avg_pool2d", f(2, 3, 6, 7), [2, 3]),
    n("adaptive_avg_pool1d", f(2, 3, 8), 4),
    n("adaptive_avg_pool3d", f(1, 2, 4, 4, 4), 2),
    n("adaptive_max_pool2d", f(2, 3, 6, 6), 3),
    n("adaptive_max_pool1d", f(2, 3, 8), 4),
    n("adaptive_max_pool3d", f(1, 2, 4, 4, 4), 2),
]
NORMS = [
    n("batch_norm", f(4, 3, 2, 2), f(3, fixed=True), f(3, low=0.5, fixed=True), f(3), f(3), True),
    n("batch_norm", f(4, 3, 2, 2), f(3, fixed=True), f(3, low=0.5, fixed=True), f(3), f(3)),
    n("layer_norm", f(3, 4), 4, f(4), f(4)),
    n("layer_norm", f(2, 3, 4), [3, 4]),
    n("layer_norm", f(2, 3, 4), [3, 4], f(3, 4), f(3, 4)),
    n("instance_norm", f(2, 3, 4, 4)),
    n("instance_norm", f(2, 3, 4, 4), None, None, f(3), f(3)),
    n("local_response_norm", f(2, 6, 3, 3), 5),
    n("normalize", f(3, 4)),
    n("normalize", f(3, 4), 1, 0),
]
LOSSES = [
    *(n(name, f(3, 4), f(3, 4, fixed=True)) for name in _PAIRED.split()),
    *(n(name, f(3, 4), f(3, 4, fixed=True), "sum") for name in _PAIRED.split()),
    *(n(name, f(3, 4), f(3, 4, fixed=True), "none") for name in _PAIRED.split()),
    n("smooth_l1_loss", f(3, 4), f(3, 4, fixed=True), delta=0.5),
    n("square_error_cost", f(3, 4), f(3, 4, fixed=True)),
    n("cross_entropy", f(4, 5), i(4)),
    n("cross_entropy", f(4, 5), i(4, 1)),
    n("cross_entropy", f(4, 5), i(4, 1), reduction="none"),
    n("cross_entropy", f(4, 5), i(4), reduction="none"),
    n("cross_entropy", f(4, 5), i(4), reduction="sum"),
    n("cross_entropy", f(4, 5), i(4), ignore_index=1),
    n("cross_entropy", f(4, 5), i(4), f(5, low=0.5, fixed=True)),
    n("cross_entropy", f(4, 5), i(4), f(5, low=0.5, fixed=True), reduction="none"),
    n("cross_entropy", f(4, 5), i(4), f(5, low=0.5, fixed=True), 1, "sum"),
    n("cross_entropy", f(4, 5), f(4, 5, low=0, high=1, fixed=True), soft_label=True),
    n("cross_entropy", f(2, 3, 5), i(2, 3)),
    n("cross_entropy", f(2, 5, 3), i(2, 3), axis=1),
    n("cross_entropy", f(4, 5, low=0.1, high=0.9), i(4), use_softmax=False),
    n("cross_entropy", f(4, 5), i(4), label_smoothing=0.1),
    n("softmax_with_cross_entropy", f(4, 5), i(4, 1)),
    n("softmax_with_cross_entropy", f(4, 5), i(4, 1), return_softmax=True),
    n("nll_loss", f(4, 5), i(4)),
    n("nll_loss", f(4, 5), i(4), f(5, low=0.5, fixed=True), reduction="sum"),
    n("nll_loss", f(2, 5, 3, 3), i(2, 3, 3), ignore_index=2),
    n("binary_cross_entropy", f(3, 4, low=0.1, high=0.9), f(3, 4, low=0, high=1, fixed=True)),
    n("binary_cross_entropy_with_logits", f(3, 4), f(3, 4, low=0, high=1, fixed=True)),
    n(
        "binary_cross_entropy_with_logits",
        *(f(3, 4), f(3, 4, low=0, high=1, fixed=True), f(3, 4, low=0, fixed=True), "sum"),
        f(4, low=0.5, fixed=True),
    ),
    n("sigmoid_focal_loss", f(3, 4), f(3, 4, low=0, high=1, fixed=True)),
    n("kl_div", f(3, 4), f(3, 4, low=0.1, high=1, fixed=True)),
    n("kl_div", f(3, 4), f(3, 4, low=0.1, high=1, fixed=True), "batchmean"),
    n("log_loss", f(3, 1, low=0.1, high=0.9), f(3, 1, low=0, high=1, fixed=True)),
    n("margin_ranking_loss", f(3, 4), f(3, 4), f(3, 4, fixed=True), 0.1),
    n("hinge_embedding_loss", f(3, 4), f(3, 4, fixed=True)),
    n("cosine_similarity", f(3, 4), f(3, 4)),
    n("pairwise_distance", f(3, 4), f(3, 4)),
    n("triplet_margin_loss", f(3, 4), f(3, 4), f(3, 4)),
    n("triplet_margin_loss", f(3, 4), f(3, 4), f(3, 4), swap=True, reduction="sum"),
    n("multi_label_soft_margin_loss", f(3, 4), f(3, 4, low=0, high=1, fixed=True)),
    n("dice_loss", f(3, 4, low=0, high=1), i(3, 1, high=4)),
    n("npair_loss", f(3, 4), f(3, 4), f(3, low=0, high=3, fixed=True)),
    n("label_smooth", f(3, 4)),
]
OTHERS = [
    n("linear", f(3, 4), f(4, 2), f(2)),
    n("linear", f(2, 3, 4), f(4, 2), f(2)),
    n("linear", f(3, 4), f(4, 2)),
    n("bilinear", f(3, 4), f(3, 5), f(2, 4, 5), f(1, 2)),
    n("dropout", f(3, 4), 0.3, training=False),
    n("dropout", f(3, 4), 0.3, training=False, mode="downscale_in_infer"),
    n("embedding", i(3, 2), f(5, 4)),
    n("embedding", i(3, 2), f(5, 4), 1),
    n("one_hot", i(3, 2), 5),
    n("sequence_mask", i(4), 6),
    n("sequence_mask", i(4), 6, "float32"),
    n("diag_embed", f(3, 4)),
    n("pad", f(2, 3), [1, 0, 2, 1]),
    n("pad", f(2, 3, 4, 4), [1, 2, 0, 1]),
    n("pad", f(2, 3, 4, 4), [1, 2, 0, 1], "reflect"),
    n("pad", f(2, 3, 4, 4), [1, 2, 0, 1], "replicate"),
    n("pad", f(2, 3, 4, 4), [1, 2, 0, 1], "constant", 2.0),
    n("pad", f(2, 3, 4), [1, 2], data_format="NCL"),
    n("zeropad2d", f(2, 3, 4, 4), [1, 2, 0, 1]),
    n("interpolate", f(2, 3, 4, 4), [8, 6]),
    n("interpolate", f(2, 3, 4, 4), None, 2),
    n("interpolate", f(2, 3, 4, 4), [7, 6], None, "bilinear"),
    n("interpolate", f(2, 3, 4, 4), [7, 6], None, "bilinear", True),
    n("interpolate", f(2, 3, 4, 4), [7, 6], None, "bilinear", False, 1),
    n("interpolate", f(2, 3, 4, 4), [7, 6], None, "bicubic"),
    n("interpolate", f(1, 2, 3, 3, 3), [5, 4, 6], None, "trilinear", data_format="NCDHW"),
    n("interpolate", f(2, 3, 4), [7], None, "linear", data_format="NCW"),
    n("upsample", f(2, 3, 4, 4), None, 2, "bilinear"),
    n("pixel_shuffle", f(1, 8, 2, 2), 2),
    n("pixel_unshuffle", f(1, 2, 4, 4), 2),
    n("channel_shuffle", f(1, 6, 2, 2), 3),
    n("temporal_shift", f(4, 4, 2, 2), 2),
    n("affine_grid", f(2, 2, 3), [2, 3, 4, 4]),
    n("grid_sample", f(2, 3, 4, 4), f(2, 3, 3, 2, low=-1, high=1)),
    n("unfold", f(2, 3, 5, 5), 3),
    n("unfold", f(2, 3, 5, 5), [2, 3], 2, 1),
    n("scaled_dot_product_attention", f(2, 3, 2, 4), f(2, 3, 2, 4), f(2, 3, 2, 4)),
    n("scaled_dot_product_attention", *[f(2, 3, 2, 4)] * 3, b(2, 2, 3, 3)),
    n("scaled_dot_product_attention", *[f(2, 3, 2, 4)] * 3, is_causal=True),
]
GRIDS = [
    *(
        n("grid_sample", f(2, 3, 4, 5), f(2, 3, 3, 2, low=-1.4, high=1.4), mode, around, corners)
        for mode in ("bilinear", "nearest")
        for around in ("zeros", "border", "reflection")
        for corners in (True, False)
    ),
    n("grid_sample", f(1, 2, 3, 4, 5), f(1, 2, 3, 3, 3, low=-1.2, high=1.2)),
    n("grid_sample", f(1, 2, 3, 4, 5), f(1, 2, 3, 3, 3, low=-1, high=1), "nearest"),
    n("affine_grid", f(2, 2, 3), [2, 3, 4, 5], False),
    n("affine_grid", f(2, 3, 4), [2, 1, 2, 3, 4]),
    n("affine_grid", f(2, 3, 4), [2, 1, 2, 3, 4], False),
    n("fold", f(2, 12, 12), [4, 5], 2),
    n("fold", f(2, 8, 12), [5, 6], [2, 2], 2, [1, 1]),
    n("fold", f(2, 12, 12), [7, 6], [2, 3], 2, [1, 0, 0, 2], 1),
]
LIKELIHOODS = [
    n("gaussian_nll_loss", f(3, 4), f(3, 4), f(3, 4, low=0.1, high=2)),
    n("gaussian_nll_loss", f(3, 4), f(3, 4), f(3, low=0.1, high=2), True, reduction="sum"),
    n("gaussian_nll_loss", f(3, 4), f(3, 4), f(3, 1, low=0.1, high=2), reduction="none"),
    n("poisson_nll_loss", f(3, 4), f(3, 4, low=0, high=4, fixed=True)),
    n("poisson_nll_loss", f(3, 4), f(3, 4, low=0.2, high=4, fixed=True), True, True),
    n("poisson_nll_loss", f(3, 4, low=0.2), f(3, 4, low=0, high=4, fixed=True), False),
    n("multi_margin_loss", f(3, 4), i(3, high=4)),
    n("multi_margin_loss", f(3, 4), i(3, high=4), 2, 0.5, reduction="none"),
    n("multi_margin_loss", f(3, 4), i(3, high=4), 1, 1.0, f(4, low=0.1, high=1, fixed=True)),
    n("hsigmoid_loss", f(3, 4), i(3, 1, high=6), 6, f(5, 4), f(5, 1)),
    n("hsigmoid_loss", f(3, 4), i(3, 1, high=6), 6, f(5, 4)),
]
CASES = numbered(
    [*ACTIVATIONS, *CONVOLUTIONS, *POOLS, *NORMS, *LOSSES, *OTHERS, *GRIDS, *LIKELIHOODS]
)
