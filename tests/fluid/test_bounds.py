"""Numbers of threads, places, batches and the like have bounds, and a message that names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import refluid.fluid as fluid
from refluid.core.bounds import MOST_PLACES, MOST_PROCESSES, MOST_THREADS, whole_number
from refluid.core.places import CPUPlace

HUGE = [2**31, 2**63, 2**70]


def _reader() -> Any:
    return iter(range(3))


def _strategy(kind: Any, name: str) -> Callable[[int], Any]:
    return lambda number: setattr(kind(), name, number)


def _dataset(method: str) -> Callable[[int], Any]:
    return lambda number: getattr(fluid.InMemoryDataset(), method)(number)


TAKES: dict[str, Callable[[int], Any]] = {
    "ExecutionStrategy.num_threads": _strategy(fluid.ExecutionStrategy, "num_threads"),
    "num_iteration_per_drop_scope": _strategy(
        fluid.ExecutionStrategy, "num_iteration_per_drop_scope"
    ),
    "num_iteration_per_run": _strategy(fluid.ExecutionStrategy, "num_iteration_per_run"),
    "BuildStrategy.num_trainers": _strategy(fluid.BuildStrategy, "num_trainers"),
    "cpu_places": fluid.cpu_places,
    "set_thread": _dataset("set_thread"),
    "set_batch_size": _dataset("set_batch_size"),
    "set_pv_batch_size": _dataset("set_pv_batch_size"),
    "set_queue_num": _dataset("set_queue_num"),
    "set_fea_eval": _dataset("set_fea_eval"),
    "set_fleet_send_batch_size": _dataset("set_fleet_send_batch_size"),
    "capacity": lambda number: fluid.io.DataLoader.from_generator([], number, iterable=True),
    "num_workers": lambda number: fluid.io.DataLoader(
        [1, 2], places=CPUPlace(), feed_list=[], return_list=True, num_workers=number
    ),
    "xmap threads": lambda number: fluid.io.xmap_readers(abs, _reader, number, 2),
    "xmap buffer": lambda number: fluid.io.xmap_readers(abs, _reader, 2, number),
    "buffered": lambda number: fluid.io.buffered(_reader, number),
    "queue_size": lambda number: fluid.io.multiprocess_reader([_reader], queue_size=number),
    "shuffle": lambda number: fluid.io.shuffle(_reader, number),
    "batch": lambda number: fluid.io.batch(_reader, number),
    "firstn": lambda number: fluid.io.firstn(_reader, number),
    "FLAGS_paddle_num_threads": lambda number: fluid.set_flags(
        {"FLAGS_paddle_num_threads": number}
    ),
}


@pytest.mark.parametrize("number", HUGE, ids=hex)
@pytest.mark.parametrize("name", TAKES)
def test_a_number_out_of_bounds_is_refused(name: str, number: int) -> None:
    with pytest.raises(ValueError, match=rf"(at most|\d+ to) \d+, not {number}") as caught:
        TAKES[name](number)
    assert isinstance(caught.value, fluid.core.EnforceNotMet)


@pytest.mark.parametrize("name", ["num_threads", "num_iteration_per_drop_scope"])
def test_no_option_is_negative(name: str) -> None:
    with pytest.raises(ValueError, match=rf"ExecutionStrategy\.{name} is 0 to \d+, not -1"):
        setattr(fluid.ExecutionStrategy(), name, -1)


def test_threads_processes_and_places_have_bounds_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strategy = fluid.ExecutionStrategy()
    strategy.num_threads = MOST_THREADS
    with pytest.raises(ValueError, match="num_threads is 0 to"):
        strategy.num_threads = MOST_THREADS + 1
    with pytest.raises(ValueError, match="num_workers is at most"):
        TAKES["num_workers"](MOST_PROCESSES + 1)
    monkeypatch.setenv("CPU_NUM", str(MOST_PLACES + 1))
    with pytest.raises(ValueError, match=r"CPU_NUM.* is 1 to"):
        fluid.cpu_places()
    assert len(fluid.cpu_places(MOST_PLACES)) == MOST_PLACES


def test_too_many_places_are_no_threads() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        out = fluid.data("x", [None, 1]) * 2.0
    places = [fluid.CPUPlace()] * (MOST_PLACES + 1)
    compiled = fluid.CompiledProgram(main).with_data_parallel(places=places)
    with pytest.raises(ValueError, match="the number of places is 1 to"):
        fluid.Executor().run(compiled, feed={"x": [[1.0]]}, fetch_list=[out])


@pytest.mark.parametrize("number", HUGE)
def test_a_device_number_out_of_bounds(number: int) -> None:
    with pytest.raises(fluid.core.EnforceNotMet, match="device numbers are 0 to"):
        fluid.CUDAPlace(number)


def test_whole_number() -> None:
    assert whole_number("it", 3.0) == 3
    for wrong in (2.5, "3", None, float("nan"), float("inf")):
        with pytest.raises(TypeError, match="it is a whole number"):
            whole_number("it", wrong)
