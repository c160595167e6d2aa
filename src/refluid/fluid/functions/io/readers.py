"""Readers that are part of a program: `py_reader` and what is done with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from refluid.build import How, apply, op
from refluid.core import names
from refluid.core.dtypes import VarType, as_dtype
from refluid.core.places import Place
from refluid.feed.queue import BlockingQueue
from refluid.feed.sample_columns import Field
from refluid.fluid.reader.generators import GeneratorSource
from refluid.fluid.reader.passes import Passes
from refluid.fluid.reader.programs import creation_attrs, given_by, reader_var
from refluid.ir.defaults import default_main_program, default_startup_program
from refluid.ir.readers import ReadTensor, read_tensors, set_read_tensors
from refluid.ir.variable import Variable
from refluid.runtime.readers import publish

__all__ = ["create_py_reader_by_data", "double_buffer", "py_reader", "read_file"]

Generator = Callable[[], Iterable[Any]]


class ReaderVariable(Variable):
    """A reader in a program. Say where its data come from, then `start()` and `reset()` it.

    Copies in other programs (`Program.clone`) have no data of their own.
    """

    _source: _Source | None = None
    _fed: list[Variable] | None = None

    def decorate_paddle_reader(self, reader: Generator, places: Any = None) -> None:
        """Takes lists of samples from `reader()`, as `paddle.batch` makes them."""
        self._given().source.set_sample_lists(reader)

    decorate_sample_list_generator = decorate_paddle_reader

    def decorate_tensor_provider(self, reader: Generator, places: Any = None) -> None:
        """Takes batches from `reader()`: an array or LoDTensor per tensor of the reader."""
        self._given().source.set_batches(reader)

    decorate_batch_generator = decorate_tensor_provider

    def start(self) -> None:
        """Begins a pass over the data, before the program is run."""
        self._given().passes.start()

    def reset(self) -> None:
        """Ends the pass; `core.EOFException` says that it is at its end."""
        self._given().passes.reset()

    @property
    def queue(self) -> BlockingQueue:
        """The queue of batches read ahead: `size()`, `capacity()`."""
        return self._given().passes.reader.queue

    def state_dict(self) -> dict[str, Any]:
        """The position in the data; see `DataLoader`."""
        return self._given().passes.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Has the next pass begin where `state_dict` was called."""
        self._given().passes.load_state_dict(state)

    def _given(self) -> _Source:
        if self._source is None:
            raise ValueError(
                f"{self.name!r} is a copy of a py_reader in another program and has no data; "
                "start and reset the one that py_reader returned"
            )
        return self._source


class _Source:
    """What a reader variable and its double buffer share."""

    def __init__(self, passes: Passes, fields: Sequence[Field]) -> None:
        self.passes = passes
        self.source = GeneratorSource(passes, fields)


def py_reader(
    capacity: int,
    shapes: Sequence[Sequence[int]],
    dtypes: Sequence[Any],
    lod_levels: Sequence[int] | None = None,
    name: str | None = None,
    use_double_buffer: bool = True,
) -> Variable:
    """A reader that Python feeds while programs run; `read_file` gives its tensors.

    capacity: batches read ahead. shapes, dtypes, lod_levels: of the tensors; the first size is
    that of the batch (-1). use_double_buffer: for a GPU, the next batches are copied while it
    computes. Call `decorate_paddle_reader` (lists of samples) or `decorate_tensor_provider`
    (batches), and `start()` and `reset()` for each pass; `core.EOFException` ends a pass.
    """
    levels = [0] * len(shapes) if lod_levels is None else list(lod_levels)
    tensors = [
        ReadTensor(tuple(int(size) for size in shape), as_dtype(dtype), level)
        for shape, dtype, level in zip(shapes, dtypes, levels, strict=True)
    ]
    return _make(capacity, tensors, [False] * len(tensors), name, use_double_buffer)


def create_py_reader_by_data(
    capacity: int,
    feed_list: Sequence[Variable],
    name: str | None = None,
    use_double_buffer: bool = True,
) -> Variable:
    """As `py_reader`, for variables that exist: `read_file` gives these very variables."""
    checks = [bool(var.need_check_feed) for var in feed_list]
    made = _make(capacity, given_by(feed_list), checks, name, use_double_buffer)
    made._fed = list(feed_list)
    return made


