"""`DatasetPosition`: the pass that a dataset is in, and how to get there again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from refluid.feed.position import Position
from refluid.feed.text_datasets.done import Done

_KEY = "dataset"


class DatasetPosition:
    """Passes are counted from 0. `done` has the rows of the present or last one."""

    def __init__(self) -> None:
        self.epoch = 0
        self.done = Done()
        self._loaded: Mapping[str, Any] | None = None

    @property
    def resuming(self) -> bool:
        """Whether the next pass goes on within one that was begun earlier."""
        return self._loaded is not None and bool(self._loaded["done"])

    def begin(self, files: Sequence[str]) -> Done:
        """Begins a pass: where `load` says, else anew. ValueError where its files were others."""
        loaded, self._loaded = self._loaded, None
        if loaded is None:
            self.done = Done()
            return self.done
        names = _names(files)
        if loaded["done"] and loaded["files"] != names:
            raise ValueError(
                f"the loaded state is of a pass over other files: {loaded['files']}, not {names}"
            )
        self.done = Done.load(dict(loaded))
        return self.done

    def finish(self) -> None:
        """The pass is at its end: the next one begins anew."""
        self.epoch += 1
        self.done = Done()

    def state(self, files: Sequence[str], more: Mapping[str, Any]) -> dict[str, Any]:
        """The position as plain lists and numbers, with `more` about the rows' order."""
        now = Position(self.epoch)
        now.remember_random()
        own = self._loaded if self._loaded is not None else self.done.state()
        if self._loaded is None:
            own = {**own, "files": _names(files), **more}
        return {**now.state_dict(), "batch": own["batches"], _KEY: dict(own)}

    def load(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Has the next pass go on where `state` was taken; what it says about the rows' order.

        Random numbers go on from there at once, as shuffles come before the pass. ValueError for
        the state of something else.
        """
        position = Position.load(state)
        if _KEY not in state:
            raise ValueError("this is the state of a loader, not of a dataset")
        position.restore_random()
        self.epoch, self.done = position.epoch, Done()
        loaded: Mapping[str, Any] = state[_KEY]
        self._loaded = loaded
        return loaded


def _names(files: Sequence[str]) -> list[str]:
    """The files' names without folders, which may move."""
    return [PurePath(one).name for one in files]
