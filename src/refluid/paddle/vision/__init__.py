"""`paddle.vision`: models, transforms and how images are read."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.vision.images: get_image_backend image_load set_image_backend
    """,
)
