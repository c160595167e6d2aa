"""`refluid record`: what a script computes here, in the format that `refluid verify` replays."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Annotated, Any

import typer

from refluid import paddle
from refluid.cli.run import PlaceOption, prepare
from refluid.porting import loading


def record(
    script: Annotated[str, typer.Argument(help="A Python file.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="Passed on to the script.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the recording.")
    ] = Path("recording"),
    steps: Annotated[int, typer.Option(min=1, help="How many runs are recorded.")] = 5,
    repeats: Annotated[
        int, typer.Option(min=0, help="Runs from changed parameters: what rounding does.")
    ] = 4,
    place: PlaceOption = None,
    keep_random: Annotated[
        bool, typer.Option("--keep-random", help="Leave dropout on; verify then compares shapes.")
    ] = False,
) -> None:
    """Record the first runs of a script, as record/fluid_recorder.py does beside real Fluid."""
    if not Path(script).is_file():
        from refluid.cli.console import refuse

        refuse(f"no such script: {script}")
    paddle.install()
    loading.install(show_translation=False)
    prepare()
    if place:
        from refluid.core.places import stay_on_cpu

        stay_on_cpu()
    import refluid.fluid.public as fluid
    from refluid.record import fluid_recorder

    options = argparse.Namespace(
        script=script,
        arguments=arguments or [],
        out=str(out),
        steps=steps,
        repeats=repeats,
        keep_random=keep_random,
    )
    run: Any = fluid_recorder.record
    status = run(fluid, options, _array, loading.run_file)
    if status:
        raise typer.Exit(status if isinstance(status, int) else 1)


def _array(tensor: Any) -> Any:
    """As `Executor.run` gives arrays here."""
    import numpy as np

    from refluid.core.fetched import fetched

    return fetched(np.array(tensor))
