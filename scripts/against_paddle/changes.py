"""Random changes to a program of few operators and to what it is fed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import numpy as np

from refluid.core.dtypes import VarType
from refluid.ir.program import Program
from scripts.against_paddle.case import Tensor

Tensors = dict[str, Tensor]

# What says where or how an operator runs instead of what it computes, or has to suit the variables.
_KEPT = """
    op_callstack op_role op_role_var op_namescope op_device dtype in_dtype out_dtype shape seed
    col is_test use_cudnn use_mkldnn use_quantizer mkldnn_data_type with_quant_attr
    fuse_relu_before_depthwise_conv
"""
_NAMES: Mapping[str, tuple[str, ...]] = {
    "padding_algorithm": ("EXPLICIT", "SAME", "VALID"),
    "pooling_type": ("max", "avg"),
    "pooltype": ("SUM", "AVERAGE", "SQRT", "MAX", "FIRST", "LAST"),
    "reduction": ("none", "mean", "sum", "batchmean"),
    "gate_activation": ("sigmoid", "tanh"),
    "candidate_activation": ("tanh", "relu"),
}


def change(program: Program, feeds: Tensors, state: Tensors, random: Random) -> str:
    """Changes them in place; what was changed, "" for nothing."""
    made = random.choices(_CHANGES, (45, 23, 16, 6, 6, 4), k=random.choice((1, 1, 2)))
    texts = [one(program, feeds, state, random) for one in made]
    return "; ".join(filter(None, texts))


def _attribute(program: Program, _feeds: Tensors, _state: Tensors, random: Random) -> str:
    op = random.choice(program.global_block().ops)
    kept = {*_KEPT.split()}
    names = [one for one in op.attrs if one not in kept and not one.startswith(("@", "Scale"))]
    if not names:
        return ""
    name = random.choice(names)
    old = op.attrs[name]
    new = _other(name, old, random)
    if new is None or new == old:
        return ""
    op._set_attr(name, new)
    return f"{op.type}.{name} {new} instead of {old}"


def _other(name: str, old: Any, random: Random) -> Any:
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return old + random.choice((-1, 1, 1, 2))
    if isinstance(old, float):
        return random.choice((old * 1.5, old + 0.25, -old, 0.0, 1.0))
    if isinstance(old, str):
        return random.choice(_NAMES.get(name, (old,)))
    if isinstance(old, list | tuple) and old:
        new = list(old)
        place = random.randrange(len(new))
        new[place] = _other(name, new[place], random)
        return None if new[place] is None else new
    return None


def _shape(_program: Program, feeds: Tensors, _state: Tensors, random: Random) -> str:
    """One dimension of a plain input, and mostly of all inputs of that shape."""
    plain = [name for name, (array, lengths) in feeds.items() if not lengths and array.ndim]
    if not plain:
        return ""
    shape = feeds[random.choice(plain)][0].shape
    axis = random.randrange(len(shape))
    old = shape[axis]
    new = random.choice((1, old + 1, max(1, old - 1), 2 * old))
    alike = [name for name in plain if feeds[name][0].shape == shape]
    names = alike if random.random() < 0.8 else alike[:1]
    for name in names:
        feeds[name] = _resized(feeds[name][0], axis, new), []
    return f"axis {axis} of {', '.join(names)}: {new} instead of {old}" if new != old else ""


def _resized(array: Any, axis: int, size: int) -> Any:
    return np.take(array, np.arange(size) % max(array.shape[axis], 1), axis=axis).copy()


def _sequences(_program: Program, feeds: Tensors, _state: Tensors, random: Random) -> str:
    """Other lengths for an input with sequences and for all that have the same."""
    names = [name for name, (array, lengths) in feeds.items() if lengths and len(array)]
    if not names:
        return ""
    old = feeds[random.choice(names)][1]
    new = [list(level) for level in old]
    least = random.choice((0, 1, 1))
    new[-1] = [random.randint(least, 5) for _ in new[-1]]
    names = [name for name in names if feeds[name][1] == old]
    for name in names:
        feeds[name] = _resized(feeds[name][0], 0, sum(new[-1])), new
    return f"sequences of {', '.join(names)}: {new}"


def _double(program: Program, feeds: Tensors, state: Tensors, _random: Random) -> str:
    """float64 in the place of float32."""
    for block in program.blocks:
        for op in block.ops:
            for name in {"dtype", "in_dtype", "out_dtype"} & op.attrs.keys():
                if op.attrs[name] == VarType.FP32:
                    op._set_attr(name, int(VarType.FP64))
        for var in block.vars.values():
            if var.has_description() and var.dtype == VarType.FP32:
                var.dtype = VarType.FP64
    for tensors in (feeds, state):
        for name, (array, lengths) in tensors.items():
            if array.dtype == np.float32:
                tensors[name] = array.astype(np.float64), lengths
    return "float64"


def _ties(_program: Program, feeds: Tensors, _state: Tensors, random: Random) -> str:
    """Few different numbers, so that maxima, orders and comparisons meet equal ones."""
    names = [name for name, (array, _) in feeds.items() if array.dtype.kind == "f" and array.size]
    step = random.choice((0.25, 0.5, 1.0))
    for name in names:
        array, lengths = feeds[name]
        feeds[name] = (np.round(array / step) * step).astype(array.dtype), lengths
    return f"multiples of {step}" if names else ""


def _negative(_program: Program, feeds: Tensors, _state: Tensors, random: Random) -> str:
    """Some integers of an input are negative."""
    names = [name for name, (array, _) in feeds.items() if array.dtype.kind == "i" and array.size]
    if not names:
        return ""
    name = random.choice(names)
    array, lengths = feeds[name]
    signs = np.array([random.choice((-1, 1)) for _ in range(array.size)]).reshape(array.shape)
    feeds[name] = (array * signs).astype(array.dtype), lengths
    return f"negative integers in {name}"


_CHANGES: tuple[Callable[[Program, Tensors, Tensors, Random], str], ...] = (
    _attribute,
    _shape,
    _sequences,
    _double,
    _ties,
    _negative,
)
