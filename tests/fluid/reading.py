"""A small network that reads its data through a reader of its program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from refluid import fluid
from refluid.ir.program import Program

WIDTH, COUNT, SIZE = 6, 23, 4
# The numbers of the samples of each batch.
EXPECTED = [list(range(start, min(start + SIZE, COUNT))) for start in range(0, COUNT, SIZE)]


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


def from_py_reader(double: bool) -> tuple[Any, list[fluid.Variable]]:
    reader = fluid.layers.py_reader(
        3, [(-1, WIDTH), (-1, 1)], ["float32", "int64"], use_double_buffer=double
    )
    return reader, fluid.layers.read_file(reader)  # type: ignore[return-value]


def _variables() -> list[fluid.Variable]:
    return [fluid.data("x", [None, WIDTH]), fluid.data("label", [None, 1], "int64")]


def from_variables() -> tuple[Any, list[fluid.Variable]]:
    variables = _variables()
    reader = fluid.layers.create_py_reader_by_data(3, variables)
    assert fluid.layers.read_file(reader) == variables
    return reader, variables


def from_loader(**options: Any) -> tuple[Any, list[fluid.Variable]]:
    variables = _variables()
    loader = fluid.io.DataLoader.from_generator(variables, 3, iterable=False, **options)
    return loader, variables


def from_pyreader() -> tuple[Any, list[fluid.Variable]]:
    variables = _variables()
    return fluid.io.PyReader(variables, 3, iterable=False), variables
