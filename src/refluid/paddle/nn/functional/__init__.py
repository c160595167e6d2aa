"""`paddle.nn.functional`: layers whose parameters are given."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.tensor.math: sigmoid tanh
    refluid.fluid.functions.tensor.arranging: diag_embed
    refluid.paddle.nn.functional.activation: celu elu gelu glu gumbel_softmax hardshrink
    refluid.paddle.nn.functional.activation: hardsigmoid hardswish hardtanh leaky_relu
    refluid.paddle.nn.functional.activation: log_sigmoid log_softmax maxout mish prelu relu relu6
    refluid.paddle.nn.functional.activation: rrelu selu silu softmax softplus softshrink softsign
    refluid.paddle.nn.functional.activation: swish tanhshrink thresholded_relu
    refluid.paddle.nn.functional.conv: conv1d conv1d_transpose conv2d conv2d_transpose conv3d
    refluid.paddle.nn.functional.conv: conv3d_transpose
    refluid.paddle.nn.functional.distances: cosine_embedding_loss cosine_similarity dice_loss
    refluid.paddle.nn.functional.distances: hinge_embedding_loss l1_loss log_loss
    refluid.paddle.nn.functional.distances: margin_ranking_loss mse_loss npair_loss
    refluid.paddle.nn.functional.distances: multi_label_soft_margin_loss pairwise_distance
    refluid.paddle.nn.functional.distances: smooth_l1_loss soft_margin_loss square_error_cost
    refluid.paddle.nn.functional.distances: triplet_margin_loss triplet_margin_with_distance_loss
    refluid.paddle.nn.functional.in_place: elu_ hardtanh_ leaky_relu_ relu_ softmax_ tanh_
    refluid.paddle.nn.functional.in_place: thresholded_relu_
    refluid.paddle.nn.functional.likelihoods: gaussian_nll_loss hsigmoid_loss margin_cross_entropy
    refluid.paddle.nn.functional.likelihoods: multi_margin_loss poisson_nll_loss
    refluid.paddle.nn.functional.loss: binary_cross_entropy binary_cross_entropy_with_logits
    refluid.paddle.nn.functional.loss: cross_entropy ctc_loss kl_div nll_loss sigmoid_focal_loss
    refluid.paddle.nn.functional.loss: rnnt_loss
    refluid.paddle.nn.functional.loss: softmax_with_cross_entropy
    refluid.paddle.nn.functional.norm: batch_norm group_norm instance_norm layer_norm
    refluid.paddle.nn.functional.norm: local_response_norm normalize
    refluid.paddle.nn.functional.pooling: adaptive_avg_pool1d adaptive_avg_pool2d
    refluid.paddle.nn.functional.pooling: adaptive_avg_pool3d adaptive_max_pool1d
    refluid.paddle.nn.functional.pooling: adaptive_max_pool2d adaptive_max_pool3d avg_pool1d
    refluid.paddle.nn.functional.pooling: avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d
    refluid.paddle.nn.functional.shapes: alpha_dropout bilinear dropout dropout2d dropout3d
    refluid.paddle.nn.functional.shapes: embedding
    refluid.paddle.nn.functional.shapes: gather_tree label_smooth linear one_hot pad
    refluid.paddle.nn.functional.shapes: scaled_dot_product_attention sequence_mask
    refluid.paddle.nn.functional.unpooling: max_unpool1d max_unpool2d max_unpool3d
    refluid.paddle.nn.functional.vision: affine_grid channel_shuffle fold grid_sample interpolate
    refluid.paddle.nn.functional.vision: pixel_shuffle pixel_unshuffle temporal_shift unfold
    refluid.paddle.nn.functional.vision: upsample zeropad2d
    """,
)
