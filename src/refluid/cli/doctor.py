"""`refluid doctor`: what of this machine slows training down, and what to do about it."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure neither rates nor links.")
    ] = False,
) -> None:
    """Look at the machine: threads, instructions, memory, load, GPUs, links; measured ceilings.

    Says what to mend. The exit status is 0 in any case.
    """
    from refluid.cli.console import results
    from refluid.tune.doctor.examine import examine
    from refluid.tune.doctor.host import read_host

    found = examine(read_host(), measuring=not quick)
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(one) for one in found], indent=1))
        return
    console, wrong = results(), 0
    for one in found:
        mark = "[green]ok[/]" if one.is_well else "[yellow]!![/]"
        console.print(f"{mark}  [bold]{one.topic:13}[/] ", end="")
        console.print(one.fact, markup=False, soft_wrap=True)
        if not one.is_well:
            wrong += 1
            console.print(f"{'':17} -> {one.advice}", markup=False, soft_wrap=True)
    few = "nothing to mend" if not wrong else f"{wrong} to mend"
    console.print(f"{few}; docs/tune.md says what each means", markup=False, soft_wrap=True)
