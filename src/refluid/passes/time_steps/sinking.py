"""Gradients that lead to no earlier step, computed after the loop for all steps at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from refluid.ir.editor import Editor
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.ops.registry import facts_of
from refluid.passes.time_steps.hoisting import of_all_steps
from refluid.passes.time_steps.loop import Loop
from refluid.passes.time_steps.products import (
    ALL_STEPS,
    OUT_AXIS,
    is_product,
    is_product_of_vectors,
    vector_axis,
)

# The operators that give a part of a weight's gradient, after the loop: of one of the body, its
# gradient operator and the name of that part.
OfAll = Callable[[Loop, Operator, Operator, str], list[Operator]]
# An operator of the body, that of its gradients, which gives a part, the weight's slot, and how.
Giver = tuple[Operator, Operator, str, OfAll]

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
    for weight in list(loop.backward.input("parameters")):
        moved += _sink_weight(loop, weight)
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


def _sink_weight(loop: Loop, weight: str) -> list[str]:
    """The weight's gradient from what all steps give; the types of what was moved: of all that it
    is the sum of, or of nothing."""
    wanted = loop.outer_gradient("parameters", weight)
    if wanted is None or _readers(loop, weight + GRAD):
        return []
    terms = _terms(loop, weight + GRAD)
    sources = [one for term in terms for one in _sources(loop, weight, term)]
    if len(sources) != len(terms):
        return []
    names = [wanted] if len(terms) == 1 else [f"{term}@SUM" for term in terms]
    for (op, grad, slot, of_all), name in zip(sources, names, strict=True):
        if name != wanted:
            loop.declare(name, loop.shape(weight), like=weight)
        loop.after += of_all(loop, op, grad, name)
        grad.set_output(slot + GRAD, [EMPTY])
    if names != [wanted]:
        loop.after.append(loop.make(sources[0][1], "sum", {"X": names}, {"Out": [wanted]}))
    loop.disown("parameters", weight)
    return [grad.type for _, grad, _, _ in sources]


def _terms(loop: Loop, total: str) -> list[str]:
    """The parts that a gradient is the sum of, if nobody else reads one; or itself."""
    for op in loop.gradient_ops:
        if total in op.output_arg_names and facts_of(op.type).adds:
            terms = list(op.input("X"))
            alone = all(_readers(loop, term) == [op] for term in terms)
            return terms if alone and len(set(terms)) == len(terms) else [total]
    return [total]


def _sources(loop: Loop, weight: str, term: str) -> Iterator[Giver]:
    """What gives this part of the weight's gradient, where it can be had of all steps."""
    for op in (*loop.body.ops, *loop.hoisted):
        grad = loop.gradient_of(op)
        for slot in ("X", "Y"):
            if grad is not None and grad.output(slot + GRAD) == [term]:
                of_all = _of_all(loop, op, slot) if op.input(slot) == [weight] else None
                if of_all is not None:
                    yield op, grad, slot, of_all


def _of_all(loop: Loop, op: Operator, slot: str) -> OfAll | None:
    """How the gradient of an input that all steps share follows from what all of them give."""
    if slot == "Y" and is_product(loop, op):
        return _of_rows
    if slot == "Y" and _is_bias(loop, op):
        return _of_columns
    return partial(_of_vectors, slot=slot) if is_product_of_vectors(loop, op, slot) else None


def _of_rows(loop: Loop, op: Operator, grad: Operator, wanted: str) -> list[Operator]:
    (x,), (y,), (flowing,) = op.input("X"), op.input("Y"), grad.input(_OUT)
    rows = loop.all_gradients(flowing, like=op.output("Out")[0])
    given = {"X": [loop.all_steps(x)], "Y": [y], _OUT: [rows]}
    return [loop.make(grad, "mul_grad", given, {_Y: [wanted]}, ALL_STEPS)]


def _of_columns(loop: Loop, op: Operator, grad: Operator, wanted: str) -> list[Operator]:
    (x,), (flowing,) = op.input("X"), grad.input(_OUT)
    rows = loop.all_gradients(flowing, like=op.output("Out")[0])
    axes = list(range(len(loop.shape(x))))
    return [loop.make(grad, "reduce_sum", {"X": [rows]}, {"Out": [wanted]}, {"dim": axes})]


def _of_vectors(
    loop: Loop, op: Operator, grad: Operator, wanted: str, *, slot: str
) -> list[Operator]:
    """The vectors of all steps make one matrix for each sample."""
    other, (flowing,) = "X" if slot == "Y" else "Y", grad.input(_OUT)
    (vector,), (out,) = op.input(other), op.output("Out")
    made: list[Operator] = []

    def matrices(name: str, like: str, axis: int) -> list[str]:
        """Of [time, ..] with size 1 at the axis of `like`: the steps are there instead."""
        sizes = [*loop.shape(like)]
        axis += len(sizes) + 1
        axes = [*range(1, axis), 0, *range(axis, len(sizes) + 1)]
        sizes.insert(axis - 1, loop.steps)
        moved, found = f"{name}@BESIDE@{wanted}", f"{name}@MATRIX@{wanted}"
        loop.declare(moved, sizes, like=like)
        loop.declare(found, [*sizes[:axis], *sizes[axis + 1 :]], like=like)
        made.append(loop.make(grad, "transpose", {"X": [name]}, {"Out": [moved]}, {"axis": axes}))
        made.append(loop.make(grad, "squeeze", {"X": [moved]}, {"Out": [found]}, {"axes": [axis]}))
        return [found]

    given = {
        slot: op.input(slot),
        other: matrices(loop.all_steps(vector), vector, vector_axis(op, other)),
        _OUT: matrices(loop.all_gradients(flowing, like=out), out, OUT_AXIS[other]),
    }
    made.append(loop.make(grad, grad.type, given, {slot + GRAD: [wanted]}, dict(grad.attrs)))
    return made


def _is_bias(loop: Loop, op: Operator) -> bool:
    """Whether it adds one number per column, the same in all rows and steps."""
    if op.type != "elementwise_add" or not loop.is_invariant(op.input("Y")[0]):
        return False
    x, y = (loop.shape(op.input(slot)[0]) for slot in ("X", "Y"))
    columns = len(y) == 1 and len(x) > 1 and x[-1] == y[0] > 1
    return columns and op.attrs.get("axis", -1) in (-1, len(x) - 1)
