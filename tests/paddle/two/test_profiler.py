"""`paddle.profiler`: states as Paddle 2.6.2's are, what is noted, written, read and printed."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import paddle
from refluid.core import events
from refluid.core.errors import EnforceNotMet
from refluid.fluid import dygraph
from refluid.paddle import profiler

# What Paddle 2.6.2 gives for each step: C closed, Y ready, R recorded, T recorded and returned.
LETTERS = dict(zip("CYRT", profiler.ProfilerState, strict=True))
CYCLES = [
    ({"closed": 1, "ready": 1, "record": 4, "repeat": 1}, "CYRRRTCCCC"),
    ({"closed": 1, "ready": 1, "record": 2, "repeat": 0, "skip_first": 1}, "CCYRTCYRTCYR"),
    ({"closed": 0, "ready": 1, "record": 1}, "YTYTYT"),
    ({"closed": 0, "ready": 1, "record": 2, "repeat": 2}, "YRTYRTCCC"),
]


@pytest.mark.parametrize(("given", "states"), CYCLES)
def test_cycles_are_paddles(given: Any, states: str) -> None:
    state = profiler.make_scheduler(**given)
    assert [state(step) for step in range(len(states))] == [LETTERS[one] for one in states]


@pytest.mark.parametrize(
    ("steps", "states"),
    [((1, 3), "YRTCC"), ((0, 2), "RTCC"), ((3, 5), "CCYRTCC"), ((-1, 2), "RTC")],
)
@pytest.mark.filterwarnings("ignore:a profiler that records at once")
def test_steps_from_and_to(steps: tuple[int, int], states: str) -> None:
    state = profiler.Profiler(scheduler=steps, timer_only=True).scheduler
    assert [state(step) for step in range(len(states))] == [LETTERS[one] for one in states]


def test_numbers_that_make_no_cycle() -> None:
    for given in ({"closed": -1}, {"record": 0}, {"skip_first": -1}, {"repeat": -1}):
        with pytest.raises(AssertionError, match="Invalid profiler scheduler arguments"):
            profiler.make_scheduler(**{"closed": 1, "ready": 1, "record": 1, **given})
    with pytest.raises(AssertionError, match=r"\(3, 1\)"):
        profiler.Profiler(scheduler=(3, 1))


def train(watching: profiler.Profiler, steps: int) -> None:
    with dygraph.guard():
        net = paddle.nn.Linear(4, 3)
        adam = paddle.optimizer.Adam(0.1, parameters=net.parameters())
        for _ in range(steps):
            with profiler.RecordEvent("mine"):
                loss = paddle.nn.functional.relu(net(paddle.ones([2, 4]))).mean()
                loss.backward()
                adam.step()
                adam.clear_grad()
            watching.step(num_samples=2)


@pytest.mark.parametrize("seed", range(4))
def test_the_steps_that_are_asked_for(seed: int) -> None:
    source = random.Random(seed)
    begin, count, after = source.randint(1, 3), source.randint(1, 3), source.randint(0, 2)
    returned: list[int] = []
    watching = profiler.Profiler(
        scheduler=(begin, begin + count),
        on_trace_ready=lambda one: returned.append(one.step_num),
    )
    with watching:
        train(watching, begin + count + after)
    assert returned == [begin + count - 1] and events.active() is None
    assert watching.profiler_result is not None
    names = [one.name for one in watching.profiler_result.log.events]
    steps = [f"ProfileStep#{number}" for number in range(begin, begin + count)]
    assert [name for name in names if name.startswith("ProfileStep")] == steps
    for name in ("mine", "relu", "relu_grad", "adam_v2"):
        assert names.count(name) == count, name


def test_a_cycle_that_ends_without_returning_is_returned() -> None:
    """By a scheduler of one's own, which closes after steps that are recorded."""
    returned: list[int] = []
    states = [LETTERS[one] for one in "CRRCCRC"]
    watching = profiler.Profiler(
        scheduler=lambda step: states[step] if step < len(states) else states[0],
        on_trace_ready=lambda one: returned.append(one.step_num),
    )
    with watching:
        train(watching, len(states))
    assert returned == [3, 6] and events.active() is None


def test_stopping_returns_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    watching = profiler.Profiler(targets=[profiler.ProfilerTarget.CPU])
    watching.start()
    train(watching, 2)
    assert not [*tmp_path.glob("profiler_log/*")]
    watching.stop()
    (written,) = tmp_path.glob("profiler_log/*.paddle_trace.json")
    spans = [one for one in json.loads(written.read_text())["traceEvents"] if one["ph"] == "X"]
    assert {"relu", "relu_grad", "adam_v2", "mine", "ProfileStep#1"} <= {
        one["name"] for one in spans
    }


