"""Readers that are part of a program: py_reader, non-iterable loaders, their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid, paddle
from refluid.core.names import UniqueNameGenerator
from refluid.feed import ReaderFailed
from refluid.fluid.reader import programs
from refluid.ir.program import Program
from tests.feed.leftovers import assert_nothing_left
from tests.fluid.recorded_training import facts, read_program
from tests.golden import GOLDEN, needs_golden

WIDTH, COUNT, SIZE = 6, 23, 4


def samples(count: int = COUNT) -> Any:
    """Samples whose first number is their own."""

    def reader() -> Iterator[Any]:
        for number in range(count):
            yield np.full(WIDTH, number, "float32"), np.array([number % 3])

    return reader


def batches(count: int) -> Any:
    def reader() -> Iterator[Any]:
        for number in range(count):
            yield np.full((SIZE, WIDTH), number, "float32"), np.zeros((SIZE, 1), "int64")

    return reader


class Case:
    """A program that reads, and its reader."""

    def __init__(self, make: Callable[[], tuple[Any, list[fluid.Variable]]]) -> None:
        self.main, self.startup = Program(), Program()
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            self.reader, (data, label) = make()
            hidden = fluid.layers.fc(data, 3, act="softmax")
            self.loss = fluid.layers.mean(fluid.layers.cross_entropy(hidden, label))
            self.first = fluid.layers.slice(data, axes=[1], starts=[0], ends=[1])
            fluid.optimizer.SGD(0.1).minimize(self.loss)
        self.scope = fluid.Scope()
        self.executor = fluid.Executor(fluid.CPUPlace())
        with fluid.scope_guard(self.scope):
            self.executor.run(self.startup)

    def step(self) -> list[int]:
        with fluid.scope_guard(self.scope):
            (first,) = self.executor.run(self.main, fetch_list=[self.first])
        return [int(number) for number in first[:, 0]]

    def all(self) -> list[list[int]]:
        found = []
        try:
            while True:
                found.append(self.step())
        except fluid.core.EOFException:
            return found


def _py_reader(double: bool) -> tuple[Any, list[fluid.Variable]]:
    reader = fluid.layers.py_reader(
        3, [(-1, WIDTH), (-1, 1)], ["float32", "int64"], use_double_buffer=double
    )
    return reader, fluid.layers.read_file(reader)  # type: ignore[return-value]


def _variables() -> list[fluid.Variable]:
    return [fluid.data("x", [None, WIDTH]), fluid.data("label", [None, 1], "int64")]


def _by_data() -> tuple[Any, list[fluid.Variable]]:
    variables = _variables()
    reader = fluid.layers.create_py_reader_by_data(3, variables)
    assert fluid.layers.read_file(reader) == variables
    return reader, variables


def _loader(**options: Any) -> tuple[Any, list[fluid.Variable]]:
    variables = _variables()
    loader = fluid.io.DataLoader.from_generator(variables, 3, iterable=False, **options)
    return loader, variables


def _pyreader() -> tuple[Any, list[fluid.Variable]]:
    variables = _variables()
    return fluid.io.PyReader(variables, 3, iterable=False), variables


KINDS: dict[str, Callable[[], tuple[Any, list[fluid.Variable]]]] = {
    "py_reader": lambda: _py_reader(True),
    "py_reader without double buffer": lambda: _py_reader(False),
    "create_py_reader_by_data": _by_data,
    "DataLoader": _loader,
    "DataLoader in a process": lambda: _loader(use_multiprocess=True),
    "DataLoader without double buffer": lambda: _loader(use_double_buffer=False),
    "PyReader": _pyreader,
}
LISTS = ("decorate_paddle_reader", "decorate_sample_list_generator", "set_sample_list_generator")
BATCHES = ("decorate_tensor_provider", "decorate_batch_generator", "set_batch_generator")
EXPECTED = [list(range(start, min(start + SIZE, COUNT))) for start in range(0, COUNT, SIZE)]


def give(reader: Any, names: tuple[str, ...], source: Any) -> None:
    """Hands a generator over by the first of the methods that the reader has."""
    getattr(reader, next(name for name in names if hasattr(reader, name)))(source)


@pytest.fixture(params=KINDS)
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    made = Case(KINDS[request.param])
    give(made.reader, LISTS, paddle.batch(samples(), SIZE))
    yield made
    made.reader.reset()
    assert_nothing_left()


def test_passes(case: Case) -> None:
    for _ in range(3):
        case.reader.start()
        assert case.all() == EXPECTED
        assert case.all() == []
        case.reader.reset()


def test_what_fluid_forgives(case: Case) -> None:
    case.reader.start()
    case.reader.start()
    assert case.step() == EXPECTED[0]
    case.reader.reset()
    case.reader.reset()
    case.reader.start()
    assert case.all() == EXPECTED
    case.reader.start()
    assert case.all() == EXPECTED


def test_running_before_start_is_an_error(case: Case) -> None:
    for _ in range(2):
        with pytest.raises(fluid.core.EnforceNotMet, match=r"not started.*start\(\)"):
            case.step()
        case.reader.start()
        case.step()
        case.reader.reset()


def test_queue(case: Case) -> None:
    assert case.reader.queue.capacity() == 3
    assert case.reader.queue.size() == 0
    case.reader.start()
    case.step()
    assert 0 <= case.reader.queue.size() <= 3


def test_batches_of_arrays_and_tensors(case: Case) -> None:
    give(case.reader, BATCHES, batches(3))
    case.reader.start()
    assert case.all() == [[number] * SIZE for number in range(3)]

    def tensors() -> Iterator[Any]:
        for data, label in batches(3)():
            yield [fluid.create_lod_tensor(one, [], fluid.CPUPlace()) for one in (data, label)]

    give(case.reader, BATCHES, tensors)
    case.reader.start()
    assert case.all() == [[number] * SIZE for number in range(3)]


def test_a_generator_that_uses_its_memory_again(case: Case) -> None:
    def reusing() -> Iterator[Any]:
        data, label = np.zeros((SIZE, WIDTH), "float32"), np.zeros((SIZE, 1), "int64")
        for number in range(8):
            data[:] = number
            yield data, label

    give(case.reader, BATCHES, reusing)
    case.reader.start()
    assert case.all() == [[number] * SIZE for number in range(8)]


def test_errors_of_the_generator(case: Case) -> None:
    def failing() -> Iterator[Any]:
        yield from batches(2)()
        raise OSError("disk gone")

    give(case.reader, BATCHES, failing)
    case.reader.start()
    assert [case.step(), case.step()] == [[0] * SIZE, [1] * SIZE]
    for _ in range(2):
        with pytest.raises(fluid.core.EnforceNotMet, match="disk gone") as caught:
            case.step()
        assert isinstance(caught.value, ReaderFailed)
        assert "Blocking queue is killed because the data reader raises" in str(caught.value)
        assert isinstance(caught.value.__cause__, OSError)
    case.reader.reset()
    give(case.reader, BATCHES, batches(1))
    case.reader.start()
    assert case.all() == [[0] * SIZE]


def test_speed_test_mode(case: Case) -> None:
    fluid.set_flags({"FLAGS_reader_queue_speed_test_mode": True})
    try:
        case.reader.start()
        assert {tuple(case.step()) for _ in range(20)} == {tuple(EXPECTED[0])}
        assert case.reader.queue.size() >= 1
    finally:
        fluid.set_flags({"FLAGS_reader_queue_speed_test_mode": False})


@pytest.mark.parametrize("after", [0, 2, 5, 6])
def test_position(case: Case, after: int) -> None:
    case.reader.start()
    before = [case.step() for _ in range(after)]
    state = case.reader.state_dict()
    case.reader.reset()
    case.reader.load_state_dict(state)
    case.reader.start()
    assert before + case.all() == EXPECTED
    case.reader.start()
    assert case.all() == EXPECTED
    with pytest.raises(ValueError, match="no state of a loader"):
        case.reader.load_state_dict({"batch": 3})


def test_data_of_the_wrong_kind() -> None:
    case = Case(_loader)
    for values, message in [
        ((np.zeros((4, 5), "float32"), np.zeros((4, 1), "int64")), r"tensor 0 .* shape"),
        ((np.zeros((4, 6), "float32"), np.zeros((4, 1), "int32")), r"tensor 1 .*'int64'.*'int32'"),
        ((np.zeros((4, 6), "float32"),), r"gave 1 tensors, but the program reads 2"),
    ]:
        case.reader.set_batch_generator(lambda values=values: iter([values]))
        case.reader.start()
        with pytest.raises(fluid.core.EnforceNotMet, match=message):
            case.step()
    case.reader.reset()


def test_sequences_arrive_with_their_lod() -> None:
    main, startup = Program(), Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        reader = fluid.layers.py_reader(2, [(-1, 1)], ["int64"], lod_levels=[1])
        words = fluid.layers.read_file(reader)
        sums = fluid.layers.sequence_pool(fluid.layers.cast(words, "float32"), "sum")
    reader.decorate_paddle_reader(lambda: iter([[([1, 2],), ([3],)], [([4, 5, 6],)]]))
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(startup)
    reader.start()
    found = [executor.run(main, fetch_list=[sums])[0].tolist() for _ in range(2)]
    assert found == [[[3.0], [3.0]], [[15.0]]]
    (tensor,) = _restarted(reader, executor, main, words)
    assert tensor.recursive_sequence_lengths() == [[2, 1]]
    reader.reset()


def _restarted(reader: Any, executor: fluid.Executor, main: Program, var: Any) -> list[Any]:
    reader.reset()
    reader.start()
    return executor.run(main, fetch_list=[var], return_numpy=False)


def test_two_readers_and_a_test_program() -> None:
    cases = [Case(_loader), Case(_loader)]
    for case in cases:
        case.reader.set_sample_list_generator(paddle.batch(samples(), SIZE))
        case.reader.start()
    assert [case.step() for case in cases] == [EXPECTED[0]] * 2
    clone = cases[0].main.clone(for_test=True)
    with fluid.scope_guard(cases[0].scope):
        (first,) = cases[0].executor.run(clone, fetch_list=[cases[0].first.name])
    assert first[0, 0] == EXPECTED[1][0]
    for case in cases:
        case.reader.reset()


def test_a_loader_made_after_the_network_still_reads_first() -> None:
    main, startup = Program(), Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, WIDTH])
        y = fluid.layers.scale(x, 2.0)
        loader = fluid.io.DataLoader.from_generator([x], 2, iterable=False)
    loader.set_batch_generator(lambda: iter([[np.ones((1, WIDTH), "float32")]]))
    loader.start()
    assert fluid.Executor().run(main, fetch_list=[y])[0].tolist() == [[2.0] * WIDTH]
    loader.reset()


def test_mistakes() -> None:
    variables = Case(_loader)
    loader = variables.reader
    with pytest.raises(AssertionError, match="DataLoader is not iterable"):
        iter(loader)
    with pytest.raises(AssertionError, match="Data source of DataLoader has not set yet"):
        loader.start()
    with pytest.raises(ValueError, match=r"Please give value to capacity\."):
        fluid.io.DataLoader.from_generator([])
    with pytest.raises(AssertionError, match="function that returns a generator"):
        loader.set_batch_generator([1, 2])
    with pytest.raises(TypeError, match="read_file takes a reader"):
        fluid.layers.read_file(variables.loss)
    with pytest.raises(AttributeError, match=r"open_files.*removed before Fluid 1\.8.*DataLoader"):
        fluid.layers.open_files  # noqa: B018


@needs_golden
@pytest.mark.parametrize("model", ["bert_classify", "senta_bow", "sr_gnn", "word2vec"])
def test_loader_is_fluids(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_names", UniqueNameGenerator())
    recorded = read_program(GOLDEN / "zoo" / model / "main.pb").global_block()
    wanted = [op for op in recorded.ops if op.type in ("create_py_reader", "read")]
    wanted.insert(1, next(op for op in recorded.ops if op.type == "create_double_buffer_reader"))
    main = Program()
    with fluid.program_guard(main, Program()):
        feeds = [
            fluid.data(name, recorded.vars[name].shape, recorded.vars[name].dtype)
            for name in wanted[2].output("Out")
        ]
        fluid.io.DataLoader.from_generator(feeds, 4, iterable=False)
    block = main.global_block()
    assert [facts(op) for op in block.ops] == [facts(op) for op in wanted]
    for name in ("create_py_reader_0", "double_buffer_0"):
        assert block.vars[name].extra_desc == recorded.vars[name].extra_desc
