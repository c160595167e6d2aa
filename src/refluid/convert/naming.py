"""Names of the generated code: submodules by parameters' names, local variables by their life."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Container, Iterable

# What Fluid and the layers of its model zoo end parameters' names with.
_ENDINGS = re.compile(
    r"[._](w|b|weights?|bias|offset|scale|mean|variance|moving_mean|moving_variance|beta|gamma)"
    r"(_\d+)?$"
)
_LOCALS = "xyzuvwabcdefghpqrst"


def identifier(text: str) -> str:
    """A Python name made of any text."""
    name = re.sub(r"\W+", "_", text.split("@")[0]).strip("_").lower() or "value"
    name = f"n{name}" if name[0].isdigit() else name
    return f"{name}_" if keyword.iskeyword(name) or name in ("self", "torch", "nn") else name


def module_name(parameter: str) -> str:
    """The submodule that a parameter belongs to: `fc_0.w_0` -> `fc_0`."""
    shorter = _ENDINGS.sub("", parameter)
    return identifier(shorter or parameter)


class Unique:
    """Gives each name once; a number follows where it was given."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def __call__(self, name: str) -> str:
        found, number = name, 1
        while found in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found


class Locals:
    """Names of local variables, which are free again after a value's last use."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._live: set[str] = set()
        self._pinned: Counter[str] = Counter()

    def take(self, preferred: str | None = None, avoided: Container[str] = ()) -> str:
        """A name for a new value, none of `avoided`."""
        free = preferred not in self._live and preferred not in self._taken
        if preferred is not None and free and preferred not in avoided:
            self._live.add(preferred)
            return preferred
        number = 0
        while True:
            for letter in _LOCALS:
                name = f"{letter}{number or ''}"
                if name not in self._live and name not in self._taken and name not in avoided:
                    self._live.add(name)
                    return name
            number += 1

    def named(self, name: str) -> str:
        """A name like this for a value that stays."""
        found, number = name, 1
        while found in self._live or found in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found

    def keep(self, name: str) -> None:
        """The value of that name is needed on."""
        self._live.add(name)

    def pin(self, name: str) -> None:
        """The name isn't free before it was unpinned as often."""
        self._pinned[name] += 1

    def unpin(self, name: str) -> None:
        """The inverse of `pin`."""
        self._pinned[name] -= 1

    def free(self, name: str) -> bool:
        """The value of that name is no longer needed; whether the name is free now."""
        if self._pinned[name] > 0:
            return False
        self._live.discard(name)
        return True
