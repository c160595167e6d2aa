"""`refluid run --auto`: no bit changes, and what is faster is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core import flags
from refluid.core.scope import Scope
from refluid.engine.choices import NONE, choose
from refluid.engine.listening import RunCall, heard_by
from refluid.tune import auto as auto_module
from refluid.tune.auto import Auto
from refluid.tune.ratios import Compared
from refluid.tune.turns import RacePace, race
from refluid.tune.ways import signature
from tests.started import refluid

QUICK = RacePace(block=0.0, least=2, warm=4, rounds=3)
SCRIPT = """\
import hashlib
import numpy as np
import paddle.fluid as fluid
np.random.seed(1)
fluid.default_main_program().random_seed = fluid.default_startup_program().random_seed = 7
x, y = fluid.data("x", [None, 64]), fluid.data("y", [None, 1], "int64")
h = fluid.layers.fc(fluid.layers.dropout(x, 0.1), 128, act="relu")
loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(fluid.layers.fc(h, 10), y))
fluid.optimizer.Adam(1e-3).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
told = hashlib.sha256()
for step in range(700):
    rows = 7 if step % 40 == 39 else 32
    batch = np.random.rand(rows, 64).astype("float32"), np.random.randint(0, 10, (rows, 1))
    feed = dict(zip("xy", batch))
    told.update(exe.run(feed=feed, fetch_list=[loss])[0].tobytes())
print(told.hexdigest())
"""


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(auto_module, "_SHARE", 1.0)  # tests are short
    yield
    choose(NONE)


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two threads that nobody chose, and that stay two however busy the machine is."""
    from refluid.core import threads
    from refluid.runtime import adaptive

    monkeypatch.setattr(adaptive, "free_threads", lambda: 1)

    former = torch.get_num_threads()
    torch.set_num_threads(2)
    monkeypatch.setattr(threads, "_AT_START", 2)
    monkeypatch.setattr(threads, "_CHOSEN", False)
    with flags.override({"FLAGS_refluid_adaptive_threads": True}):
        yield
    torch.set_num_threads(former)


@pytest.mark.slow  # random networks, below, tell as much
def test_losses_are_those_of_a_run_without(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    found = [
        refluid("run", *options, "train.py", folder=tmp_path, check=True)
        for options in ([], ["--auto"], ["--watch"])
    ]
    plain, *others = found
    assert "refluid: " not in plain.stderr
    for one in others:
        assert one.stdout == plain.stdout and "refluid: " in one.stderr


def network(seed: int) -> tuple[fluid.Program, fluid.Program, Any]:
    """A random one."""
    random = np.random.RandomState(seed)
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 1, 10, 10])
        h = fluid.layers.conv2d(x, int(random.randint(4, 24)), 3, act="relu")
        if random.rand() < 0.5:
            h = fluid.layers.batch_norm(h)
        if random.rand() < 0.5:
            h = fluid.layers.dropout(h, 0.3)
        h = fluid.layers.fc(h, int(random.randint(8, 60)), act="tanh")
        loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(h, 2)))
        fluid.optimizer.Momentum(1e-2, 0.9).minimize(loss)
    return main, startup, loss


def trained(seed: int, steps: int, replicas: int = 1) -> list[bytes]:
    """Losses, and what is left behind."""
    main, startup, loss = network(seed)
    random = np.random.RandomState(seed)
    scope, found = Scope(), []
    program: Any = main
    if replicas > 1:
        places = [fluid.CPUPlace()] * replicas
        program = fluid.CompiledProgram(main).with_data_parallel(loss.name, places=places)
    with fluid.scope_guard(scope):
        executor = fluid.Executor()
        executor.run(startup)
        for _ in range(steps):
            rows = int(random.choice([4, 4, 4, 8, 16]))
            feed = {"x": random.rand(rows, 1, 10, 10).astype("float32")}
            found.append(executor.run(program, feed=feed, fetch_list=[loss])[0].tobytes())
        for var in main.list_vars():
            held = scope.find_var(var.name) if var.persistable else None
            if held is not None and isinstance(held.value, torch.Tensor):
                found.append(hashlib.sha256(held.value.contiguous().numpy()).digest())
    return found


