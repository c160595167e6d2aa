"""How much large memory a recorded step holds at once."""

from __future__ import annotations

import torch

from refluid.kernels.malloc import MAPPED
from refluid.runtime.recorded.graph import Kernel, Layout, Step, Value
from refluid.runtime.recorded.large_results import large_at_once

aten = torch.ops.aten
CPU = torch.device("cpu")


def _value(name: str, storage: int, rows: int, device: torch.device = CPU) -> Value:
    layout = Layout(torch.Size([rows, 1024]), (1024, 1), torch.float32, device)
    return Value(name, storage, layout)


def _kernel(func: torch._ops.OpOverload, *args: Value, out: Value) -> Kernel:
    return Kernel(func, args, {}, [out], frozenset())


ROWS = MAPPED // 4096
FED = _value("fed", 0, ROWS)


def _steps(device: torch.device = CPU) -> list[Step]:
    """Makes a large result, a view and a small one of it, and another large one of the view."""
    first, view = _value("first", 1, ROWS, device), _value("view", 1, ROWS, device)
    small, second = _value("small", 2, ROWS - 1, device), _value("second", 3, 2 * ROWS, device)
    third = _value("third", 4, ROWS, device)
    return [
        _kernel(aten.relu.default, FED, out=first),
        _kernel(aten.alias.default, first, out=view),
        _kernel(aten.relu.default, first, out=small),
        _kernel(aten.exp.default, view, out=second),
        _kernel(aten.relu.default, second, out=third),
    ]


def test_results_count_until_their_last_use() -> None:
    """`first` lives as long as its view is read; with `second` that is most."""
    assert large_at_once(_steps()) == 3 * MAPPED
    assert large_at_once(_steps()[:3]) == MAPPED
    assert large_at_once(_steps()[4:]) == MAPPED


def test_what_is_elsewhere_does_not_count() -> None:
    assert large_at_once(_steps(torch.device("meta"))) == 0
    assert large_at_once([]) == 0
