"""`DataLoaderBase`: what all loaders can do."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from refluid.build import at_once, backend
from refluid.core.places import CUDAPlace, Place, cpu_places, require_available
from refluid.core.values import LoDTensor
from refluid.feed.batches import ReaderBatch
from refluid.feed.reader import QueueReader
from refluid.feed.staging import Staged, double_buffers
from refluid.fluid.reader.passes import Passes, ReaderPass
from refluid.ir.variable import Variable


class DataLoaderBase:
    """Iterates passes: `for data in loader():` or `for data in loader:`.

    `state_dict` and `load_state_dict` keep the position, exactly: the next batch after loading is
    the one that would have come next. The order of a shuffling reader is kept too, where it draws
    from `random` or `numpy.random`.
    """

    _passes: Passes

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._source: QueueReader | Staged | None = None
        self._pass: weakref.ref[ReaderPass] | None = None

    def __call__(self) -> Any:
        return self.__iter__()

    def __iter__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} can't be iterated")

    def __next__(self) -> Any:
        """The next item of the pass that was begun last; StopIteration at its end."""
        found = None if self._pass is None else self._pass()
        if found is None:
            raise StopIteration
        return next(found)

    def next(self) -> Any:
        """As `next(loader)`."""
        return self.__next__()

    def state_dict(self) -> dict[str, Any]:
        """The position in the data, as plain numbers and lists (JSON will do).

        Batches are counted when the model takes them, not when they are read ahead.
        """
        return self._passes.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Has the next pass begin where `state_dict` was called. ValueError for other dicts."""
        self._passes.load_state_dict(state)

    def _set_places(self, places: Any, use_double_buffer: bool) -> None:
        """The places that the items of a pass are for, one batch each."""
        self._places = as_places(places)
        self._passes.places = len(self._places)
        on_gpu = any(isinstance(place, CUDAPlace) for place in self._places)
        self._passes.pinned = on_gpu and use_double_buffer
        devices = [place.device for place in self._places]
        reader = self._passes.reader
        self._source = double_buffers(reader, devices) if use_double_buffer else reader

    def _begin(self, present: Callable[[list[ReaderBatch]], Any]) -> ReaderPass:
        try:
            self._passes.start()
            anew = functools.partial(self._begin, present)
            begun = ReaderPass(self._passes, self._source, present, anew)
        except BaseException:  # an interrupt, after which nobody would end the pass
            self._passes.give_up()
            raise
        self._pass = weakref.ref(begun)
        return begun

    def _on_places(self, step: list[ReaderBatch]) -> list[ReaderBatch]:
        """The batches of a step, each on its place."""
        return [
            [_on(one, place) for one in batch]
            for batch, place in zip(step, self._places, strict=False)
        ]


def _on(tensor: LoDTensor, place: Place) -> LoDTensor:
    if tensor.tensor.device == place.device:
        return tensor
    return LoDTensor(tensor.tensor.to(place.device), tensor.levels)


def current_place() -> Place | None:
    """Where operators run at once; None while they are appended to programs."""
    return getattr(backend(), "place", None)


def _variables(step: list[ReaderBatch]) -> list[Variable]:
    """What operators that run at once take."""
    from refluid.eager import VarBase  # which programs don't need

    (batch,) = step
    made = [VarBase(one.tensor, stop_gradient=True) for one in batch]
    for var, one in zip(made, batch, strict=True):
        var.lod = one.lod()
    return list(made)


def as_places(places: Any) -> list[Place]:
    """A list of places, whether one or several are given; EnforceNotMet where one is missing."""
    found = list(places) if isinstance(places, list | tuple) else [places]
    found = found or list(cpu_places(1))
    for place in found:
        require_available(place)
    return found


def presenter(
    feed_list: Sequence[Variable] | None, return_list: bool
) -> Callable[[list[ReaderBatch]], Any]:
    """What users get of a step: per place a list of tensors, or a dict by variable name.

    Where operators run at once: a list of variables, of the one place that there is.
    """
    if at_once():
        return _variables
    if return_list:
        return lambda step: step
    names = [var.name for var in feed_list or ()]

    def present(step: list[ReaderBatch]) -> list[dict[str, LoDTensor]]:
        for batch in step:
            if len(batch) != len(names):
                raise ValueError(
                    f"a batch of {len(batch)} arrays can't be fed to the {len(names)} variables "
                    f"of feed_list: {', '.join(names)}"
                )
        return [dict(zip(names, batch, strict=True)) for batch in step]

    return present
