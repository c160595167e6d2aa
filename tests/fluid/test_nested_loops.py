"""Gradients of a loop within a loop, against differences of the loss in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid

L = fluid.layers
OUTER = [1, 2, 1]
WORDS, OTHERS = [3, 2, 4, 2], [2, 3, 1, 2]
Array = np.ndarray[Any, np.dtype[Any]]


def _attended(words: Any, others: Any) -> Any:
    """An inner loop over the words, each with all others of its sequence."""
    loop = L.DynamicRNN()
    with loop.block():
        word, beside = loop.step_input(words), loop.static_input(others)
        both = L.elementwise_mul(beside, L.sequence_expand(word, beside))
        loop.output(L.sequence_pool(both, "sum"))
    return loop()


def _build() -> tuple[Any, list[Any]]:
    names = ("words", "others")
    given = [L.data(name, [4], dtype="float64", lod_level=2) for name in names]
    for one in given:
        one.stop_gradient = False
    loop = L.DynamicRNN()
    with loop.block():
        words, others = (L.square(loop.step_input(one)) for one in given)
        loop.output(L.square(_attended(words, others)))
    loss = L.reduce_sum(loop())
    return loss, fluid.gradients(loss, given)


@pytest.mark.parametrize("name", ["words", "others"])
def test_gradient(name: str) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss, grads = _build()
    draw = np.random.RandomState(1)
    arrays = {"words": draw.randn(sum(WORDS), 4), "others": draw.randn(sum(OTHERS), 4)}
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()

    def run(fetch: Any, **changed: Array) -> Array:
        given = {**arrays, **changed}
        feed = {
            key: fluid.create_lod_tensor(given[key], [OUTER, lengths], fluid.CPUPlace())
            for key, lengths in (("words", WORDS), ("others", OTHERS))
        }
        return np.array(exe.run(main, feed, [fetch], scope=scope, return_numpy=False)[0])

    found = run(grads[0 if name == "words" else 1])
    step = 1e-6
    for place in [(0, 0), (3, 1), (5, 2), (7, 3)]:
        losses = []
        for sign in (1, -1):
            array = arrays[name].copy()
            array[place] += sign * step
            losses.append(run(loss, **{name: array}).item())
        assert found[place] == pytest.approx((losses[0] - losses[1]) / (2 * step), rel=1e-4)
