"""`paddle.nn.layer`: what the layers of `paddle.nn` are made of."""

from refluid.paddle.naming import name_table

name_table(__name__, "")