def _make(
    capacity: int,
    tensors: Sequence[ReadTensor],
    checks: Sequence[bool],
    name: str | None,
    use_double_buffer: bool,
) -> ReaderVariable:
    if name is None:
        keys = ("lod_tensor_blocking_queue", "create_py_reader", "double_buffer")
        queue, own = (names.generate(key) for key in keys[:2])
        buffer = names.generate(keys[2]) if use_double_buffer else ""
    else:
        queue, own, buffer = (f"{name}_{part}" for part in ("queue", "reader", "double_buffer"))
    passes = Passes(name or own, capacity)
    passes.pinned = use_double_buffer
    publish(queue, passes.reader)
    startup = default_startup_program().current_block()
    outputs, attrs = {"Out": reader_var(startup, own)}, creation_attrs(tensors, checks)
    apply("create_py_reader", {"blocking_queue": queue}, outputs, attrs, block=startup)
    fields = [Field(f"tensor {place}", *one) for place, one in enumerate(tensors)]
    made = _in_main(own, tensors, _Source(passes, fields))
    return _buffered(made, None, buffer) if use_double_buffer else made


def _in_main(name: str, tensors: Sequence[ReadTensor], source: _Source | None) -> ReaderVariable:
    block = default_main_program().current_block()
    made = ReaderVariable(
        block, type=VarType.READER, name=name, persistable=True, stop_gradient=True
    )
    made._source = source
    set_read_tensors(made, tensors)
    return made


def _buffered(reader: ReaderVariable, place: Place | None, name: str) -> ReaderVariable:
    made = _in_main(name, read_tensors(reader), reader._source)
    made._fed = reader._fed
    inputs, attrs = {"UnderlyingReader": reader}, {"place": _place_name(place)}
    apply("create_double_buffer_reader", inputs, {"Out": made}, attrs, block=made.block)
    return made


def _place_name(place: Place | None) -> str:
    if place is None:
        return "AUTO"
    return str(place.device).upper()


def double_buffer(reader: Variable, place: Any = None, name: str | None = None) -> Variable:
    """The reader with its next batches already on `place`, by default where the program runs."""
    if not isinstance(reader, ReaderVariable):
        raise TypeError("double_buffer takes what py_reader returned")
    key = "create_double_buffer_reader"
    return _buffered(reader, place, names.generate(key) if name is None else name)


def read_file(reader: Variable) -> Variable | list[Variable]:
    """The tensors of the reader's next batch, each time the program runs.

    A list of variables, or the variable where the reader gives one tensor. Raises TypeError for
    a variable that is no reader.
    """
    if reader.type != VarType.READER:
        raise TypeError(f"read_file takes a reader, such as py_reader returns, not {reader.name!r}")
    fed = getattr(reader, "_fed", None)
    makes = {"Out": fed or [one.dtype for one in read_tensors(reader)]}
    how: How = {"layer": "read_file", "stop_gradient": True}
    outputs: list[Variable] = op("read", {"Reader": reader}, None, makes, **how)[0]
    return outputs[0] if len(outputs) == 1 else outputs


# Layers of Fluid before 1.5, whose file formats or readers no longer exist in 1.8.
_GONE = {
    "open_files": "recordio files",
    "open_recordio_file": "recordio files",
    "random_data_generator": "random data",
    "Preprocessor": "operators between a reader and the program",
    "shuffle": "shuffling readers in a program",
    "batch": "batching readers in a program",
    "multi_pass": "readers of several passes",
    "parallel": "readers in parallel",
}


def gone(name: str) -> str | None:
    """What to say to somebody who asks for a layer that Fluid 1.8 has no more."""
    if name not in _GONE:
        return None
    return (
        f"fluid.layers.{name} ({_GONE[name]}) was removed before Fluid 1.8; use "
        "fluid.io.DataLoader.from_generator with the decorators of paddle.reader (shuffle, batch, "
        "xmap_readers), or fluid.DatasetFactory for files"
    )
