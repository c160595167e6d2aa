"""One recording for all sizes between those that were seen, where sizes change all the time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from refluid.runtime.code import Code
from refluid.runtime.recorded.fitting import Meta, Recorded, meta
from refluid.runtime.recorded.graph import Value
from refluid.runtime.recorded.merge import merge
from refluid.runtime.recorded.record import Recording, Refused
from refluid.runtime.recorded.simplify import simplify
from refluid.runtime.recorded.sizes import Shapes, Sizes
from refluid.runtime.recorded.text import Text
from refluid.runtime.scope import Cell

_log = logging.getLogger("refluid")

# So many recordings are kept to be merged, and so many are made of them at most. A dimension of
# one element is a case of its own: it may be repeated to fit others.
_KEPT, _MADE, _LEAST = 12, 24, 2


class AnySize(Recorded):
    """A recording that fits feeds of all sizes between those of the samples."""

    def __init__(
        self, code: Code, feeds: Sequence[Tensor], cells: Sequence[Cell], sizes: Sizes
    ) -> None:
        super().__init__(code, feeds, cells)
        self._types = [(feed.dtype, feed.dim()) for feed in feeds]
        lines = [*sizes.lines, f"return {sizes.guard}"]
        namespace: dict[str, Any] = {}
        exec("def guard(F):\n    " + "\n    ".join(lines), namespace)
        self._guard: Callable[[Sequence[Tensor]], bool] = namespace["guard"]

    def _fits_feeds(self, feeds: Sequence[Tensor]) -> bool:
        types = zip(feeds, self._types, strict=True)
        plain = all(
            (feed.dtype, feed.dim()) == kind and feed.is_contiguous() for feed, kind in types
        )
        return plain and self._guard(feeds)


@dataclass(frozen=True)
class _Sample:
    shapes: Shapes
    state: list[Meta | None]
    recording: Recording


class Samples:
    """Recordings of one plan for different sizes; once they are enough, one is made of them.

    Another one is made when steps were outside as often as one was made before: where sizes grow
    and grow, training doesn't become recording. `made` is the last.
    """

    def __init__(self, code: Code) -> None:
        self._code = code
        self._samples: list[_Sample] = []
        self._closed = False
        self._outside = self._count = 0
        self.made: AnySize | None = None

    def wants(self, feeds: Sequence[Tensor]) -> bool:
        """Whether a recording of a step with these feeds tells something new."""
        shapes = [tuple(feed.shape) for feed in feeds]
        self._outside += 1
        known = self._closed or any(one.shapes == shapes for one in self._samples)
        if known or self._outside < self._count:
            return False
        return all(feed.is_contiguous() and feed.numel() for feed in feeds)

    def add(self, recording: Recording, feeds: Sequence[Tensor], cells: Sequence[Cell]) -> bool:
        """Takes one more recording. Whether there is another that stands for all."""
        state = [meta(cell.value) for cell in cells]
        shapes = [tuple(feed.shape) for feed in feeds]
        self._samples.append(_Sample(shapes, state, recording))
        try:
            if self._samples[0].state != state:
                raise Refused("its variables change their shapes")
            code, sizes = self._merged()
        except Refused as error:
            self.close(str(error))
            return False
        if code is not None:
            self.made = AnySize(code, feeds, cells, sizes)
            self._count, self._outside = self._count + 1, 0
            _log.info("recorded a step for all feeds of shapes %s", sizes)
        if self._count == _MADE:
            self.close("")
        if len(self._samples) > _KEPT:
            self._drop_one()
        return code is not None

    def _drop_one(self) -> None:
        """Forgets the oldest sample that is neither the least nor the greatest in any size."""
        columns = zip(*(sum(one.shapes, ()) for one in self._samples), strict=True)
        extremes = [(min(column), max(column)) for column in columns]
        for number, one in enumerate(self._samples):
            sizes = zip(sum(one.shapes, ()), extremes, strict=True)
            if all(low == high or low < size < high for size, (low, high) in sizes):
                del self._samples[number]
                return
        self._closed = True

    def close(self, reason: str) -> None:
        """No more recordings are wanted."""
        if reason:
            which = "other sizes are" if self.made else "every size is"
            _log.info("%s recorded on its own: %s", which, reason)
        self._closed, self._samples = True, []

    def _merged(self) -> tuple[Code | None, Sizes]:
        changing = [
            {axis for axis, sizes in enumerate(zip(*shapes, strict=False)) if len(set(sizes)) > 1}
            for shapes in zip(*(one.shapes for one in self._samples), strict=True)
        ]
        used = [
            one
            for one in self._samples
            if all(
                shape[axis] >= _LEAST
                for shape, axes in zip(one.shapes, changing, strict=True)
                for axis in axes
            )
        ]
        sizes = Sizes([one.shapes for one in used])
        if len(used) < max(sizes.needed, 2):
            return None, sizes
        recording = merge([one.recording for one in used], sizes)
        text = Text(self._code.source.constants)
        for line in sizes.lines:
            text.source.add(line)
        source = text.write(simplify(recording.steps))
        return Code(source, _names(self._code, recording.names), "recording"), sizes


def _names(code: Code, last: dict[str, Value]) -> dict[Any, str]:
    return {key: last[name].name for key, name in code.names.items() if name in last}
