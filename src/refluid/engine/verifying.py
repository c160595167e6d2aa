"""The verifier before and after each pass, where FLAGS_refluid_verify_passes is set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import TypeVar

from refluid.analysis.verifier import verify
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.ir.program import Program
from refluid.passes.protocol import Report

O = TypeVar("O")  # noqa: E741


def verified(
    name: str,
    rewrite: Callable[[Program, O], Report],
    program: Program,
    options: O,
    fed: Collection[str] = (),
) -> Report:
    """What the pass reports. EnforceNotMet where it made something wrong that was sound before."""
    if not flags.value("refluid_verify_passes"):
        return rewrite(program, options)
    before = _problems(program, fed)
    report = rewrite(program, options)
    made = _problems(program, fed) - before
    if made:
        raise EnforceNotMet(f"the pass {name} leaves an unsound program: {'; '.join(made)}")
    return report


def _problems(program: Program, fed: Collection[str]) -> Counter[str]:
    return Counter(f"{one.type}: {one.message}" for one in verify(program, feeds=fed))
