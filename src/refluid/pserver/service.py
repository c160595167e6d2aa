"""A `TableServer` behind gRPC."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from refluid.core.errors import EnforceNotMet
from refluid.pserver.members import CallRefused, NotEntered
from refluid.pserver.messages import MalformedMessage, decode, encode
from refluid.pserver.table_server import TableServer
from refluid.pserver.wire import METHOD, OPTIONS, Keys, require_keys

_LOGGER = logging.getLogger("refluid")
_CODES: list[tuple[type[Exception], Any]] = [
    (NotEntered, grpc.StatusCode.NOT_FOUND),
    (CallRefused, grpc.StatusCode.FAILED_PRECONDITION),
    (MalformedMessage, grpc.StatusCode.INVALID_ARGUMENT),
    (EnforceNotMet, grpc.StatusCode.INVALID_ARGUMENT),
]


class Service:
    """Listens at `address` (`host:port`, port 0 for any) and answers by a `TableServer`.

    threads: how many calls are answered at a time; each trainer of synchronous training holds one.
    EnforceNotMet where the port is taken, or the address needs keys and has none.
    """

    def __init__(
        self, server: TableServer, address: str, threads: int = 16, keys: Keys | None = None
    ) -> None:
        require_keys(address, keys)
        self._server = server
        pool = ThreadPoolExecutor(threads, thread_name_prefix="refluid server")
        options = [*OPTIONS, ("grpc.so_reuseport", 0)]
        self._grpc: Any = grpc.server(pool, handlers=[_Handler(self)], options=options)
        try:
            if keys is None:
                self.port = self._grpc.add_insecure_port(address)
            else:
                self.port = self._grpc.add_secure_port(address, keys.of_server())
        except RuntimeError as error:
            raise EnforceNotMet(f"a server can't listen at {address}: {error}") from error
        if not self.port:
            raise EnforceNotMet(f"a server can't listen at {address}")
        self.address = f"{address.rpartition(':')[0]}:{self.port}"

    def start(self) -> None:
        """Begins to answer."""
        self._grpc.start()
        _LOGGER.info("tables are served at %s", self.address)

    def stop(self, grace: float = 1.0) -> None:
        """Answers what is under way for at most `grace` seconds, and nothing new."""
        self._grpc.stop(grace).wait()

    def call(self, raw: bytes, context: Any) -> bytes:
        """Answers one call. Errors become gRPC's, with their text."""
        try:
            return encode(self._server.answer(decode(raw)))
        except Exception as error:
            code = next((code for kind, code in _CODES if isinstance(error, kind)), None)
            if code is None:
                _LOGGER.exception("a call of %s failed", context.peer())
                code = grpc.StatusCode.INTERNAL
            else:
                _LOGGER.warning("a call of %s is refused: %s", context.peer(), error)
            context.abort(code, str(error))
            raise


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, service: Service) -> None:
        self._method = grpc.unary_unary_rpc_method_handler(service.call)

    def service(self, details: Any) -> Any:
        return self._method if details.method == METHOD else None
