"""Garbage isn't looked for while a program's many objects are made."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.kernels.collecting import without_collections


@pytest.fixture
def looks() -> Iterator[Callable[[Callable[[], Any]], int]]:
    """Says how often garbage is looked for, by a collector that looks at every new object."""
    seen: list[str] = []
    former, count = gc.get_threshold(), lambda phase, _: seen.append(phase)

    def during(run: Callable[[], Any]) -> int:
        seen.clear()
        gc.set_threshold(1)
        try:
            run()
        finally:
            gc.set_threshold(*former)
        return seen.count("start")

    gc.callbacks.append(count)
    yield during
    gc.callbacks.remove(count)


def _network() -> tuple[fluid.Program, fluid.Program, Any]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        hidden = fluid.layers.data("x", [4])
        for _ in range(30):
            hidden = fluid.layers.fc(hidden, 4, act="relu")
        loss = fluid.layers.mean(hidden)
    return main, startup, loss


def test_programs_are_made_copied_read_and_prepared_without(
    looks: Callable[[Callable[[], Any]], int],
) -> None:
    main, startup, loss = _network()
    optimizer = fluid.optimizer.Adam(0.1)
    assert looks(lambda: [[] for _ in range(500)]) > 100
    assert looks(lambda: optimizer.minimize(loss, startup)) < 1000  # 30,000 otherwise
    assert looks(lambda: main.clone()) < 500  # 5,000 otherwise
    text = main.desc.serialize_to_string()
    assert looks(lambda: fluid.Program.parse_from_string(text)) < 1000  # 16,000 otherwise
    exe, feed = fluid.Executor(fluid.CPUPlace()), {"x": np.ones((2, 4), "float32")}
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        assert looks(lambda: exe.run(main, feed, [loss])) < 8000  # 41,000 otherwise


def test_the_collector_is_as_it_was() -> None:
    with without_collections():
        with without_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with without_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
