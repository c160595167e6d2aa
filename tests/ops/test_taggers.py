"""Programs that tag words train by compiled loops as they do by torch's kernels."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import flags
from refluid.kernels.labelling import crf
from refluid.ops import by_loops
from refluid.runtime.recorded.trial import compiling_at_once

FLAG = "FLAGS_refluid_recurrent_loops"
KERNELS = "likelihoods", "slopes", "best_paths"
layers = fluid.layers


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which kernels of loops are called; they are from the first call on."""
    seen: list[str] = []

    def noted(name: str, known: Any) -> Any:
        def call(*given: Any) -> Any:
            seen.append(name)
            return known(*given)

        return call

    monkeypatch.setattr(by_loops, "_calls", repeat(by_loops._OFTEN))
    for name in KERNELS:
        monkeypatch.setattr(crf, name, noted(name, getattr(crf, name)))
    return seen


def _losses(tier: str, loops: bool, padded: bool) -> list[float]:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        if padded:
            ids, tag = (fluid.data(name, [None, 6], "int64") for name in ("ids", "tag"))
            length: Any = fluid.data("length", [None], "int64")
        else:
            ids, tag = (fluid.data(name, [None, 1], "int64", 1) for name in ("ids", "tag"))
            length = None
        word = fluid.embedding(ids, (50, 12))
        flat = 2 if padded else 1
        emission = layers.fc(word if padded else layers.reshape(word, [-1, 12]), 9, flat)
        emission = emission if padded else layers.lod_reset(emission, ids)
        attr = fluid.ParamAttr("transition")
        cost = layers.mean(layers.linear_chain_crf(emission, tag, attr, length=length))
        right = layers.crf_decoding(emission, attr, tag, length=length)
        fluid.optimizer.Adam(0.05).minimize(cost)
    draws, found = np.random.default_rng(0), []
    executor = fluid.Executor(fluid.CPUPlace())
    own = {FLAG: loops, "FLAGS_refluid_tier": tier}
    with fluid.scope_guard(fluid.Scope()), flags.override(own):
        executor.run(startup)
        for step in range(12):
            # Of as many rows, by turns.
            lengths = [4, 2, 6] if step % 2 else [6, 4, 2]
            feed: dict[str, Any] = {}
            for name, most in (("ids", 50), ("tag", 9)):
                if padded:
                    feed[name] = draws.integers(0, most, (3, 6))
                else:
                    rows = draws.integers(0, most, (sum(lengths), 1))
                    feed[name] = fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace())
            if padded:
                feed["length"] = np.array(lengths)
            loss, hits = executor.run(main, feed, [cost, right], return_numpy=False)
            found += [float(np.array(loss).item()), float(np.array(hits).sum())]
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(
    "tier", ["interpreted", "recorded", pytest.param("compiled", marks=pytest.mark.slow)]
)
def test_programs_train_as_without(tier: str, padded: bool, runs: list[str]) -> None:
    with compiling_at_once():
        found = _losses(tier, True, padded)
    assert {*runs} == {*KERNELS}
    np.testing.assert_allclose(found, _losses(tier, False, padded), rtol=1e-4)
