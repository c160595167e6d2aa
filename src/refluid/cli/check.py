"""`refluid check`: what stands in the way of a project, found without running it."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from refluid.porting.project import ProjectVerdict

_SHOWN = 8


def check(
    project: Annotated[Path, typer.Argument(help="A folder of scripts, or one script.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Also what refluid run sees to by itself.")
    ] = False,
) -> None:
    """Scan a project: names that refluid lacks, Python 2, CUDA-only choices, custom operators.

    Nothing of it is run. The exit status is 1 where a script can't be expected to run.
    """
    from refluid.porting.project import check_project

    if not project.exists():
        from refluid.cli.console import refuse

        refuse(f"no such file or folder: {project}")
    logging.getLogger("refluid").setLevel(logging.ERROR)
    verdicts = check_project(project.resolve())
    if as_json:
        typer.echo(json.dumps([_as_json(one) for one in verdicts], indent=1))
    else:
        for one in verdicts:
            typer.echo(f"{_mark(one)} {one.script}: {one.says}")
            _show(one, everything)
        runs, perhaps = (sum(vars(one)[name] for one in verdicts) for name in ("runs", "perhaps"))
        typer.echo(f"{runs} of {len(verdicts)} scripts can be expected to run, {perhaps} perhaps")
    raise typer.Exit(0 if all(one.runs or one.perhaps for one in verdicts) else 1)


def _mark(verdict: ProjectVerdict) -> str:
    return "ok " if verdict.runs else "?? " if verdict.perhaps else "NO "


def _show(verdict: ProjectVerdict, everything: bool) -> None:
    from refluid.porting.scanning import FindingKind

    minor = {FindingKind.OLD, FindingKind.PYTHON2, FindingKind.CUDA}
    found = [one for one in verdict.findings if everything or one.kind not in minor]
    for one in found if everything else found[:_SHOWN]:
        typer.echo(f"      {one.file}:{one.line}: {one.kind}: {one.what}")
    if len(found) > _SHOWN and not everything:
        typer.echo(f"      and {len(found) - _SHOWN} more (--all)")


def _as_json(verdict: ProjectVerdict) -> dict[str, object]:
    return {
        "script": verdict.script,
        "runs": verdict.runs,
        "perhaps": verdict.perhaps,
        "says": verdict.says,
        "findings": [
            {"file": one.file, "line": one.line, "kind": one.kind.value, "what": one.what}
            for one in verdict.findings
        ],
    }
