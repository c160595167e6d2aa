"""`paddle.incubate.hapi.vision`."""

from refluid.paddle.incubate.hapi.vision import transforms
from refluid.paddle.incubate.hapi.vision.transforms import *  # noqa: F403

__all__ = [*transforms.__all__]
