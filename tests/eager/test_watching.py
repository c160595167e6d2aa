"""Dygraph's operators in the profiler's log, and values that aren't finite."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import events, flags
from refluid.core.errors import EnforceNotMet
from refluid.fluid import dygraph

layers = fluid.layers
UNARY = ("tanh", "sigmoid", "relu", "sqrt", "exp", "softmax", "square")
BINARY = ("elementwise_add", "elementwise_mul", "elementwise_max", "matmul")


@contextmanager
def kept() -> Iterator[events.Log]:
    log = events.Log()
    former = events.keep(log)
    try:
        yield log
    finally:
        events.keep(former)


def plan(source: random.Random) -> list[tuple[str, int, int]]:
    """Operators, each with the numbers of the values that it takes."""
    chosen = []
    for number in range(1, source.randint(2, 9)):
        kind = source.choice((*UNARY, *BINARY))
        # What comes last takes what came before it: all lie on the way to the result.
        chosen.append((kind, number - 1, source.randrange(number)))
    return chosen


def run(chosen: list[tuple[str, int, int]], size: int, times: int) -> tuple[Any, Any]:
    with dygraph.guard():
        x = dygraph.to_variable(
            np.linspace(0.1, 0.9, size * size, dtype="float32").reshape(size, size)
        )
        x.stop_gradient = False
        values = [x]
        for kind, first, second in chosen:
            given = [values[first], values[second]] if kind in BINARY else [values[first]]
            values.append(getattr(layers, kind)(*given))
        result = values[-1]
        for turn in range(times):
            result.backward(retain_graph=turn < times - 1)
        return result.numpy(), x.gradient()


@pytest.mark.parametrize("seed", range(12))
def test_each_operator_and_its_gradient_are_noted(seed: int) -> None:
    source = random.Random(seed)
    chosen, size, times = plan(source), source.randint(1, 4), source.randint(1, 2)
    plain = run(chosen, size, times)
    with kept() as log:
        watched = run(chosen, size, times)
    for one, other in zip(plain, watched, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    found = Counter(one.name for one in log.events)
    wanted = Counter(kind for kind, _, _ in chosen)
    wanted.update({f"{kind}_grad": count * times for kind, count in wanted.items()})
    assert found == wanted
    # Each takes its own time and none of what comes before or after it.
    spans = sorted((one.start, one.end) for one in log.events)
    ends = [end for _, end in spans]
    assert all(start <= end for start, end in spans)
    assert all(end <= start for end, (start, _) in zip(ends, spans[1:], strict=False))
    begun = len(log.events)
    run(chosen, size, times)
    assert len(log.events) == begun


@pytest.mark.parametrize("before", [0, 6])
def test_the_report_of_training(
    before: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also of steps that were done by shortcuts before."""
    with dygraph.guard():
        net = dygraph.Linear(4, 3, act="relu")
        adam = fluid.optimizer.Adam(0.1, parameter_list=net.parameters())

        def steps(count: int) -> None:
            for _ in range(count):
                loss = layers.mean(net(dygraph.to_variable(np.ones((2, 4), "float32"))))
                loss.backward()
                adam.minimize(loss)
                net.clear_gradients()

        steps(before)
        with fluid.profiler.profiler("CPU", "total", str(tmp_path / "profile")):
            steps(3)
        steps(1)
    rows = re.findall(r"^thread0::(\w+) +(\d+) ", capsys.readouterr().out, re.MULTILINE)
    calls = {name: int(count) for name, count in rows}
    assert calls["mean"] == calls["mean_grad"] == calls["adam"] == 3
    assert [name for name in calls if name.endswith("_grad") and name != "mean_grad"]


@pytest.mark.parametrize("flag", ["FLAGS_check_nan_inf", "FLAGS_fast_check_nan_inf"])
def test_values_that_are_not_finite(flag: str) -> None:
    def slope() -> Any:
        x = dygraph.to_variable(np.array([0.0, 1.0], "float32"))
        x.stop_gradient = False
        layers.reduce_sum(layers.sqrt(x)).backward()
        return x.gradient()

    with dygraph.guard():
        assert np.isinf(slope()[0])
        with flags.override({flag: True}):
            layers.log(dygraph.to_variable(np.ones(2, "float32")))
            with pytest.raises(
                EnforceNotMet, match=r"operator log failed: .* 1 NaN and 1 infinite"
            ):
                layers.log(dygraph.to_variable(np.array([-1.0, 0.0], "float32")))
            with pytest.raises(EnforceNotMet, match=r"operator sqrt_grad failed: .*@GRAD"):
                slope()
        assert np.isinf(slope()[0])
