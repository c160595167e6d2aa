"""`refluid verify`: proves on recordings that refluid computes what Fluid computed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.core.flag_table import FLAGS
from refluid.core.places import CPUPlace, CUDAPlace, Place, require_available
from refluid.core.writing import write_whole
from refluid.runtime.recorded.trial import compiling_at_once
from refluid.verify.recordings import find_recordings, load_recording
from refluid.verify.replay import Outcome, replay

TIERS = FLAGS["refluid_tier"].choices
PLACES: Mapping[str, Place] = {"cpu": CPUPlace(), "gpu": CUDAPlace(0)}


def verify(
    cases: Annotated[list[Path], typer.Argument(help="Recordings, or folders of them.")],
    tier: Annotated[
        str, typer.Option(help="How steps run, as FLAGS_refluid_tier: " + ", ".join(TIERS) + ".")
    ] = "auto",
    place: Annotated[
        str, typer.Option(help="Where programs run: " + ", ".join(PLACES) + ".")
    ] = "cpu",
    json_out: Annotated[
        Path | None, typer.Option("--json", help="Write the outcomes as a JSON list.")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show failures and the summary only.")
    ] = False,
) -> None:
    """Replays recordings of real Fluid and compares every result. Exit status 1 on any failure."""
    console = Console(stderr=True)
    if tier not in TIERS:
        raise typer.BadParameter(f"{tier!r}; the tiers are {', '.join(TIERS)}", param_hint="--tier")
    if place not in PLACES:
        places = ", ".join(PLACES)
        raise typer.BadParameter(f"{place!r}; the places are {places}", param_hint="--place")
    try:
        require_available(PLACES[place])
        paths = list(find_recordings(cases))
    except EnforceNotMet as error:
        raise typer.BadParameter(str(error)) from error
    if not paths:
        raise typer.BadParameter("no recordings there", param_hint="CASES")
    with running(tier):
        outcomes = _replay_all(paths, _common_root(cases), PLACES[place], console, quiet=quiet)
    if json_out is not None:
        write_whole(
            json_out, json.dumps([asdict(outcome) for outcome in outcomes], indent=1) + "\n"
        )
    _summary(outcomes, console)
    if not all(outcome.passed for outcome in outcomes):
        raise typer.Exit(1)


@contextmanager
def running(tier: str) -> Iterator[None]:
    """Within the block steps run in that tier; compiled ones as soon as they are recorded.

    The number of threads stays, so that a step gives the same bits every time.
    """
    with flags.override({"FLAGS_refluid_tier": tier, "FLAGS_refluid_adaptive_threads": False}):
        if tier == "compiled":
            with compiling_at_once():
                yield
        else:
            yield


def _common_root(cases: list[Path]) -> Path:
    return cases[0] if len(cases) == 1 and cases[0].is_dir() else Path()


def _replay_all(
    paths: list[Path], root: Path, place: Place, console: Console, *, quiet: bool
) -> list[Outcome]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    outcomes = []
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("replaying", total=len(paths))
        for path in paths:
            name = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
            progress.update(task, description=name[-60:])
            outcome = replay_file(path, name or path.name, place)
            outcomes.append(outcome)
            progress.advance(task)
            if not (quiet and outcome.passed):
                progress.console.print(_line(outcome), highlight=False, soft_wrap=True)
    return outcomes


def replay_file(path: Path, name: str, place: Place = PLACES["cpu"]) -> Outcome:
    """Replays one recording at a place; a file that can't be read is a failed case."""
    name = path.name if name == "." else name
    try:
        recording = load_recording(path)
    except EnforceNotMet as error:
        return Outcome(name, False, None, 0.0, str(error))
    return replay(recording, name, place)


def _line(outcome: Outcome) -> str:
    mark = "[green]pass[/]" if outcome.passed else "[red]FAIL[/]"
    error = "       -" if outcome.max_error is None else f"{outcome.max_error:8.1e}"
    reason = outcome.reason.split("\n")[0].replace("[", r"\[")
    return f"{mark} {error} {outcome.seconds:7.2f} s  {outcome.case}  {reason}".rstrip()


def _summary(outcomes: list[Outcome], console: Console) -> None:
    passed = sum(outcome.passed for outcome in outcomes)
    table = Table(title=f"{passed} of {len(outcomes)} recordings pass", title_justify="left")
    table.add_column("reason of failure")
    table.add_column("cases", justify="right")
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        prefix = "operators missing: "
        if outcome.reason.startswith(prefix):
            for kind in outcome.reason.removeprefix(prefix).split(", "):
                counts[f"no operator {kind}"] += 1
        elif not outcome.passed:
            counts[outcome.reason.split("\n")[0][:90].replace("[", r"\[")] += 1
    for reason, count in counts.most_common(20):
        table.add_row(reason, str(count))
    console.print(table if counts else f"{passed} of {len(outcomes)} recordings pass")
    ill = sorted(outcome.case for outcome in outcomes if outcome.ill_conditioned)
    if ill:
        console.print(f"{len(ill)} of them pass as ill-conditioned: {', '.join(ill)}")
