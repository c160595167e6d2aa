"""Source text of a plan while it is being written, and which operator each line belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from refluid.ir.operator import Operator


class Source:
    """Lines of a Python function, its constants, and the operator behind each line."""

    def __init__(self, header: str) -> None:
        self.lines = [header]
        self.origin: dict[int, Operator] = {}
        self.constants: dict[str, Any] = {}
        self._indent = 1

    def add(self, line: str, op: Operator | None = None) -> None:
        """Appends a line at the current indentation."""
        self.lines.append("    " * self._indent + line)
        if op is not None:
            self.origin[len(self.lines)] = op

    @contextmanager
    def block(self, header: str, op: Operator | None = None) -> Iterator[None]:
        """Lines added within are inside `header`."""
        self.add(header, op)
        self._indent += 1
        start = len(self.lines)
        try:
            yield
        finally:
            if len(self.lines) == start:
                self.add("pass")
            self._indent -= 1

    def constant(self, name: str, value: Any) -> str:
        """A name under which the function finds `value`; the same value gets the same name."""
        candidate, number = name, 1
        while candidate in self.constants and self.constants[candidate] is not value:
            candidate, number = f"{name}_{number}", number + 1
        self.constants[candidate] = value
        return candidate

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


_PLAIN = (bool, int, str)


def literal(value: Any) -> str:
    """Python source of an attribute value; sequences become tuples, which cost nothing."""
    if isinstance(value, list | tuple):
        items = ", ".join(literal(item) for item in value)
        return f"({items},)" if len(value) == 1 else f"({items})"
    if isinstance(value, float):
        return repr(value) if abs(value) != float("inf") and value == value else f"float('{value}')"
    if isinstance(value, _PLAIN):
        return repr(value)
    raise TypeError(f"{value!r} can't be written into a plan")
