"""Runs a converted module beside the program that it was made of."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from refluid.convert.members import Written
from refluid.convert.source import Source
from refluid.core.dtypes import to_numpy
from refluid.core.lod_tensor import LoDTensor
from refluid.core.places import CPUPlace
from refluid.core.scope import Scope
from refluid.engine.group import Group
from refluid.engine.prepare import Wanted, prepared
from refluid.engine.strategy import DEFAULT


def build(text: str, written: Written, name: str = "model") -> torch.nn.Module:
    """The module of a source text, with its values, for inference."""
    module = types.ModuleType(name)
    exec(compile(text, f"{name}.py", "exec"), module.__dict__)
    model: torch.nn.Module = module.Model()
    missing = model.load_state_dict(written.state, strict=False)
    left = [key for key in missing.missing_keys if not key.endswith("num_batches_tracked")]
    assert not left and not missing.unexpected_keys, (left, missing.unexpected_keys)
    return model.eval()


def run_program(source: Source, feeds: Mapping[str, Any], more: Sequence[str] = ()) -> list[Tensor]:
    """What the program gives for these feeds, with the variables `more`."""
    scope = Scope()
    for name, value in source.values.items():
        scope.var(name).value = value.clone()
    group = Group([CPUPlace()])
    ready = prepared(Wanted(source.program, source.feeds, (*source.fetches, *more), DEFAULT, group))
    converted = [slot.convert(feeds[slot.name]) for slot in ready.slots[0]]
    lods = [lod for _, lod in converted]
    fed = frozenset(s.name for s, lod in zip(ready.slots[0], lods, strict=True) if lod)
    found = ready.step(fed).run(scope, [tensor for tensor, _ in converted], lods)
    return [one.value for one in found]


def run_module(
    model: torch.nn.Module, source: Source, feeds: Mapping[str, Any]
) -> Sequence[Tensor]:
    """What the module gives for the same feeds."""
    given = {name: tensor_of(feeds[name]) for name in source.feeds}
    lengths = [lengths_of(feeds[name]) for name in source.sequences()]
    with torch.no_grad():
        found = model(*given.values(), *lengths)
    return found if isinstance(found, tuple) else (found,)


def compare(
    model: torch.nn.Module, written: Written, source: Source, feeds: Mapping[str, Any]
) -> float:
    """The largest relative difference of both, with the same random numbers."""
    found = run_program(source, feeds, written.draws)
    count = len(source.fetches)
    drawn = iter(found[count:])
    space = type(model).forward.__globals__
    own: dict[str, Any] = {name: space[name] for name in ("uniform", "gaussian") if name in space}
    try:
        space.update(dict.fromkeys(own, lambda *_given: next(drawn)))
        return largest_error(run_module(model, source, feeds), found[:count])
    finally:
        space.update(own)


def largest_error(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """The largest difference, relative to each result's largest magnitude; inf for other shapes."""
    worst = 0.0
    for one, other in zip(actual, expected, strict=True):
        if one.numel() != other.numel():
            return float("inf")
        a, b = one.double().flatten(), other.double().flatten()
        same = torch.isfinite(b)
        if not torch.equal(torch.isnan(a), torch.isnan(b)) or not torch.equal(
            torch.isinf(a), torch.isinf(b)
        ):
            return float("inf")
        a, b = a[same], b[same]
        scale = max(float(b.abs().max()), 1e-6) if b.numel() else 1.0
        worst = max(worst, float((a - b).abs().max()) / scale if b.numel() else 0.0)
    return worst


def sample_feeds(source: Source, rows: int = 2, seed: int = 0) -> dict[str, Any]:
    """Random feeds of the declared shapes; -1 is `rows`. Whole numbers are 0 or 1."""
    draw, found = np.random.RandomState(seed), {}
    for name in source.feeds:
        var = source.var(name)
        shape = [rows if size < 0 else size for size in var.shape]
        kind = np.dtype(to_numpy(var.dtype)).name
        array = draw.random_sample(shape) if "float" in kind else draw.randint(0, 2, shape)
        found[name] = array.astype(kind)
    return found


def tensor_of(value: Any) -> Tensor:
    """What a feed is for a module."""
    if isinstance(value, LoDTensor):
        return value.tensor
    return value if isinstance(value, Tensor) else torch.from_numpy(np.ascontiguousarray(value))


def lengths_of(value: Any) -> Tensor:
    """The lengths of a feed's sequences; without any each row is one."""
    levels = value.recursive_sequence_lengths() if isinstance(value, LoDTensor) else []
    return torch.tensor(levels[-1] if levels else [1] * len(tensor_of(value)))