def test_files_are_read_again(tmp_path: Path) -> None:
    ready = profiler.export_protobuf(str(tmp_path / "kept"), "one")
    with profiler.Profiler(on_trace_ready=ready) as watching:
        train(watching, 1)
    (written,) = (tmp_path / "kept").iterdir()
    assert written.name.startswith("one_time_") and written.suffix == ".pb"
    again = profiler.load_profiler_result(str(written))
    again.save(tmp_path / "trace.json")
    watching.export(str(tmp_path / "own.json"))
    assert (tmp_path / "trace.json").read_text() == (tmp_path / "own.json").read_text()
    with pytest.raises(ValueError, match="'json' or 'pb', not 'text'"):
        watching.export(str(tmp_path / "other"), "text")
    (tmp_path / "torn").write_bytes(written.read_bytes()[:-3])
    with pytest.raises(ValueError, match="torn is no profile file"):
        profiler.load_profiler_result(str(tmp_path / "torn"))


def test_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    with profiler.Profiler(on_trace_ready=lambda _: None) as watching:
        train(watching, 3)
    watching.summary(sorted_by=profiler.SortedKeys.CPUMin, op_detail=False, time_unit="us")
    text = capsys.readouterr().out
    titles = re.findall(r"-+ (\w+) Summary -+", text)
    assert titles == ["Device", "Overview", "Model", "Operator", "UserDefined"]
    table = text.partition("Operator Summary")[2].partition("UserDefined")[0]
    rows = re.findall(r"^(\w+) +(\d+) +[\d.]+ / [\d.]+ / [\d.]+ / ([\d.]+) / ", table, re.MULTILINE)
    least = [float(one) for _, _, one in rows]
    assert least == sorted(least) and ("adam_v2", "3") in {(name, calls) for name, calls, _ in rows}
    watching.summary(views=profiler.SummaryView.UDFView, thread_sep=True)
    assert re.findall(r"(\S+) Summary", capsys.readouterr().out) == ["UserDefined"]
    with pytest.raises(ValueError, match="time_unit is one of s, ms, us, ns, not 'min'"):
        watching.summary(time_unit="min")


def test_programs_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a static program: its operators, and the memory that they held."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [None, 4], "float32")
        loss = paddle.mean(paddle.static.nn.fc(x, 3, activation="relu"))
        paddle.optimizer.SGD(0.1).minimize(loss)
    scope, exe = paddle.static.Scope(), paddle.static.Executor()
    with paddle.static.scope_guard(scope):
        exe.run(startup)
        ready = profiler.Profiler(profile_memory=True, on_trace_ready=lambda _: None)
        with ready as watching:
            for _ in range(2):
                exe.run(main, feed={"x": np.ones((2, 4), "float32")}, fetch_list=[loss])
                watching.step()
    watching.summary()
    text = capsys.readouterr().out
    for phase in ("Forward", "Backward", "Optimization"):
        assert re.search(rf"^{phase} +\d+ ", text, re.MULTILINE), phase
    assert re.search(r"Memory Summary -+\n.*\n.*\ncpu +\d+ ", text)


def test_times_alone() -> None:
    data = paddle.io.TensorDataset([paddle.ones([8, 3])]) if dygraph.enabled() else range(8)
    watching = profiler.Profiler(timer_only=True)
    with pytest.raises(EnforceNotMet, match="call start"):
        watching.step()
    with watching:
        for _ in data:
            watching.step(num_samples=4)
        assert events.active() is None
        told = r" batch_cost: \d+\.\d{5} s ips: \d+\.\d{3} (\S+)/s"
        found = re.fullmatch(told, watching.step_info(unit="images"))
        assert found is not None and found[1] == "images"
        watching.step()
        found = re.fullmatch(told, watching.step_info())
        assert found is not None and found[1] == "steps"


def test_waits_for_a_reader_are_told() -> None:
    def batches() -> Any:
        for _ in range(4):
            yield (np.ones((2, 3), "float32"),)

    with dygraph.guard():
        loader = paddle.io.DataLoader.from_generator(capacity=2)
        loader.set_batch_generator(batches, places=paddle.CPUPlace())
        with profiler.Profiler(timer_only=True) as watching:
            for _ in loader:
                watching.step(2)
            assert re.match(r" reader_cost: \d+\.\d{5} s batch_cost: ", watching.step_info())
