"""Messages between a search's server and its agents: lines of JSON."""

from __future__ import annotations

import json
from typing import Any

# A longer line is none of a search's.
_LONGEST = 1 << 20


def send(file: Any, message: dict[str, Any]) -> None:
    """Writes a message."""
    file.write(json.dumps(message).encode() + b"\n")
    file.flush()


def receive(file: Any) -> dict[str, Any] | None:
    """The next message; None where the other has gone. ValueError for what is none."""
    line = file.readline(_LONGEST)
    if not line:
        return None
    if not line.endswith(b"\n"):
        raise ValueError("a message is cut off, or too long")
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("a message is a JSON object")
    return message
