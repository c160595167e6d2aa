"""The verifier before and after each pass, where FLAGS_refluid_verify_passes is set."""

from __future__ import annotations

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
    before = {one.message for one in verify(program, feeds=fed)}
    report = rewrite(program, options)
    made = [one for one in verify(program, feeds=fed) if one.message not in before]
    if made:
        said = "; ".join(f"{one.type}: {one.message}" for one in made)
        raise EnforceNotMet(f"the pass {name} leaves an unsound program: {said}")
    return report
