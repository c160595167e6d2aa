"""batch_norm(conv2d(x, filter) + bias) -> conv2d(x, filter * k) + bias', with statistics fixed.

Done to a model's program and parameters, once: k = scale / sqrt(variance + epsilon) for each
channel, and bias' = (bias - mean) * k + shift.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from refluid.analysis.uses import blocks_in_use, names_in_use, uses_in
from refluid.core.scope import Scope
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.passes.pattern import Match, find_matches, parse_pattern

_CONV = "conv: conv2d|depthwise_conv2d(Input=x, Filter=filter) -> Output=plain\n"
_NORM = """norm: batch_norm(X={0}, Scale=scale, Bias=shift, Mean=mean, Variance=variance)
    -> Y=y, MeanOut=a, VarianceOut=b, SavedMean=c, SavedVariance=d, ReserveSpace=e?"""
_NORM = " ".join(_NORM.split())
_BIASED = f"{_CONV}add: elementwise_add(X=plain, Y=bias) -> Out=sum\n{_NORM.format('sum')}"
_PATTERNS = tuple(map(parse_pattern, (_CONV + _NORM.format("plain"), _BIASED)))


def fold_batch_norms(program: Program, scope: Scope, *, erase: bool = True) -> int:
    """Folds what can be folded, in place; how many. Parameters that nobody reads are forgotten.

    erase: in the scope too, which other programs may share.
    """
    block = program.global_block()
    kept = {name for op in block.ops if op.type == "fetch" for name in op.input_arg_names}
    found = [match for match in _matches(block) if not kept & _inner(match)]
    values = [_folded(match, scope) for match in found]
    folded: dict[Operator, tuple[Operator, ...]] = {}
    for match, tensors in zip(found, values, strict=True):
        if tensors is not None:
            folded |= _replacements(match, _new_parameters(match, tensors, scope))
    before = names_in_use(program)
    Editor(block).assign(new for op in block.ops for new in folded.get(op, (op,)))
    unused = before - names_in_use(program)
    Editor(block).forget_variables(unused)
    if erase:
        scope.erase([name for name in unused if name in scope.local_var_names()])
    return sum(tensors is not None for tensors in values)


def _matches(block: Block) -> Iterator[Match]:
    uses = uses_in(block)
    elsewhere = {
        name
        for other in blocks_in_use(block.program)
        if other is not block
        for op in other.ops
        for name in op.arg_names
    }
    for pattern in _PATTERNS:
        for match in find_matches(pattern, uses):
            inner = [match.versions[one] for one in ("plain", "sum") if one in match.versions]
            alone = all(one is not None and len(uses.users(one)) == 1 for one in inner)
            if alone and not elsewhere & _inner(match) and _fits(match):
                yield match


def _inner(match: Match) -> set[str | None]:
    """What is no longer computed."""
    return {match.name(one) for one in ("plain", "sum") if one in match.versions}


def _fits(match: Match) -> bool:
    norm, conv = match.op("norm"), match.op("conv")
    last = conv.attr("data_format") == "NHWC"
    if last != (norm.attr("data_layout") == "NHWC"):
        return False
    if not (norm.attr("use_global_stats") or (norm.attr("is_test") and not _estimates(norm))):
        return False
    if "add" not in match.positions:
        return True
    rank, axis = len(match.var("plain").shape), match.op("add").attr("axis")
    bias = match.var("bias")
    channel = rank - 1 if last else 1
    placed = axis == channel or (axis == -1 and last)
    return bias.persistable and len(bias.shape) == 1 and placed


def _estimates(norm: Operator) -> bool:
    return bool(norm.attrs.get("trainable_statistics"))


def _folded(match: Match, scope: Scope) -> tuple[Tensor, Tensor] | None:
    """The new filter and bias; None where a value is missing or is no parameter."""
    if any(not match.var(one).persistable for one in ("filter", "scale", "mean", "variance")):
        return None
    names = ("filter", "scale", "shift", "mean", "variance", "bias")
    values = {one: _value(match, one, scope) for one in names if match.name(one) is not None}
    if any(value is None or value.dtype != torch.float32 for value in values.values()):
        return None
    exact = {name: value.double() for name, value in values.items() if value is not None}
    factor = exact["scale"] / torch.sqrt(exact["variance"] + match.op("norm").attr("epsilon"))
    bias = (exact.get("bias", 0.0) - exact["mean"]) * factor + exact["shift"]
    return (exact["filter"] * factor.view(-1, 1, 1, 1)).float(), bias.float()


def _value(match: Match, symbol: str, scope: Scope) -> Tensor | None:
    cell = scope.find_var(match.name(symbol) or "")
    return cell.value if cell is not None and isinstance(cell.value, Tensor) else None


def _new_parameters(match: Match, tensors: tuple[Tensor, Tensor], scope: Scope) -> tuple[str, str]:
    """Makes both in the block and the scope; their names."""
    block, names = match.uses.block, []
    for symbol, tensor in zip(("filter", "shift"), tensors, strict=True):
        name = f"{match.name('y')}.folded_{symbol}"
        block.create_parameter(
            name=name, shape=list(tensor.shape), dtype=match.var(symbol).dtype, trainable=False
        )
        scope.var(name).value = tensor
        names.append(name)
    return names[0], names[1]


def _replacements(match: Match, names: tuple[str, str]) -> dict[Operator, tuple[Operator, ...]]:
    conv = match.op("conv")
    inputs = {"Input": match.name("x"), "Filter": names[0], "Bias": names[1]}
    outputs = {"Output": match.name("y")}
    whole = Operator(match.uses.block, conv.type, inputs, outputs, conv.attrs)
    gone = {match.op(label): () for label in ("conv", "add") if label in match.positions}
    return {**gone, match.op("norm"): (whole,)}
