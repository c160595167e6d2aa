"""`paddle.incubate.hapi` of Fluid 1.8: a sampler and transforms; `paddle.Model` is of Paddle 2."""

from refluid.paddle.incubate.hapi import distributed, vision

__all__ = ["distributed", "vision"]
