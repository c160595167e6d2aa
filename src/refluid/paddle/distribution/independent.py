"""`paddle.distribution.independent`: where Paddle has `Independent`."""

from refluid.paddle.naming import name_table

name_table(__name__, "refluid.paddle.distribution.derived: Independent")
