"""Checks of what users pass to layers, and `DataFeeder`, which makes feeds of mini-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from refluid.core.dtypes import as_dtype, dtype_name
from refluid.core.places import CPUPlace, CUDAPlace, Place, cpu_places, cuda_places
from refluid.core.values import LoDTensor
from refluid.feed.batches import Column, as_batch
from refluid.feed.sample_columns import Field, columns
from refluid.ir.defaults import default_main_program
from refluid.ir.program import Program
from refluid.ir.variable import Variable

__all__ = ["DataFeeder", "check_dtype", "check_type", "check_variable_and_dtype", "convert_dtype"]

Minibatch = Iterable[Sequence[Any]]
Reader = Callable[[], Iterable[Any]]


def convert_dtype(dtype: Any) -> str:
    """The name of an element type, such as `float32`. TypeError for anything else."""
    return dtype_name(as_dtype(dtype))


def check_type(
    input: Any, input_name: str, expected_type: Any, op_name: str, extra_message: str = ""
) -> None:
    """TypeError unless `input` is of the expected type (or of one of a tuple of them)."""
    if not isinstance(input, expected_type):
        raise TypeError(
            f"The type of '{input_name}' in {op_name} must be {expected_type}, but received "
            f"{type(input)}. {extra_message}"
        )


def check_dtype(
    input_dtype: Any,
    input_name: str,
    expected_dtype: str | Sequence[str],
    op_name: str,
    extra_message: str = "",
) -> None:
    """TypeError unless the element type is among the expected names."""
    expected = [expected_dtype] if isinstance(expected_dtype, str) else expected_dtype
    if convert_dtype(input_dtype) not in expected:
        raise TypeError(
            f"The data type of '{input_name}' in {op_name} must be {expected_dtype}, but "
            f"received {convert_dtype(input_dtype)}. {extra_message}"
        )


def check_variable_and_dtype(
    input: Any,
    input_name: str,
    expected_dtype: str | Sequence[str],
    op_name: str,
    extra_message: str = "",
) -> None:
    """TypeError unless `input` is a variable of one of the expected element types."""
    check_type(input, input_name, Variable, op_name, extra_message)
    check_dtype(input.dtype, input_name, expected_dtype, op_name, extra_message)


class DataFeeder:
    """Turns mini-batches, lists of one tuple per sample, into feeds for `Executor.run`.

    feed_list: the fed variables (or their names, looked up in `program`), in the order of the
    values of a sample. A value is a number, a list or an array; of a variable with LoD level 1
    it is a sequence, of level 2 a list of sequences. Samples of a dense variable are reshaped to
    its shape where their number of elements fits.
    """

    def __init__(
        self,
        feed_list: Sequence[Variable | str],
        place: Place | None,
        program: Program | None = None,
    ) -> None:
        block = (program or default_main_program()).global_block()
        self.feed_vars = [block.var(var) if isinstance(var, str) else var for var in feed_list]
        for var in self.feed_vars:
            check_type(var, "feed_list", Variable, "DataFeeder")
        self.feed_names = [var.name for var in self.feed_vars]
        self.feed_dtypes = [var.dtype for var in self.feed_vars]
        self.place = place
        self._fields = [Field.of(var) for var in self.feed_vars]

    def feed(self, iterable: Minibatch) -> dict[str, LoDTensor]:
        """The feed of one mini-batch: a `LoDTensor` per variable.

        Raises AssertionError for a sample of too many or too few values, ValueError for values
        that don't fit a variable's shape.
        """
        made = columns(self._fields, iterable)
        return {
            name: self._tensor(column) for name, column in zip(self.feed_names, made, strict=True)
        }

    def _tensor(self, column: Column) -> LoDTensor:
        if self.place is None or isinstance(self.place, CPUPlace):
            return as_batch([column])[0]
        tensor = LoDTensor()
        tensor.set(column[0], self.place)
        tensor.set_lod(column[1])
        return tensor

    def feed_parallel(
        self, iterable: Iterable[Minibatch], num_places: int | None = None
    ) -> Iterator[dict[str, LoDTensor]]:
        """One feed per device, each of its own mini-batch.

        Raises AssertionError unless there is one mini-batch per device.
        """
        batches = list(iterable)
        count = self._get_number_of_places_(num_places)
        assert len(batches) == count, (
            f"{len(batches)} mini-batches for {count} devices; give one each"
        )
        return (self.feed(batch) for batch in batches)

    def _get_number_of_places_(self, num_places: int | None) -> int:
        if num_places is not None:
            return int(num_places)
        return len(cuda_places() if isinstance(self.place, CUDAPlace) else cpu_places())

    def decorate_reader(
        self,
        reader: Reader,
        multi_devices: bool,
        num_places: int | None = None,
        drop_last: bool = True,
    ) -> Callable[[], Iterator[Any]]:
        """A reader of feeds made from a reader of mini-batches.

        multi_devices: it gives lists of one feed per device; mini-batches left over at the end
        are dropped, or a ValueError if `drop_last` is False.
        """

        def single() -> Iterator[Any]:
            for batch in reader():
                yield self.feed(batch)

        def several() -> Iterator[Any]:
            count = self._get_number_of_places_(num_places)
            waiting: list[Any] = []
            for batch in reader():
                waiting.append(batch)
                if len(waiting) == count:
                    yield list(self.feed_parallel(waiting, count))
                    waiting = []
            if waiting and not drop_last:
                raise ValueError(
                    f"The data batch which cannot fit for devices will be dropped is not "
                    f"implementation: {len(waiting)} mini-batches are left for {count} devices; "
                    "set drop_last=True to leave them out"
                )

        return several if multi_devices else single
