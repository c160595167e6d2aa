"""`paddle.amp`: mixed precision where functions run at once; programs have `paddle.static.amp`."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.amp.casting: amp_guard=auto_cast auto_cast is_bfloat16_supported
    refluid.paddle.amp.casting: is_float16_supported
    refluid.paddle.amp.decorating: amp_decorate=decorate decorate
    refluid.paddle.amp.lists: black_list white_list
    refluid.paddle.amp.scaling: AmpScaler GradScaler
    """,
)
