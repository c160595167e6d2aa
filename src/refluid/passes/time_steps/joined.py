"""[x, h]·W = x·W₁ + h·W₂, where x needs no earlier step and h does."""

from __future__ import annotations

from itertools import accumulate, pairwise

from refluid.ir.editor import Editor
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.passes.time_steps.loop import Loop
from refluid.passes.time_steps.products import ONE_STEP, is_product


def split_joined(loop: Loop) -> None:
    """Splits all such products of the body, and those of the gradient block."""
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


def _product_of(loop: Loop, concat: Operator) -> Operator | None:
    """The product that alone reads what is joined, some of which needs no earlier step."""
    names, (joined,) = concat.input("X"), concat.output("Out")
    bound = loop.bound()
    readers = [op for op in loop.body.ops if joined in op.input_arg_names]
    shapes = [loop.shape(name) for name in names]
    fits = (
        concat.attr("axis") in (1, -1)
        and not concat.input("AxisTensor")
        and all(len(shape) == 2 and shape[1] > 0 for shape in shapes)
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


def _split(loop: Loop, concat: Operator, product: Operator) -> list[tuple[str, str]]:
    """(part, its rows of the matrix), after the product in the body was replaced by theirs."""
    (weight,), (result,) = product.input("Y"), product.output("Out")
    names = concat.input("X")
    ends = accumulate((int(loop.shape(name)[1]) for name in names), initial=0)
    width, dtype = int(loop.shape(weight)[1]), loop.body.var_recursive(result).dtype
    parts, made = [], []
    for place, (name, (start, end)) in enumerate(zip(names, pairwise(ends), strict=True)):
        rows, term = f"{result}@ROWS{place}", f"{result}@PART{place}"
        loop.declare(rows, [end - start, width], like=weight)
        cut = {"axes": [0], "starts": [start], "ends": [end], "decrease_axis": []}
        before = loop.make(product, "slice", {"Input": [weight]}, {"Out": [rows]}, cut)
        loop.before.append(before)
        loop.add_input("parameters", rows)
        loop.body.create_var(name=term, shape=loop.shape(result), dtype=dtype)
        given = {"X": [name], "Y": [rows]}
        made.append(loop.make(product, "mul", given, {"Out": [term]}, ONE_STEP, loop.body))
        parts.append((name, rows))
    terms = [op.output("Out")[0] for op in made]
    made.append(loop.make(product, "sum", {"X": terms}, {"Out": [result]}, None, loop.body))
    editor = Editor(loop.body)
    editor.replace(product, *made)
    editor.remove(concat)
    return parts


def _split_gradient(
    loop: Loop, parts: list[tuple[str, str]], product: Operator, concat: Operator
) -> None:
    """The same in the gradient block; the matrix's gradient is joined after the loop."""
    block, (weight,) = loop.gradient, product.input("Y")
    assert block is not None
    flowing = product.input("Out" + GRAD)
    wanted = product.output("Y" + GRAD) == [weight + GRAD]
    made, grads = [], []
    for (name, rows), grad in zip(parts, concat.output("X" + GRAD), strict=True):
        given = {"X": [name], "Y": [rows], "Out" + GRAD: flowing}
        outputs = {"X" + GRAD: [grad], "Y" + GRAD: [rows + GRAD if wanted else EMPTY]}
        if wanted:
            dtype = block.var_recursive(rows).dtype
            block.create_var(name=rows + GRAD, shape=loop.shape(rows), dtype=dtype)
            loop.declare(rows + GRAD, loop.shape(rows), like=rows)
            loop.own("parameters", rows, rows + GRAD)
            grads.append(rows + GRAD)
        made.append(loop.make(product, "mul_grad", given, outputs, ONE_STEP, block))
    editor = Editor(block)
    editor.replace(product, *made)
    editor.remove(concat)
    outer = loop.outer_gradient("parameters", weight)
    if wanted and outer is not None:
        join = loop.make(product, "concat", {"X": grads}, {"Out": [outer]}, {"axis": 0})
        loop.after.append(join)
        loop.disown("parameters", weight)
