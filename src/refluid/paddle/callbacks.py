"""`paddle.callbacks`: what is called while a `paddle.Model` trains."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.hapi.callbacks: Callback LRScheduler ModelCheckpoint VisualDL WandbCallback
    refluid.paddle.hapi.monitors: EarlyStopping ReduceLROnPlateau
    refluid.paddle.hapi.progress: ProgBarLogger
    """,
)
