"""Scripts of several trainers are tuned as one, and the slow one among them is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from refluid.engine.choices import NONE
from refluid.engine.knobs import KnobScope
from refluid.tune.bench import Sessions
from refluid.tune.diagnosis import diagnose
from refluid.tune.learned import Learned
from refluid.tune.search import BlockFailed
from refluid.tune.session import NoLoop, Script
from refluid.tune.trainers import Trainers
from refluid.tune.tuner import seen_by
from tests.tune.test_window import covered

FLEET = """\
import time
import numpy as np
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.collective import fleet

fleet.init(role_maker.PaddleCloudRoleMaker(is_collective=True))
x, y = fluid.data("x", [None, 32]), fluid.data("y", [None, 1], "int64")
h = fluid.layers.fc(x, 64, act="relu")
out = fluid.layers.softmax_with_cross_entropy(fluid.layers.fc(h, 10), y)
loss = fluid.layers.mean(out)
fleet.distributed_optimizer(fluid.optimizer.Adam(1e-2)).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
rank = fleet.worker_index()
rng = np.random.RandomState(rank)
"""
LOOP = """\
while True:
    begin = time.perf_counter()
    feed = {"x": rng.rand(16, 32).astype("float32"), "y": rng.randint(0, 10, (16, 1))}
    exe.run(fleet.main_program, feed=feed, fetch_list=[loss])
"""
# Of its own it takes more than twice as long as the other, on however loaded a machine.
SLOW = """\
    took = time.perf_counter() - begin
    time.sleep(max(0.03, 2 * took) if rank == 1 else 0.0)  # planted
"""
FAILS = "    assert rank == 0\n"


def script(folder: Path, source: str) -> Script:
    path = folder / "train.py"
    path.write_text(FLEET + source)
    return Script([str(path)], unprotected=not covered(), trainers=2)


@contextmanager
def started(folder: Path, source: str) -> Iterator[Sessions]:
    sessions = Sessions(script(folder, source), lambda _text: None)
    try:
        yield sessions
    finally:
        sessions.close()


@pytest.mark.slow
def test_trainers_run_their_window_again_together(tmp_path: Path, learned: Learned) -> None:
    with started(tmp_path, LOOP) as sessions:
        seen = seen_by(sessions.default(), lambda _text: None, learned)
        assert len(seen.lives) == 2 and all(one.exchanged > 0 for one in seen.lives)
        first = sessions.block(NONE, 12)
        again = sessions.block(NONE, 12, memory=True)
        assert list(first.losses) == list(again.losses) and again.peak > 0
        buckets = NONE.put(KnobScope.FLEET, "bucket_megabytes", 0.001)
        assert list(sessions.block(buckets, 12).losses) == pytest.approx(list(first.losses))
        half = NONE.put(KnobScope.FLEET, "exchange_type", "bfloat16")
        rounded = list(sessions.block(half, 12).losses)
        assert rounded != list(first.losses)
        assert rounded == pytest.approx(list(first.losses), rel=0.05)
        compiled = NONE.put(KnobScope.BUILD, "enable_auto_fusion", True)
        assert list(sessions.block(compiled, 12).losses) == pytest.approx(
            list(first.losses), rel=1e-3
        )


@pytest.mark.slow
def test_the_slow_trainer_is_named(tmp_path: Path, learned: Learned) -> None:
    with started(tmp_path, LOOP + SLOW) as sessions:
        found = diagnose(seen_by(sessions.default(), lambda _text: None, learned))
    causes = {one.name: one for one in found.causes}
    slow = causes["one trainer slower than the others"]
    assert "trainer 1 takes" in slow.fact and "# planted" in "".join(slow.lines)


@pytest.mark.slow
def test_where_one_fails_all_end(tmp_path: Path) -> None:
    with pytest.raises(NoLoop, match=r"AssertionError|trainer 1|the script ended"):
        Trainers(script(tmp_path, LOOP + FAILS))
    with started(tmp_path, LOOP) as sessions:
        sessions.block(NONE, 8)
        wrong = NONE.put(KnobScope.FLEET, "exchange_type", "float99")
        with pytest.raises(BlockFailed):
            sessions.block(wrong, 8)
        assert sessions.block(NONE, 8).seconds > 0  # started anew
