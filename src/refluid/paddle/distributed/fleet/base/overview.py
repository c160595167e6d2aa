"""What `print(strategy)` shows: a table as Paddle draws it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_WIDTH, _NAME = 78, 38


def overview(
    sections: Mapping[str, Mapping[str, Any]],
    flags: Mapping[str, Any],
    build: Mapping[str, Any],
    execution: Mapping[str, Any],
) -> str:
    """The table. sections: the configurations that are switched on, by their switch."""
    lines = ["", _line("="), _centred(""), _centred("DistributedStrategy Overview"), _centred("")]
    for switch, config in sections.items():
        lines += [_line("="), _centred(f"{switch}=True <-> {switch}_configs"), _line("-")]
        lines += _rows(config)
    lines += [_line("="), _centred("Environment Flags, Communication Flags"), _line("-")]
    lines += _rows(flags)
    for title, options in (("Build Strategy", build), ("Execution Strategy", execution)):
        lines += [_line("="), _centred(title), _line("-"), *_rows(options)]
    return "\n".join([*lines, _line("="), ""])


def _line(sign: str) -> str:
    return f"    +{sign * _WIDTH}+"


def _centred(text: str) -> str:
    return f"    |{text:^{_WIDTH}}|"


def _rows(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        shown = value if isinstance(value, list) else [value]
        for number, one in enumerate(shown):
            yield f"    |{name if number == 0 else '':>{_NAME}}  {one!s:^{_WIDTH - _NAME - 2}}|"
