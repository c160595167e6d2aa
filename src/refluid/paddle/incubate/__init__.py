"""`paddle.incubate`: fused layers in `nn`, and what Paddle tries out."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.geometric.segments: segment_max segment_mean segment_min segment_sum
    refluid.paddle.incubate.functions: graph_send_recv identity_loss softmax_mask_fuse
    refluid.paddle.incubate.functions: softmax_mask_fuse_upper_triangle
    refluid.paddle.incubate.optimizers: LookAhead ModelAverage
    """,
)
