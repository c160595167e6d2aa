"""What a process asks of its fleet about itself and the others."""

from __future__ import annotations

from typing import Any


class AsksRoleMaker:
    """Answers are the role maker's, which `init` sets. ValueError before that."""

    _init = "fleet.init(role_maker)"
    _role_maker: Any = None

    def is_first_worker(self) -> bool:
        """Whether this is the worker with number 0."""
        return bool(self._role().is_first_worker())

    def worker_index(self) -> int:
        """The number of this worker."""
        return int(self._role().worker_index())

    def worker_num(self) -> int:
        """How many workers there are."""
        return int(self._role().worker_num())

    def is_worker(self) -> bool:
        """Whether this process trains."""
        return bool(self._role().is_worker())

    def worker_endpoints(self, to_string: bool = False) -> Any:
        """Where the workers are, as `host:port`; to_string: with commas between them."""
        found = self._role().get_trainer_endpoints()
        return ",".join(found) if to_string else found

    def server_num(self) -> int:
        """How many servers there are."""
        return len(self._role().get_pserver_endpoints())

    def server_index(self) -> int:
        """The number of this server."""
        return int(self._role().server_index())

    def server_endpoints(self, to_string: bool = False) -> Any:
        """Where the servers are, as `host:port`; to_string: with commas between them."""
        found = self._role().get_pserver_endpoints()
        return ",".join(found) if to_string else found

    def is_server(self) -> bool:
        """Whether this process holds parameters."""
        return bool(self._role().is_server())

    def barrier_worker(self) -> None:
        """Waits for all workers."""
        self._role().barrier_worker()

    def _role(self) -> Any:
        if self._role_maker is None:
            raise ValueError(f"{self._init} must be called before anything else of a fleet")
        return self._role_maker
