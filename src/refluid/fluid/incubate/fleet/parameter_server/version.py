"""By what servers are made: the transpiler."""

from __future__ import annotations

from refluid.fluid.incubate.fleet.base.mode import Mode

BUILD_MODE = Mode.TRANSPILER


def is_transpiler() -> bool:
    """Whether programs are transpiled for servers: always here."""
    return BUILD_MODE == Mode.TRANSPILER
