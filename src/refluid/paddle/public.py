"""The public names of `paddle`, which its package takes from here."""

from refluid import fluid
from refluid.paddle import reader, static
from refluid.paddle.batch import batch

__all__ = ["batch", "fluid", "reader", "static"]
