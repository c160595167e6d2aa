"""`Join`: trainers that take different numbers of steps."""

from __future__ import annotations

from types import TracebackType

from refluid.core.data_ends import end_of_data, steps_together


class Join:
    """Within the block trainers may run different numbers of steps.

        with Join():
            for batch in my_own_reader():
                executor.run(program, feed=batch)

    At its end each trainer waits for the others: it repeats its last step along with them,
    contributing nothing, so that sums are over those with data. Loaders, `paddle.batch` and
    `train_from_dataset` do the same at the end of each pass.
    """

    def __enter__(self) -> Join:
        self._begun = steps_together()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            end_of_data(self._begun)
