"""Gradients that lead to no earlier step, computed after the loop for all steps at once."""

from __future__ import annotations

from refluid.ir.editor import Editor
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.passes.time_steps.hoisting import of_all_steps
from refluid.passes.time_steps.loop import Loop
from refluid.passes.time_steps.products import ALL_STEPS, is_product

_X, _Y, _OUT = "X" + GRAD, "Y" + GRAD, "Out" + GRAD


def sink(loop: Loop) -> list[str]:
    """Moves gradients of what was hoisted, and those of weights; the types of what was moved."""
    if loop.backward is None:
        return []
    moved, outer = [], dict[str, str]()
    for op in reversed(loop.hoisted):
        grad = loop.gradient_of(op)
        if grad is not None and _may_sink(loop, op):
            _sink_all(loop, op, grad, outer)
            moved.append(grad.type)
    for op in (*loop.body.ops, *loop.hoisted):
        grad = loop.gradient_of(op)
        if grad is not None and _leads_to_weight(loop, grad):
            moved += _sink_weight(loop, op, grad)
    loop.place()
    return moved


def _leads_to_weight(loop: Loop, grad: Operator) -> bool:
    """Whether it gives the whole gradient of a weight, as the outer block wants it."""
    given = grad.output(_Y)
    return (
        bool(given)
        and given == [grad.input("Y")[0] + GRAD]
        and loop.outer_gradient("parameters", grad.input("Y")[0]) is not None
        and not _readers(loop, given[0])
    )


def _may_sink(loop: Loop, op: Operator) -> bool:
    """Whether nothing in the loop needs what the gradient of this hoisted operator gives."""
    grad = loop.gradient_of(op)
    if grad is None:
        return False
    if set(grad.output(_Y)) - {EMPTY} and not _leads_to_weight(loop, grad):
        return False
    (x,) = op.input("X")
    if not set(grad.output(_X)) - {EMPTY}:
        return True
    if grad.output(_X) != [x + GRAD]:
        return False
    makers = [one for one in loop.hoisted if one.output("Out") == [x]]
    if not makers:
        return loop.outer_gradient("inputs", x) is not None and not _readers(loop, x + GRAD)
    readers = _readers(loop, x + GRAD)
    return readers == [loop.gradient_of(makers[0])] and _may_sink(loop, makers[0])


def _readers(loop: Loop, name: str) -> list[Operator]:
    return [op for op in loop.gradient_ops if name in op.input_arg_names]


def _sink_all(loop: Loop, op: Operator, grad: Operator, outer: dict[str, str]) -> None:
    """The operator for all steps, after the loop. outer: gradients that are outside already."""
    found, block = of_all_steps(loop, op), loop.gradient
    assert found is not None and block is not None
    (flowing,) = grad.input(_OUT)
    given = {slot: list(names) for slot, names in grad.inputs.items()}
    given[_OUT] = [outer.get(flowing) or loop.all_gradients(flowing, like=op.output("Out")[0])]
    outputs: dict[str, list[str | None]] = {}
    if set(grad.output(_X)) - {EMPTY}:
        (x,) = op.input("X")
        outputs[_X] = [_gradient_outside(loop, x, outer)]
    if set(grad.output(_Y)) - {EMPTY}:
        (y,) = op.input("Y")
        outputs[_Y] = [loop.outer_gradient("parameters", y)]
        loop.disown("parameters", y)
    loop.after.append(loop.make(grad, f"{found[0]}_grad", given, outputs, found[1]))
    Editor(block).remove(grad)


def _gradient_outside(loop: Loop, x: str, outer: dict[str, str]) -> str:
    """What the outer block calls the gradient of an input of the loop, or of what was hoisted."""
    found = loop.outer_gradient("inputs", x)
    if found is not None:
        loop.disown("inputs", x)
        return found
    loop.declare(x + GRAD, [loop.steps, *loop.shape(x)], like=x)
    outer[x + GRAD] = x + GRAD
    return x + GRAD


def _sink_weight(loop: Loop, op: Operator, grad: Operator) -> list[str]:
    """The weight's gradient from the rows of all steps; what was moved."""
    (x,), (y,), (flowing,) = op.input("X"), op.input("Y"), grad.input(_OUT)
    wanted = [loop.outer_gradient("parameters", y)]
    if is_product(loop, op):
        rows = loop.all_gradients(flowing, like=op.output("Out")[0])
        given = {"X": [loop.all_steps(x)], "Y": [y], _OUT: [rows]}
        made = loop.make(grad, "mul_grad", given, {_Y: wanted}, ALL_STEPS)
    elif _is_bias(loop, op):
        rows = loop.all_gradients(flowing, like=op.output("Out")[0])
        axes = list(range(len(loop.shape(x))))
        made = loop.make(grad, "reduce_sum", {"X": [rows]}, {"Out": wanted}, {"dim": axes})
    else:
        return []
    loop.after.append(made)
    loop.disown("parameters", y)
    grad.set_output(_Y, [EMPTY])
    return [grad.type]


def _is_bias(loop: Loop, op: Operator) -> bool:
    """Whether it adds one number per column, the same in all rows and steps."""
    if op.type != "elementwise_add" or not loop.is_invariant(op.input("Y")[0]):
        return False
    x, y = (loop.shape(op.input(slot)[0]) for slot in ("X", "Y"))
    columns = len(y) == 1 and len(x) > 1 and x[-1] == y[0] > 1
    return columns and op.attrs.get("axis", -1) in (-1, len(x) - 1)
