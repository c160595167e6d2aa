"""`paddle.nn`: layers, functions, initializers and gradient clips."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.nn.clip: ClipGradByGlobalNorm ClipGradByNorm ClipGradByValue
    """,
)
