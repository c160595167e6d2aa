"""`paddle.incubate.hapi.vision.transforms`."""

from refluid.paddle.incubate.hapi.vision.transforms import transforms
from refluid.paddle.incubate.hapi.vision.transforms.transforms import *  # noqa: F403

__all__ = [*transforms.__all__]
