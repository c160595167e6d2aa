"""`DataGenerator`: reads lines from standard input and writes samples to standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Sample = Any
Samples = Callable[[], Iterable[Sample]]


class DataGenerator:
    """Subclass it and define `generate_sample`; the script ends with `run_from_stdin()`.

    Several processes run such a script: make ids with a hash that is the same in all of them,
    such as `zlib.crc32`, or with `hash` under the fixed PYTHONHASHSEED that refluid sets for
    pipe commands.
    """

    def __init__(self) -> None:
        self._proto_info: list[tuple[str, str]] | None = None
        self.batch_size_ = 32

    def set_batch(self, batch_size: int) -> None:
        """The samples that `generate_batch` gets at once."""
        self.batch_size_ = batch_size

    def run_from_memory(self) -> None:
        """Writes all samples of `generate_sample(None)`."""
        self._write(self._samples(self.generate_sample(None)))

    def run_from_stdin(self) -> None:
        """Writes the samples of each line of standard input."""
        self._write(
            sample for line in sys.stdin for sample in self._samples(self.generate_sample(line))
        )

    def generate_sample(self, line: str | None) -> Samples:
        """A function that iterates the samples of a line: each [(slot name, values), ...].

        Always override it; None stands for no line (`run_from_memory`). A sample of None is left
        out.
        """
        raise NotImplementedError(
            "Please rewrite this function to return a list or tuple: "
            "[(name, [feasign, ...]), ...] or ((name, [feasign, ...]), ...)"
        )

    def generate_batch(self, samples: list[Sample]) -> Samples:
        """A function that iterates what is written for some samples: themselves, if not overridden.

        Override it for what needs several samples, such as padding.
        """

        def local_iter() -> Iterator[Sample]:
            yield from samples

        return local_iter

    def _samples(self, made: Samples) -> Iterator[Sample]:
        return (sample for sample in made() if sample is not None)

    def _write(self, samples: Iterable[Sample]) -> None:
        waiting: list[Sample] = []
        for sample in samples:
            waiting.append(sample)
            if len(waiting) == self.batch_size_:
                self._write_batch(waiting)
                waiting = []
        if waiting:
            self._write_batch(waiting)
        sys.stdout.flush()

    def _write_batch(self, samples: list[Sample]) -> None:
        made = self.generate_batch(samples)
        sys.stdout.write("".join(self._gen_str(sample) for sample in made()))

    def _gen_str(self, line: Sample) -> str:
        """The line of text of a sample."""
        raise NotImplementedError(
            "pls use MultiSlotDataGenerator or MultiSlotStringDataGenerator: DataGenerator itself "
            "has no text format"
        )
