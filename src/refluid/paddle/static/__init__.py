"""`paddle.static`: what of Paddle 2's static graphs refluid offers."""

from refluid.paddle.static import amp

__all__ = ["amp"]
