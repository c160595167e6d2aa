"""Whether an error shows the one that it follows from."""

from __future__ import annotations

from refluid.core import flags


def shown_cause(error: BaseException) -> BaseException | None:
    """For `raise clear from shown_cause(error)`, where `clear` says all that `error` does.

    The error itself with FLAGS_call_stack_level=2. Else nothing: what follows would be frames of
    refluid and of torch. `__context__` holds it all the same.
    """
    return error if int(flags.value("call_stack_level")) > 1 else None
