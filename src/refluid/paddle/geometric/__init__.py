"""`paddle.geometric`: rows reduced by segments, and messages along the edges of graphs."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.geometric.segments: segment_max segment_mean segment_min segment_sum
    refluid.paddle.geometric.messages: send_u_recv send_ue_recv send_uv
    """,
)
