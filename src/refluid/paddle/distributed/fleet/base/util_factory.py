"""`UtilBase`: what the workers of a fleet do together beside training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["UtilBase"]


class UtilBase:
    """Exchanges of numbers and arrays between the processes of a fleet, as `fleet.util`.

    comm_world: `worker` for the workers; `all` is the same where there are no servers. ValueError
    for another one.
    """

    def __init__(self) -> None:
        self.role_maker: Any = None
        self.dist_strategy: Any = None

    def _set_role_maker(self, role_maker: Any) -> None:
        self.role_maker = role_maker

    def _set_strategy(self, dist_strategy: Any) -> None:
        self.dist_strategy = dist_strategy

    def all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> Any:
        """The `sum`, `max` or `min` over all, an array of the shape of the input."""
        return self._known()._all_reduce(input, mode, comm_world)

    def barrier(self, comm_world: str = "worker") -> None:
        """Waits for all."""
        self._known()._barrier(comm_world)

    def all_gather(self, input: Any, comm_world: str = "worker") -> list[Any]:
        """What each gives, by its number: numbers, text, and lists and dicts of them."""
        found: list[Any] = self._known()._all_gather(input, comm_world)
        return found

    def get_file_shard(self, files: Sequence[str]) -> list[str]:
        """This worker's share of a list of files, neighbours; the first workers get the rest.

        TypeError unless they are a list.
        """
        if not isinstance(files, list):
            raise TypeError("files should be a list of file need to be read.")
        role = self._known()
        rank, count = role._worker_index(), role._worker_num()
        size, rest = divmod(len(files), count)
        begin = rank * size + min(rank, rest)
        return files[begin : begin + size + (rank < rest)]

    def print_on_rank(self, message: str, rank_id: int) -> None:
        """Prints where this is that worker."""
        if self._known()._worker_index() == rank_id:
            print(message)

    def _known(self) -> Any:
        if self.role_maker is None:
            raise ValueError("fleet.init() must be called before anything else of a fleet")
        return self.role_maker
