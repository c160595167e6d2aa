"""`paddle.optimizer`: Fluid's optimizers with Paddle 2's arguments, and schedules in `lr`."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.optimizer.updating: Optimizer
    refluid.paddle.optimizer.descending: SGD Momentum Lamb LarsMomentum
    refluid.paddle.optimizer.adaptive: Adam AdamW Adamax Adagrad Adadelta RMSProp
    refluid.paddle.optimizer.quasi_newton: LBFGS
    """,
)
