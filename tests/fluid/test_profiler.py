"""`fluid.profiler`: report, profile file and errors; the memory report."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from refluid import fluid
from refluid.core.profiler_pb2 import Event, MemEvent, Profile
from refluid.fluid import profiler
from refluid.fluid.contrib.memory_report import memory_report, picture
from refluid.fluid.profiling.trace import chrome_trace
from refluid.fluid.proto.profiler import profiler_pb2
from tests.fluid.small_net import INNER, ROWS, Net

ROW = re.compile(r"thread\d+::(?P<name>\S+)\s+(?P<calls>\d+)\s+(?P<total>\S+)")


def steps(net: Net, count: int = 3) -> None:
    for _ in range(count):
        net.run()


def rows(report: str) -> dict[str, tuple[int, float]]:
    found = (ROW.match(line) for line in report.splitlines())
    return {one["name"]: (int(one["calls"]), float(one["total"])) for one in found if one}


@pytest.fixture
def net() -> Net:
    return Net()


def test_the_report(net: Net, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with profiler.profiler("CPU", "total", str(tmp_path / "profile")):
        steps(net)
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[1:6] == [
        "------------------------->     Profiling Report     <-------------------------",
        "",
        "Place: CPU",
        "Time unit: ms",
        "Sorted by total time in descending order in the same thread",
    ]
    assert re.search(r"Total time: \S+\n  Computation time       Total: \S+ +Ratio: \S+%", text)
    assert re.search(r"  Framework overhead     Total: \S+ +Ratio: \S+%", text)
    assert "GpuMemCpy Summary" in text
    head = next(line for line in lines if line.startswith("Event "))
    assert head.split() == ["Event", "Calls", "Total", "Min.", "Max.", "Ave.", "Ratio."]
    found = rows(text)
    assert found["relu"][0] == 9
    assert found["mul_grad"][0] == 3
    totals = [total for _, total in found.values()]
    assert totals == sorted(totals, reverse=True)


@pytest.mark.parametrize("key", [None, "default", "calls", "total", "max", "min", "ave"])
def test_every_key_sorts(net: Net, key: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    profiler.start_profiler("CPU")
    steps(net, 1)
    profiler.stop_profiler(key)
    found = rows(capsys.readouterr().out)
    calls = [count for count, _ in found.values()]
    if key in (None, "default"):
        assert next(iter(found)) == "mul"
    if key == "calls":
        assert calls == sorted(calls, reverse=True)


@pytest.mark.parametrize("tracer", ["OpDetail", "AllOpDetail"])
def test_details(net: Net, tracer: str, capsys: pytest.CaptureFixture[str]) -> None:
    profiler.start_profiler("CPU", tracer)
    steps(net, 1)
    profiler.stop_profiler()
    text = capsys.readouterr().out
    name = "mul" if tracer == "OpDetail" else "mul:mul_0.tmp_0"
    for part in ("compute", "infer_shape", "prepare_data"):
        assert f"  thread0::{name}/{part} " in text


def test_reset_forgets(net: Net, capsys: pytest.CaptureFixture[str]) -> None:
    profiler.start_profiler("CPU")
    steps(net)
    profiler.reset_profiler()
    steps(net, 1)
    profiler.stop_profiler("calls")
    assert rows(capsys.readouterr().out)["relu"][0] == 3


def test_nothing_begun_is_nothing_to_stop(capsys: pytest.CaptureFixture[str]) -> None:
    profiler.reset_profiler()
    profiler.stop_profiler()
    assert not capsys.readouterr().out


def test_refused() -> None:
    with pytest.raises(ValueError, match="The state must be 'CPU' or 'GPU' or 'All'"):
        profiler.start_profiler("Cpu")
    with pytest.raises(ValueError, match="must be 'Default', 'OpDetail', 'AllOpDetail'"):
        profiler.start_profiler("CPU", "Everything")
    with pytest.raises(ValueError, match="sorted_key must be None or in 'calls', 'total'"):
        profiler.stop_profiler("time")
    with pytest.raises(ValueError, match="'kvp' or 'csv'"), profiler.cuda_profiler("x", "json"):
        pass


def test_the_profile_file(net: Net, tmp_path: Path) -> None:
    path = tmp_path / "made" / "profile"
    with profiler.profiler("All", None, str(path)), profiler.record_event("mine"):
        steps(net, 2)
    found = Profile.FromString(path.read_bytes())
    names = [event.name for event in found.events]
    assert names.count("relu") == 6
    assert names[-1] == "mine"
    assert all(found.start_ns <= one.start_ns <= one.end_ns <= found.end_ns for one in found.events)
    assert {event.type for event in found.events} == {Event.CPU}
    assert {one.place for one in found.mem_events} == {MemEvent.CPUPlace}
    assert profiler_pb2.Profile is Profile


def test_a_timeline_has_a_row_per_replica(net: Net, tmp_path: Path) -> None:
    path = tmp_path / "profile"
    with profiler.profiler("All", None, str(path)):
        net.run(program=net.compiled(2))
    trace = chrome_trace({"one": Profile.FromString(path.read_bytes())})["traceEvents"]
    tracks = {e["pid"]: e["args"]["name"] for e in trace if e["name"] == "process_name"}
    assert set(tracks.values()) == {"operators", "communication", "memory"}
    replicas = {e["args"]["name"] for e in trace if e["name"] == "thread_name"}
    assert {name.rsplit("_", 1)[0] for name in replicas} == {
        "refluid-replica-0",
        "refluid-replica-1",
    }
    spans = [event for event in trace if event["ph"] == "X"]
    assert min(event["ts"] for event in spans) >= 0
    held = [event["args"]["bytes"] for event in trace if event["ph"] == "C"]
    assert held and min(held) >= 0
    mul = next(event for event in spans if event["name"] == "mul")
    assert mul["args"]["layer"] == "mul_0"
    assert "small_net.py" in mul["args"]["line"]


def test_memory_report(net: Net) -> None:
    feed = {"x": np.ones((ROWS, INNER), "float32")}
    with fluid.scope_guard(net.scope):
        report = memory_report(net.executor, net.main, feed, [net.loss])
    assert report.peak == max(size for _, size in report.curve)
    assert 0.7 * report.peak < report.planned.peak < 1.3 * report.peak
    assert 1 < len(report.largest) <= 10
    assert [one.size for one in report.largest] == sorted(
        (one.size for one in report.largest), reverse=True
    )
    assert all("small_net.py" in one.line for one in report.largest[:3])
    text = report.text()
    for word in ("planned peak", "measured peak", "w_velocity_0", "█"):
        assert word in text


def test_memory_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no operators"):
        memory_report(fluid.Executor(), fluid.Program())


def test_picture() -> None:
    lines = picture([0, 500, 1000])
    assert lines[0] == "          1 kB │  █"
    assert lines[-1] == "           0 B │ ██"
    assert picture([]) == []


def test_cuda_profiler_without_a_gpu(
    net: Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    path = tmp_path / "kernels"
    with profiler.cuda_profiler(str(path)):
        steps(net, 1)
    assert path.read_text() == "gpustarttimestamp,gpuendtimestamp,streamid,method\n"


def test_profiling_leaves_the_numbers_alone() -> None:
    plain, profiled = Net(), Net()
    losses = [plain.run() for _ in range(3)]
    with profiler.profiler("CPU"):
        same = [profiled.run() for _ in range(3)]
    assert losses == same
