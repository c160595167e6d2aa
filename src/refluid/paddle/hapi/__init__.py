"""`paddle.hapi`: networks that are trained, evaluated and saved by one call each."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.hapi.model: Model
    refluid.paddle.hapi.summaries: summary
    refluid.paddle.hapi.counting: flops
    """,
)