def ticking() -> Callable[[], float]:
    """A clock by which each step takes half a second."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.5
        return now

    return clock


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))]
)
def test_random_networks_train_to_the_same_bits(
    seed: int, replicas: int, two_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 120
    plain = trained(seed, steps, replicas)
    # Whatever may be kept is kept, and tried on half of the steps before.
    monkeypatch.setattr(Compared, "is_faster", property(lambda self: True))
    auto = Auto(ticking(), QUICK)
    with heard_by(auto):
        found = trained(seed, steps, replicas)
    auto.end()
    assert found == plain
    assert auto.tried and any(one.kept for one in auto.tried)


def test_what_rounds_otherwise_is_not_taken(
    two_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.data("x", [1_000_003])
        weight = fluid.layers.create_parameter([1], "float32")
        loss = fluid.layers.reduce_sum(x) * weight
        fluid.optimizer.SGD(1e-9).minimize(loss)
    monkeypatch.setattr(Compared, "is_faster", property(lambda self: True))
    auto = Auto(ticking(), QUICK)
    executor = fluid.Executor()
    with fluid.scope_guard(Scope()):
        executor.run(startup)
        for seed in range(50):
            feed = {"x": np.random.RandomState(seed).rand(1_000_003).astype("float32")}
            found = []
            for threads in (1, 2):
                torch.set_num_threads(threads)
                found.append(executor.run(main.clone(for_test=True), feed, [loss])[0])
            if found[0] != found[1]:
                break
        else:
            pytest.skip("sums don't depend on threads here")
        with heard_by(auto):
            for _ in range(150):
                executor.run(main, feed=feed, fetch_list=[loss])
    auto.end()
    by_name = {one.way.name: one for one in auto.tried}
    assert by_name["1 thread an operator"].found is None
    assert "round" in str(by_name["1 thread an operator"])


def test_the_faster_number_of_threads_is_kept(two_threads: None) -> None:
    now = 0.0
    main, startup, loss = network(0)
    executor, scope = fluid.Executor(), Scope()
    with fluid.scope_guard(scope):
        executor.run(startup)
    auto = Auto(lambda: now, QUICK)
    used = []

    def run(*asked: Any) -> list[Any]:
        nonlocal now
        now += 0.1 * torch.get_num_threads()
        used.append(torch.get_num_threads())
        return executor._run(*asked)

    feed = {"x": np.ones((4, 1, 10, 10), "float32")}
    call = RunCall(run, main, feed, [loss], scope)
    other = replace(call, feed={"x": np.ones((5, 1, 10, 10), "float32")})
    for _ in range(300):
        auto(call)
    assert used[-1] == 1
    auto(other)
    assert used[-1] == 2  # nothing is known of these shapes
    auto.end()
    (line, *_) = auto.told()
    assert line == "steps take 0.50 of their time, by 1 thread an operator"


def test_an_error_in_a_step_is_the_scripts(two_threads: None) -> None:
    main, startup, loss = network(1)
    executor, scope = fluid.Executor(), Scope()
    with fluid.scope_guard(scope):
        executor.run(startup)
    auto, count = Auto(ticking(), QUICK), 0

    def run(*asked: Any) -> list[Any]:
        nonlocal count
        count += 1
        if count % 9 == 0:
            raise fluid.core.EOFException("the end")
        return executor._run(*asked)

    call = RunCall(run, main, {"x": np.ones((4, 1, 10, 10), "float32")}, [loss], scope)
    failed = 0
    for _ in range(200):
        try:
            auto(call)
        except fluid.core.EOFException:
            failed += 1
    assert failed > 10 and auto.tried


def test_a_race_ends_when_it_is_clear() -> None:
    for factor, faster, most in ((0.8, True, 3), (1.3, False, 2), (9.0, False, 1)):
        course, steps = race(RacePace(block=0.0, least=3, warm=2, rounds=7)), [0, 0]
        side = next(course)
        while True:
            steps[side] += 1
            try:
                side = course.send(1.0 if side == 0 else factor)
            except StopIteration as ended:
                assert ended.value.is_faster is faster
                break
        assert sum(steps) <= 10 + (most - 1) * 8


def test_signatures() -> None:
    x = np.ones((2, 3), "float32")
    assert signature({"x": x}) == signature([{"x": x + 1}]) != signature({"x": x[:1]})
    assert signature({"x": x}) != signature({"x": x.astype("float64")})
    ragged = fluid.create_lod_tensor(x, [[1, 1]], fluid.CPUPlace())
    for feed in ({"x": ragged}, {"x": [1, 2]}, None, [{"x": x}, {"x": x}]):
        assert signature(feed) is None
