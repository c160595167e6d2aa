"""`refluid tune`: settings that make a script faster, found by trying them on its own steps."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refluid.core.writing import write_whole

if TYPE_CHECKING:
    from refluid.tune.session import Script
    from refluid.tune.tuner import TuningOutcome

_Script = Annotated[str, typer.Argument(help="A Python file.")]
_Arguments = Annotated[
    list[str] | None, typer.Argument(metavar="[ARGS]...", help="Passed on to the script.")
]
_Budget = Annotated[str, typer.Option("--budget", help="For how long: 90s, 10m, 1h.")]
_Out = Annotated[Path, typer.Option("--out", metavar="FILE.toml", help="The strategy found.")]
_Report = Annotated[
    Path | None, typer.Option("--report", metavar="FILE.html", help="A page that explains it.")
]
_Limit = Annotated[
    float, typer.Option("--memory-limit", metavar="GB", help="Most that a step may hold.")
]
_Tolerance = Annotated[
    float | None,
    typer.Option("--tolerance", help="How much losses may differ, relative; else by the knob."),
]
_Unprotected = Annotated[
    bool,
    typer.Option("--unprotected", help="Let the script write files, where they can't be covered."),
]
_Trainers = Annotated[
    int,
    typer.Option(
        "--trainers", "-n", "--worker_num", min=1, help="In so many processes that train together."
    ),
]
_Servers = Annotated[
    int,
    typer.Option("--servers", "--server_num", min=0, help="Beside so many servers of tables."),
]
_Hosts = Annotated[str, typer.Option("--ips", "--cluster_node_ips", hidden=True)]
_ON_ONE_HOST = (
    "trainers are tuned on one host: --trainers N starts as many here, and what is found is "
    "applied on all hosts by refluid launch --ips .. --strategy strategy.toml SCRIPT (docs/tune.md)"
)
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def tune(
    script: _Script,
    arguments: _Arguments = None,
    budget: _Budget = "10m",
    out: _Out = Path("strategy.toml"),
    report: _Report = None,
    memory_limit: _Limit = 0.0,
    tolerance: _Tolerance = None,
    unprotected: _Unprotected = False,
    trainers: _Trainers = 1,
    servers: _Servers = 0,
    ips: _Hosts = "",
) -> None:
    """Find what binds a training script, and settings that make it faster.

    The script runs until its loop is recognised, in a process whose writes to files go nowhere.
    Settings are then tried on its own steps, in turns with those that it has.
    """
    from refluid.cli.console import refuse, results
    from refluid.cli.tune_page import report_page
    from refluid.tune.report import report_text
    from refluid.tune.session import Script

    if not Path(script).exists():
        refuse(f"no such script: {script}")
    seconds = _seconds(budget) or refuse(f"--budget is like 90s, 10m or 1h, not {budget!r}")
    if ips:
        refuse(_ON_ONE_HOST)
    asked = Script([script, *(arguments or [])], unprotected, trainers, servers)
    outcome = _found(asked, seconds, int(memory_limit * 1e9), tolerance)
    file = _write(outcome, out) if outcome.best else ""
    if report is not None:
        write_whole(report, report_page(outcome, file))
    results().print(report_text(outcome, file), markup=False, soft_wrap=True)


def _found(script: Script, seconds: float, limit: int, tolerance: float | None) -> TuningOutcome:
    from refluid.cli.console import messages, refuse
    from refluid.tune.doctor.host import read_host
    from refluid.tune.learned import Learned
    from refluid.tune.session import NoLoop, TrialFailed
    from refluid.tune.tuner import tune as found_by

    console = messages()

    def tell(text: str) -> None:
        console.print(f"refluid: {text}", markup=False, soft_wrap=True)

    learned = Learned(read_host())
    try:
        return found_by(script, seconds, tell, learned, limit=limit, tolerance=tolerance)
    except NoLoop as error:
        refuse(f"there is nothing to tune: {error}")
    except TrialFailed as error:
        refuse(f"steps of the loop can't be looked at: {error}")
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    return float(found[1]) * _UNITS[found[2]] if found else 0.0


def _write(outcome: TuningOutcome, out: Path) -> str:
    from refluid.engine.strategy_file import written
    from refluid.tune.report import gain

    assert outcome.proof is not None
    comment = (
        f"{' '.join(outcome.script.command)}: {gain(outcome.proof)},\n"
        f"by refluid tune on {datetime.date.today().isoformat()}"
    )
    write_whole(out, written(outcome.best, comment))
    return str(out)
