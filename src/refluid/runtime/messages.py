"""Messages about values that are missing or wrong, in Fluid's words."""

from __future__ import annotations

from refluid.comm.world import ownership_hint
from refluid.core.advice import number_outside
from refluid.ir.operator import Operator
from refluid.ops.registry import facts_of


class KernelFailed(RuntimeError):
    """A kernel of a compiled function failed, of that operator."""

    def __init__(self, message: str, op: Operator) -> None:
        super().__init__(message)
        self.op = op


def not_initialized(op: Operator, slot: str, name: str) -> str:
    """Fluid's message for an operator whose input has no value, and why it has none."""
    where = op.made_at
    maker = _maker(op, name)
    if maker is None:
        why = f"Feed {name!r}, or run the operators that compute it first."
    else:
        made = maker.made_at
        slots = [one for one, names in maker.outputs.items() if name in names]
        why = (
            f"Operator {maker.title}, made here, gave no value for its output {slots[0]}:\n{made}\n"
            "The one that needs it was made here:"
        )
    return (
        f"The Tensor in the {op.title} Op's Input Variable {slot}({name}) is not initialized. "
        f"{why}\n{where}\n  [operator < {op.title} > error]"
    )


def _maker(op: Operator, name: str) -> Operator | None:
    """The last operator before `op` in its block that writes the variable."""
    before = op.block.ops[: op.block.ops.index(op)] if op in op.block.ops else []
    writers = [one for one in before if name in one.output_arg_names]
    return writers[-1] if writers else None


def no_row(op: Operator, ids: str, number: int, place: int, rows: int) -> str:
    """Fluid's message for an id that is no row of a table."""
    layer = facts_of(op.type).layer or op.type
    return (
        f"Variable value (input) of OP(fluid.layers.{layer}) expected >= 0 and < {rows}, but got "
        f"{number}. Please check input value: element {place} of {ids!r} is no row of the table, "
        f"which has {rows}"
    )


def no_class(op: Operator, error: str) -> str | None:
    """Fluid's message for a label that is no class, where torch's error says so."""
    labels = op.input(facts_of(op.type).classes) if facts_of(op.type).classes else ()
    found = number_outside(error)
    if not labels or found is None:
        return None
    number, classes = found
    layer = f"OP(fluid.layers.{facts_of(op.type).layer or op.type})"
    wrong = f"{labels[0]!r} holds a number that is no class"
    if number is None:
        return f"{wrong} of {layer}. Please check label value"
    return (
        f"Variable value (label) of {layer} expected >= 0 and < {classes}, but got {number}. "
        f"Please check label value: {wrong}"
    )


def not_in_scope(name: str) -> str:
    """Fluid's message for a persistable variable that nobody initialised."""
    return (
        f"The Input variable {name} has not been initialized. You may need to confirm if you put "
        f"exe.run(startup_program) after optimizer.minimize function.{ownership_hint()}"
    )


def not_to_fetch(name: str) -> str:
    """What is fetched and nobody has."""
    return (
        f"Cannot fetch {name!r}: it cannot be found in the program or in the scope, or nothing in "
        "the program computes it. Fetch a variable of the program that is being run."
    )
