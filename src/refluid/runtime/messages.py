"""Messages about values that are missing, in Fluid's words."""

from __future__ import annotations

from refluid.ir.operator import Operator


def not_initialized(op: Operator, slot: str, name: str) -> str:
    """Fluid's message for an operator whose input has no value."""
    where = "\n".join(op.callstack)
    return (
        f"The Tensor in the {op.title} Op's Input Variable {slot}({name}) is not initialized. "
        f"Feed {name!r}, or run the operators that compute it first.\n{where}\n"
        f"  [operator < {op.title} > error]"
    )


def not_in_scope(name: str) -> str:
    """Fluid's message for a persistable variable that nobody initialised."""
    return (
        f"The Input variable {name} has not been initialized. You may need to confirm if you put "
        "exe.run(startup_program) after optimizer.minimize function."
    )
