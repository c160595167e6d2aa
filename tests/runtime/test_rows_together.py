"""Sparse updates of several tables in one call are those of one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.core import flags
from refluid.kernels.rows import loops

LOOP = "adam_step_tables"


def trained(seed: int) -> dict[str, Any]:
    """Parameters and what Adam keeps for them, after some steps of a network drawn at random."""
    draws, main, startup = np.random.default_rng(seed), fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = seed + 1
    heights = draws.integers(1, 60, int(draws.integers(2, 6))).tolist()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        slots = [fluid.data(f"slot{n}", [None, 1], "int64") for n in range(len(heights))]
        rows = [
            fluid.embedding(slot, [height, int(draws.integers(1, 9))], is_sparse=True)
            for slot, height in zip(slots, heights, strict=True)
        ]
        if draws.random() < 0.5:  # a table that is looked up twice
            rows.append(fluid.embedding(slots[0], [heights[0], 3], is_sparse=True, param_attr="t"))
            rows.append(fluid.embedding(slots[0], [heights[0], 3], is_sparse=True, param_attr="t"))
        flat = [fluid.layers.reshape(one, [-1, one.shape[-1]]) for one in rows]
        loss = fluid.layers.mean(
            fluid.layers.square(fluid.layers.fc(fluid.layers.concat(flat, 1), 1))
        )
        fluid.optimizer.Adam(0.05, lazy_mode=bool(seed % 4)).minimize(loss)
    scope, exe = fluid.Scope(), fluid.Executor()
    exe.run(startup, scope=scope)
    for _ in range(8):
        size = int(draws.integers(1, 40))
        ids = [draws.integers(0, height, (size, 1)) for height in heights]
        exe.run(main, {f"slot{n}": one for n, one in enumerate(ids)}, [loss], scope=scope)
    names = [one.name for one in main.list_vars() if one.persistable]
    return {name: np.array(scope.find_var(name).get_tensor()) for name in names}


@pytest.mark.parametrize("seed", range(8))
def test_numbers_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    loop = getattr(loops(), LOOP)
    monkeypatch.setattr(
        loops(), LOOP, lambda places, *given: [made.append(len(places)), loop(places, *given)][1]
    )
    together = trained(seed)
    assert len(made) == (8 if seed % 4 else 0)
    made.clear()
    with flags.override({"FLAGS_refluid_rows_together": False}):
        apart = trained(seed)
    assert not made
    assert together.keys() == apart.keys()
    for name, value in together.items():
        np.testing.assert_array_equal(value, apart[name], err_msg=name)
