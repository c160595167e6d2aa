"""[x, h]·W = x·W₁ + h·W₂, where x needs no earlier step and h, one or several joined, does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise

from refluid.ir.editor import Editor
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.passes.time_steps.loop import Loop
from refluid.passes.time_steps.products import ONE_STEP, is_product

_GRADS = "X" + GRAD


@dataclass(frozen=True)
class _Part:
    """Names side by side in what is joined, and what their rows of the matrix are called.

    term: their product. whole: what is multiplied, the only name or those joined.
    """

    names: list[str]
    whole: str
    rows: str
    term: str


def split_joined(loop: Loop) -> None:
    """Splits all such products of the body, and those of the gradient block."""
    for concat in [op for op in loop.body.ops if op.type == "concat"]:
        for name in concat.input("X"):
            _flatten(loop, concat, name)
    for concat in [op for op in loop.body.ops if op.type == "concat"]:
        product = _product_of(loop, concat)
        if product is None:
            continue
        if loop.backward is None:
            _split(loop, concat, product)
            continue
        grads = _gradients(loop, concat, product)
        if grads is not None:
            parts = _split(loop, concat, product)
            _split_gradient(loop, parts, *grads)
    loop.place()


def _flatten(loop: Loop, outer: Operator, name: str) -> None:
    """[[x, y], z] as [x, y, z], where nobody else reads [x, y], which has this name."""
    inner = [
        op for op in loop.body.ops if op.output_arg_names == [name] and _joins_columns(loop, op)
    ]
    readers = [op for op in loop.body.ops if name in op.input_arg_names]
    if not inner or not _joins_columns(loop, outer) or loop.leaves(name) or readers != [outer]:
        return
    place, parts = outer.input("X").index(name), inner[0].input("X")
    if outer.input("X").count(name) > 1:
        return
    joining = [outer]
    if loop.gradient is not None:
        after, before = loop.gradient_of(outer), loop.gradient_of(inner[0])
        their = [op for op in loop.gradient_ops if {name, name + GRAD} & {*op.input_arg_names}]
        if after is None or before is None or any(op not in (after, before) for op in their):
            return
        grads, inside = after.output(_GRADS), before.output(_GRADS)
        if len(inside) != len(parts) or grads[place : place + 1] != before.input("Out" + GRAD):
            return
        after.set_output(_GRADS, [*grads[:place], *inside, *grads[place + 1 :]])
        Editor(loop.gradient).remove(before)
        joining.append(after)
    for op in joining:
        given = op.input("X")
        op.set_input("X", [*given[:place], *parts, *given[place + 1 :]])
    Editor(loop.body).remove(inner[0])


def _joins_columns(loop: Loop, op: Operator) -> bool:
    """Whether it joins matrices whose numbers of columns are known."""
    shapes = [loop.shape(name) for name in op.input("X")]
    return (
        op.type == "concat"
        and op.attr("axis") in (1, -1)
        and not op.input("AxisTensor")
        and all(len(shape) == 2 and shape[1] > 0 for shape in shapes)
    )


def _product_of(loop: Loop, concat: Operator) -> Operator | None:
    """The product that alone reads what is joined, some of which needs no earlier step."""
    names, (joined,) = concat.input("X"), concat.output("Out")
    bound = loop.bound()
    readers = [op for op in loop.body.ops if joined in op.input_arg_names]
    fits = (
        _joins_columns(loop, concat)
        and 0 < len(bound & set(names)) < len(set(names)) == len(names)
        and len(readers) == 1
        and not loop.leaves(joined)
    )
    if not fits or not is_product(loop, readers[0]) or readers[0].input("X") != [joined]:
        return None
    return readers[0]


def _gradients(loop: Loop, concat: Operator, product: Operator) -> tuple[Operator, Operator] | None:
    """The gradient operators of both; None where others read what goes."""
    (joined,), (weight,) = concat.output("Out"), product.input("Y")
    after, before = loop.gradient_of(product), loop.gradient_of(concat)
    readers = [op for op in loop.gradient_ops if joined in op.input_arg_names]
    if after is None or before is None or any(one is not after for one in readers):
        return None
    followers = [op for op in loop.gradient_ops if joined + GRAD in op.input_arg_names]
    if any(one is not before for one in followers):
        return None
    given = after.output("Y" + GRAD)
    plain = given in ([], [EMPTY]) or given == [weight + GRAD]
    wanted = loop.outer_gradient("parameters", weight) is not None
    return (after, before) if plain and (wanted or given != [weight + GRAD]) else None


def _parts(loop: Loop, concat: Operator, result: str) -> Iterator[_Part]:
    """Each name that needs no earlier step, and as one those that do and lie side by side."""
    bound, place = loop.bound(), 0
    for joined, group in groupby(concat.input("X"), bound.__contains__):
        names = list(group)
        for some in [names] if joined else [[name] for name in names]:
            whole = some[0] if len(some) == 1 else f"{result}@JOINED{place}"
            yield _Part(some, whole, f"{result}@ROWS{place}", f"{result}@PART{place}")
            place += 1


def _split(loop: Loop, concat: Operator, product: Operator) -> list[_Part]:
    """The parts, after the product in the body was replaced by theirs."""
    (weight,), (result,) = product.input("Y"), product.output("Out")
    parts = list(_parts(loop, concat, result))
    widths = [sum(int(loop.shape(name)[1]) for name in part.names) for part in parts]
    columns, shape = int(loop.shape(weight)[1]), loop.shape(result)
    dtype, made = loop.body.var_recursive(result).dtype, list[Operator]()
    for part, (start, end) in zip(parts, pairwise(accumulate(widths, initial=0)), strict=True):
        loop.declare(part.rows, [end - start, columns], like=weight)
        cut = {"axes": [0], "starts": [start], "ends": [end], "decrease_axis": []}
        given = {"Input": [weight]}, {"Out": [part.rows]}
        loop.before.append(loop.make(product, "slice", *given, cut))
        loop.add_input("parameters", part.rows)
        if part.whole not in part.names:
            loop.body.create_var(name=part.whole, shape=[shape[0], end - start], dtype=dtype)
            given = {"X": part.names}, {"Out": [part.whole]}
            made.append(loop.make(concat, "concat", *given, {"axis": 1}, loop.body))
        loop.body.create_var(name=part.term, shape=shape, dtype=dtype)
        given = {"X": [part.whole], "Y": [part.rows]}, {"Out": [part.term]}
        made.append(loop.make(product, "mul", *given, ONE_STEP, loop.body))
    terms = [part.term for part in parts]
    made.append(loop.make(product, "sum", {"X": terms}, {"Out": [result]}, None, loop.body))
    editor = Editor(loop.body)
    editor.replace(product, *made)
    editor.remove(concat)
    return parts


def _split_gradient(loop: Loop, parts: list[_Part], product: Operator, concat: Operator) -> None:
    """The same in the gradient block; the matrix's gradient is joined after the loop."""
    block, (weight,) = loop.gradient, product.input("Y")
    assert block is not None
    flowing, left = product.input("Out" + GRAD), iter(concat.output(_GRADS))
    wanted = product.output("Y" + GRAD) == [weight + GRAD]
    made, grads = list[Operator](), list[str]()
    for part in parts:
        its = [next(left) for _ in part.names]
        several = part.whole not in part.names and set(its) != {EMPTY}
        whole = part.whole + GRAD if several else its[0]
        given = {"X": [part.whole], "Y": [part.rows], "Out" + GRAD: flowing}
        outputs = {_GRADS: [whole], "Y" + GRAD: [part.rows + GRAD if wanted else EMPTY]}
        made.append(loop.make(product, "mul_grad", given, outputs, ONE_STEP, block))
        if several:
            var = loop.body.var_recursive(part.whole)
            block.create_var(name=whole, shape=var.shape, dtype=var.dtype)
            given = {"X": part.names, "Out" + GRAD: [whole]}
            made.append(loop.make(concat, "concat_grad", given, {_GRADS: its}, {"axis": 1}, block))
        if wanted:
            dtype, shape = block.var_recursive(part.rows).dtype, loop.shape(part.rows)
            block.create_var(name=part.rows + GRAD, shape=shape, dtype=dtype)
            loop.declare(part.rows + GRAD, shape, like=part.rows)
            loop.own("parameters", part.rows, part.rows + GRAD)
            grads.append(part.rows + GRAD)
    editor = Editor(block)
    editor.replace(product, *made)
    editor.remove(concat)
    outer = loop.outer_gradient("parameters", weight)
    if wanted and outer is not None:
        join = loop.make(product, "concat", {"X": grads}, {"Out": [outer]}, {"axis": 0})
        loop.after.append(join)
        loop.disown("parameters", weight)
