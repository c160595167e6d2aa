"""`SearchAgent`: asks a search's server what to try, and tells it what that was worth."""

from __future__ import annotations

import socket
from typing import Any

from refluid.core.errors import EnforceNotMet
from refluid.fluid.contrib.slim.nas import wire

__all__ = ["SearchAgent"]

_SECONDS = 60.0


class SearchAgent:
    """server_ip, server_port: where the ControllerServer is. key: the search's word, as there.

    Raises EnforceNotMet where the server isn't there or refuses.
    """

    def __init__(
        self, server_ip: str | None = None, server_port: int | None = None, key: str | None = None
    ) -> None:
        self.server_ip, self.server_port, self._key = server_ip or "127.0.0.1", server_port, key

    def next_tokens(self) -> list[int]:
        """What to try next."""
        return [int(one) for one in self._ask(do="next")["tokens"]]

    def update(self, tokens: list[int], reward: float) -> list[int]:
        """Tells what tokens were worth; what to try next."""
        answer = self._ask(do="update", tokens=[int(one) for one in tokens], reward=float(reward))
        return [int(one) for one in answer["tokens"]]

    def _ask(self, **message: Any) -> dict[str, Any]:
        where = f"the search's server at {self.server_ip}:{self.server_port}"
        try:
            address = self.server_ip, int(self.server_port or 0)
            with socket.create_connection(address, _SECONDS) as link, link.makefile("rwb") as file:
                wire.send(file, {"key": self._key, **message})
                answer = wire.receive(file)
        except (OSError, ValueError) as error:
            raise EnforceNotMet(f"{where} does not answer: {error}") from None
        if answer is None or "tokens" not in answer:
            raise EnforceNotMet(f"{where} refused: {(answer or {}).get('error', 'it closed')}")
        return answer
