"""What members of a group must bring alike, and how the first difference is told."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from torch import Tensor

from refluid.core.errors import EnforceNotMet

_NOTHING = "nothing more"
_SHOWN = 2


def require_alike(everyone: Sequence[Sequence[str]], member: str) -> None:
    """EnforceNotMet naming the first line in which what members brought, by rank, differs.

    The first line says what a member is about to do, the others with what. member: what one is
    called.
    """
    for number, lines in enumerate(zip_longest(*everyone, fillvalue=_NOTHING)):
        if len(set(lines)) > 1:
            what = "don't do the same" if number == 0 else f"differ in what they {everyone[0][0]}"
            raise EnforceNotMet(f"{member}s {what}: {_by_line(lines, member)}")


def _by_line(lines: Sequence[str], member: str) -> str:
    """Each line with the members that brought it."""
    ranks: dict[str, list[int]] = {}
    for rank, line in enumerate(lines):
        ranks.setdefault(line, []).append(rank)
    return "; ".join(
        f"{member}{'s' if len(which) > 1 else ''} {', '.join(map(str, which))}: {line}"
        for line, which in ranks.items()
    )


def in_short(what: Sequence[str]) -> str:
    """The first line and, of the others, how many there are and what the first ones say."""
    first, *others = what
    if not others:
        return first
    shown = ", ".join([*others[:_SHOWN], ".."][: len(others)])
    return f"{first}: {shown} ({len(others)} in all)"


def described(tensors: Sequence[Tensor]) -> list[str]:
    """A line for each tensor: its type and sizes."""
    return [f"{str(one.dtype).removeprefix('torch.')} {list(one.shape)}" for one in tensors]
