"""`paddle.utils.preprocess_img`: pictures scaled as programs did it before Fluid."""

from __future__ import annotations

from refluid.paddle.utils.image_util import crop_img, resize_image

__all__ = ["crop_img", "resize_image"]
