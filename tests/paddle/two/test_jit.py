"""`paddle.jit`: functions as programs, in files and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.paddle as paddle
from refluid.core import names
from refluid.core.errors import EnforceNotMet
from refluid.translate import function as translation
from tests.paddle.two import fits

RANDOM = np.random.RandomState(8)


@pytest.fixture(autouse=True)
def _at_once() -> Iterator[None]:
    paddle.disable_static()
    try:
        with names.guard():
            yield
    finally:
        paddle.enable_static()


class Net(paddle.nn.Layer):
    """A norm, dropout, and a branch that a tensor decides."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = paddle.nn.Linear(4, 3)
        self.norm = paddle.nn.BatchNorm1D(3)
        self.drop = paddle.nn.Dropout(0.5)

    @paddle.jit.to_static
    def forward(self, x: Any, twice: bool = True) -> Any:
        y = self.drop(self.norm(self.linear(x)))
        if x.sum() > 0:
            y = y + 1
        return (y, x * 2) if twice else y


def _x(rows: int, sign: float = 1.0) -> Any:
    return paddle.to_tensor((sign * RANDOM.rand(rows, 4)).astype("float32"))


@pytest.mark.parametrize("by_call", [False, True])
def test_a_layer_is_saved_as_it_evaluates(by_call: bool, tmp_path: Path) -> None:
    net, path = Net(), str(tmp_path / "net")
    for _ in range(3):
        net(_x(5))
    if by_call:
        paddle.jit.save(net, path)
    else:
        spec = paddle.static.InputSpec([None, 4], "float32", "x")
        paddle.jit.save(net, path, [spec])
    net.eval()
    loaded = paddle.jit.load(path)
    assert len(loaded.parameters()) == 4 and len(loaded.buffers()) == 2
    for rows, sign in ((5, 1.0), (5, -1.0)) if by_call else ((2, 1.0), (7, -1.0)):
        x = _x(rows, sign)
        for found, wanted in zip(loaded(x), net(x), strict=True):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5)


def test_a_program_for_tests_takes_running_means() -> None:
    paddle.enable_static()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [None, 4])
        out = paddle.nn.BatchNorm1D(4)(x)
    exe = paddle.static.Executor()
    exe.run(startup)
    value = RANDOM.rand(5, 4).astype("float32") + 3
    (found,) = exe.run(main.clone(for_test=True), {"x": value}, [out])
    np.testing.assert_allclose(found, value / np.sqrt(1 + 1e-5), rtol=1e-5)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("running", [None, True, False])
def test_whose_statistics_norms_take(running: bool | None, training: bool) -> None:
    norm = paddle.nn.BatchNorm1D(4, use_global_stats=running)
    norm.training = training
    x = _x(5)
    same = bool(np.abs(norm(x).numpy() - x.numpy()).max() < 1e-4)
    assert same == (running is True or (running is None and not training))


def test_a_loaded_layer_trains_on(tmp_path: Path) -> None:
    spec = paddle.static.InputSpec([None, 4])
    paddle.jit.save(Net(), str(tmp_path / "net"), [spec, False])
    loaded = paddle.jit.load(str(tmp_path / "net"))
    loaded.train()
    momentum = paddle.optimizer.Momentum(0.05, parameters=loaded.parameters())
    x, losses = _x(16), []
    for _ in range(15):
        loss = ((loaded(x) - 2.0) ** 2).mean()
        loss.backward()
        momentum.step()
        momentum.clear_grad()
        losses.append(float(loss))
    assert np.mean(losses[-3:]) < 0.7 * losses[0]
    assert np.abs(loaded.buffers()[0].numpy()).max() > 0


def test_functions_and_parts_of_results(tmp_path: Path) -> None:
    def both(x: Any, scale: float) -> Any:
        return x * scale, {"more": x + scale}

    path = str(tmp_path / "f")
    paddle.jit.save(both, path, [paddle.static.InputSpec([None, 4]), 3.0])
    x = _x(2)
    first, second = paddle.jit.load(path)(x)
    np.testing.assert_allclose(first.numpy(), 3 * x.numpy())
    np.testing.assert_allclose(second.numpy(), x.numpy() + 3)
    program, feeds, fetches = _static(path)
    assert feeds == ["x"] and len(fetches) == 2 and program.num_blocks == 1
    with pytest.raises(ValueError, match="takes 1 inputs"):
        paddle.jit.load(path)(x, x)


def _static(path: str) -> Any:
    paddle.enable_static()
    try:
        return paddle.static.load_inference_model(path, paddle.static.Executor())
    finally:
        paddle.disable_static()


def test_a_layer_given_becomes_a_program() -> None:
    net = paddle.nn.Sequential(paddle.nn.Linear(4, 2))
    plain = net(_x(3) * 0)
    assert paddle.jit.to_static(net) is net
    np.testing.assert_allclose(net(_x(3) * 0).numpy(), plain.numpy())
    assert "def forward" in net.forward.code
    assert net.forward.concrete_program is not None
    net.forward.rollback()
    assert not hasattr(net.forward, "concrete_program")


def test_what_is_not_translated() -> None:
    asked = []

    @paddle.jit.not_to_static
    def plain(x: Any) -> Any:
        asked.append(type(x).__name__)
        return x + 1 if x is not None else x

    @paddle.jit.to_static
    def both(x: Any) -> Any:
        if x.mean() > 0:
            x = plain(x)
        return x

    shown: list[str] = []
    translation.show = shown.append
    try:
        assert both(_x(1)).numpy().min() >= 1
    finally:
        translation.show = None
    assert len(shown) == 1 and "def both" in shown[0]
    paddle.jit.enable_to_static(False)
    try:
        asked.clear()
        both(_x(1))
        assert asked == ["VarBase"]
    finally:
        paddle.jit.enable_to_static(True)


def test_a_module_is_left() -> None:
    from refluid.fluid.dygraph.translation import callees

    assert not callees._is_library(fits.model)
    paddle.jit.ignore_module([fits])
    try:
        assert callees._is_library(fits.model)
    finally:
        callees._left.clear()


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No valid transformed program for function: forward"):
        paddle.jit.save(Net(), str(tmp_path / "net"))
    with pytest.raises(TypeError, match="'Layer' or 'Function'"):
        paddle.jit.save(3, str(tmp_path / "net"))
    with pytest.raises(TypeError, match="should be an int"):
        paddle.jit.set_verbosity("1")  # type: ignore[arg-type]
    with pytest.raises(EnforceNotMet, match="cannot be opened"):
        paddle.jit.load(str(tmp_path / "none"))
