"""`paddle.incubate`: fused layers in `nn`, and what Paddle tries out."""

from refluid.paddle.naming import name_table

name_table(__name__, "")
