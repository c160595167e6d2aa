"""What takes the place of torch's private functions computes what they do."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from refluid.kernels import epilogues, fused, lists, onednn, parts, watching

SHAPES = [(), (5,), (3, 4), (2, 3, 17)]
KINDS = [torch.float32, torch.float64]


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModuleType], Any]:
    """A second copy of a module, on a torch without private names."""
    monkeypatch.setattr(parts, "left_out", set(parts.PARTS))

    def load(module: ModuleType) -> Any:
        assert module.__spec__ is not None and module.__spec__.loader is not None
        made = importlib.util.module_from_spec(module.__spec__)
        module.__spec__.loader.exec_module(made)
        return made

    return load


def tensors(seed: int, kind: torch.dtype, low: float = -1.0) -> list[Tensor]:
    draws = torch.Generator().manual_seed(seed)
    return [torch.rand(s, generator=draws, dtype=kind) * (2 - low) + low for s in SHAPES]


def copies(values: list[Tensor]) -> list[Tensor]:
    return [one.clone() for one in values]


CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "abs": ((), {}),
    "add": ((0.5,), {}),
    "add_": ((2,), {"alpha": -0.3}),
    "addcdiv_": ((2, 3), {"value": 0.7}),
    "addcmul_": ((2, 3), {"value": -1.0}),
    "div": ((3,), {}),
    "div_": ((3,), {}),
    "maximum_": ((2,), {}),
    "mul": ((2.5,), {}),
    "mul_": ((2,), {}),
    "norm": ((), {}),
    "pow": ((-0.5,), {}),
    "sqrt": ((), {}),
    "sqrt_": ((), {}),
    "sub": ((2,), {}),
    "sub_": ((2,), {}),
    "zero_": ((), {}),
}


def test_every_function_of_lists_is_tried() -> None:
    names = {name.removeprefix("torch._foreach_") for name in parts.PARTS if "._foreach_" in name}
    assert set(CALLS) == names


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_lists(name: str, kind: torch.dtype, without: Callable[[ModuleType], Any]) -> None:
    given, named = CALLS[name]
    others = [tensors(one, kind, 0.5) if isinstance(one, int) else one for one in given]
    found = []
    for module in (lists, without(lists)):
        values = tensors(1, kind, 0.1)
        result = getattr(module, name)(values, *others, **named)
        found.append(values if name.endswith("_") else list(result))
    assert getattr(lists, name) is not getattr(without(lists), name)
    for one, other in zip(*found, strict=True):
        # Sums of squares are added up in another order.
        assert torch.equal(one, other) or name == "norm"
        torch.testing.assert_close(one, other)


SGD = {"weight_decay": 0.0, "dampening": 0.0, "maximize": False, "is_first_step": False}
ADAM = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "amsgrad": False, "maximize": False}
ADAGRAD = {"lr_decay": 0.0, "weight_decay": 0.0, "maximize": False}


def steps(module: Any, kind: torch.dtype, lr: Any) -> list[Tensor]:
    """Two steps of each optimizer; all that they write."""
    written = []
    grads, ones = tensors(2, kind), [torch.ones(())] * len(SHAPES)
    for momentum, nesterov, decay in ((0.0, False, 0.2), (0.9, False, 0.0), (0.9, True, 0.1)):
        params, kept = tensors(1, kind), tensors(3, kind) if momentum else []
        for _ in range(2):
            named = SGD | {"momentum": momentum, "nesterov": nesterov, "weight_decay": decay}
            module.sgd_(params, grads, kept, lr=lr, **named)
        written += params + kept
    for count in (torch.tensor(3.0), torch.tensor(1e9)):
        params, kept, squares = tensors(1, kind), tensors(3, kind), tensors(4, kind, 0.1)
        counts = [count] * len(SHAPES)
        for decay in (0.0, 0.3):
            named = ADAM | {"weight_decay": decay}
            module.adam_(params, grads, kept, squares, [], counts, lr=lr, eps=1e-8, **named)
        written += params + kept + squares
    params, squares = tensors(1, kind), tensors(3, kind, 0.1)
    if not isinstance(lr, Tensor):
        module.adagrad_(params, grads, squares, ones, lr=lr, eps=1e-6, **ADAGRAD)
    return written + params + squares


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("lr", [0.3, torch.tensor(0.3)], ids=["number", "tensor"])
def test_optimizers(lr: Any, kind: torch.dtype, without: Callable[[ModuleType], Any]) -> None:
    made = without(fused)
    assert made.sgd_ is not fused.sgd_ and made.adam_ is not fused.adam_
    for one, other in zip(steps(fused, kind, lr), steps(made, kind, lr), strict=True):
        close = {"rtol": 1e-12, "atol": 1e-12} if kind is torch.float64 else {}
        torch.testing.assert_close(one, other, **(close if not isinstance(lr, Tensor) else {}))


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("wrong", [None, float("inf"), float("nan")])
def test_unscaling(wrong: Any, kind: torch.dtype, without: Callable[[ModuleType], Any]) -> None:
    found = []
    for module in (fused, without(fused)):
        values, flag = [one.to(kind) for one in tensors(1, torch.float32)], torch.zeros(1)
        if wrong is not None:
            values[2][1, 1] = wrong
        module.unscale_(values, flag, torch.tensor([1 / 3]))
        found.append([*values, flag])
    assert found[0][-1].item() == (wrong is not None)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def test_epilogues(without: Callable[[ModuleType], Any]) -> None:
    made = without(epilogues)
    x, y, grad = (tensors(seed, torch.float32)[3] for seed in (1, 2, 3))
    assert torch.equal(made.add_relu(x, y), epilogues.add_relu(x, y))
    out = x.clone()
    assert made.add_relu(out, y, out) is out and torch.equal(out, epilogues.add_relu(x, y))
    for axis in (-1, 0):
        soft = torch.softmax(x, axis)
        one, other = (each.softmax_gradient(soft, grad, axis) for each in (made, epilogues))
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_what_has_nothing_in_its_place(without: Callable[[ModuleType], Any]) -> None:
    assert without(onednn).linear is None and without(onednn).has_bfloat16() is None
    made = without(watching)
    assert len(made.LACKING) == 3

    class Seen(made.DispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, *given: Any) -> None:
            raise AssertionError

    with pytest.raises(RuntimeError, match="this torch has no"), Seen():
        pass
