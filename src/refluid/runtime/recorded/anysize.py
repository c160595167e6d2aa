"""One recording for all sizes between those that were seen, where sizes change all the time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from refluid.runtime.code import Code
from refluid.runtime.recorded.fitting import Meta, Recorded, meta
from refluid.runtime.recorded.graph import Kernel
from refluid.runtime.recorded.merge import merge
from refluid.runtime.recorded.record import Recording, Refused
from refluid.runtime.recorded.simplify import simplify
from refluid.runtime.recorded.sizes import Shapes, Sizes
from refluid.runtime.recorded.text import Text
from refluid.runtime.scope import Cell

_log = logging.getLogger("refluid")

# So many recordings of a bucket are kept to be merged, and so many are made of all at most. A
# dimension of one element is a case of its own: it may be repeated to fit others.
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

    @property
    def structure(self) -> tuple[Any, ...]:
        """Which kernels and lines follow each other; another where code chooses by sizes."""
        steps = self.recording.steps
        return tuple(one.func if isinstance(one, Kernel) else one.statement.lineno for one in steps)


class _Bucket:
    """Samples of one structure. `made` is the last recording that stands for all of them."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._samples: list[_Sample] = []
        self.made: AnySize | None = None

    def add(self, sample: _Sample, feeds: Sequence[Tensor], cells: Sequence[Cell]) -> bool:
        """Takes one more. Whether there is another recording. Raises Refused."""
        self._samples.append(sample)
        if self._samples[0].state != sample.state:
            raise Refused("its variables change their shapes")
        used = self._without_ones()
        sizes = Sizes([one.shapes for one in used])
        if len(used) < max(sizes.needed, 2):
            return False
        recording = merge([one.recording for one in used], sizes)
        text = Text(self._code.source.constants)
        for line in sizes.lines:
            text.source.add(line)
        source, names = text.write(simplify(recording.steps)), recording.names_of(self._code)
        self.made = AnySize(Code(source, names, "recording"), feeds, cells, sizes)
        _log.info("recorded a step for all feeds of shapes %s", sizes)
        if len(self._samples) > _KEPT:
            self._drop_one()
        return True

    def _without_ones(self) -> list[_Sample]:
        """Samples of which no size that changes is too small."""
        columns = zip(*(sum(one.shapes, ()) for one in self._samples), strict=True)
        changing = [number for number, column in enumerate(columns) if len(set(column)) > 1]
        flat = [(one, sum(one.shapes, ())) for one in self._samples]
        return [one for one, sizes in flat if all(sizes[n] >= _LEAST for n in changing)]

    def _drop_one(self) -> None:
        """Forgets the oldest sample that is neither the least nor the greatest in any size."""
        columns = zip(*(sum(one.shapes, ()) for one in self._samples), strict=True)
        extremes = [(min(column), max(column)) for column in columns]
        for number, one in enumerate(self._samples):
            sizes = zip(sum(one.shapes, ()), extremes, strict=True)
            if all(low == high or low < size < high for size, (low, high) in sizes):
                del self._samples[number]
                return

    def knows(self, shapes: Shapes) -> bool:
        """Whether there is a sample of these shapes."""
        return any(one.shapes == shapes for one in self._samples)


class Samples:
    """Recordings of one plan for different sizes, in buckets: one is made of all in a bucket.

    Another one is made when steps were outside as often as one was made before: where sizes grow
    and grow, training doesn't become recording.
    """

    def __init__(self, code: Code) -> None:
        self._code = code
        self._buckets: dict[tuple[Any, ...], _Bucket] = {}
        self._closed = False
        self._outside = self._count = 0

    @property
    def made(self) -> list[AnySize]:
        """What stands for the samples of each bucket."""
        return [one.made for one in self._buckets.values() if one.made is not None]

    def wants(self, feeds: Sequence[Tensor]) -> bool:
        """Whether a recording of a step with these feeds tells something new."""
        shapes = [tuple(feed.shape) for feed in feeds]
        self._outside += 1
        if self._closed or self._outside < self._count:
            return False
        if any(one.knows(shapes) for one in self._buckets.values()):
            return False
        return all(feed.is_contiguous() and feed.numel() for feed in feeds)

    def add(
        self, recording: Recording, feeds: Sequence[Tensor], cells: Sequence[Cell]
    ) -> AnySize | None:
        """Takes one more recording. What stands for all of its bucket, if that is another now."""
        shapes = [tuple(feed.shape) for feed in feeds]
        sample = _Sample(shapes, [meta(cell.value) for cell in cells], recording)
        bucket = self._buckets.setdefault(sample.structure, _Bucket(self._code))
        try:
            if not bucket.add(sample, feeds, cells):
                return None
        except Refused as error:
            self.close(str(error))
            return None
        self._count, self._outside = self._count + 1, 0
        self._closed = self._count == _MADE
        return bucket.made

    def close(self, reason: str) -> None:
        """No more recordings are wanted."""
        which = "other sizes are" if self.made else "every size is"
        _log.info("%s recorded on its own: %s", which, reason)
        self._closed = True
