"""`paddle.autograd`: gradients written by hand, and of several variables at once."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.autograd.derivatives: hessian jacobian
    refluid.paddle.autograd.layers: PyLayer PyLayerContext
    refluid.paddle.autograd.running: backward saved_tensors_hooks
    """,
)
