"""Readers in programs: what they check, several of them, and the operators that they add."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid import fluid, paddle
from refluid.core.names import UniqueNameGenerator
from refluid.fluid.reader import programs
from refluid.ir.program import Program
from tests.fluid.reading import (
    EXPECTED,
    SIZE,
    WIDTH,
    Case,
    from_loader,
    from_py_reader,
    samples,
)
from tests.fluid.recorded_training import facts, read_program
from tests.golden import GOLDEN, needs_golden


def test_data_of_the_wrong_kind() -> None:
    case = Case(from_loader)
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
    cases = [Case(from_loader), Case(from_loader)]
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
    variables = Case(from_loader)
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


@pytest.mark.parametrize("make", [from_loader, lambda: from_py_reader(True)])
def test_data_parallel(make: Any) -> None:
    case = Case(make)
    names = ("set_sample_list_generator", "decorate_paddle_reader")
    give = next(getattr(case.reader, name) for name in names if hasattr(case.reader, name))
    give(paddle.batch(samples(), SIZE))
    program = fluid.CompiledProgram(case.main).with_data_parallel(
        loss_name=case.loss.name, places=fluid.cpu_places(2)
    )
    with fluid.scope_guard(case.scope):
        for _ in range(2):
            case.reader.start()
            for batches in zip(EXPECTED[::2], EXPECTED[1::2], strict=True):
                (first,) = case.executor.run(program, fetch_list=[case.first])
                assert first[:, 0].astype(int).tolist() == batches[0] + batches[1]
            with pytest.raises(fluid.core.EOFException):
                case.executor.run(program, fetch_list=[case.first])
            case.reader.reset()
