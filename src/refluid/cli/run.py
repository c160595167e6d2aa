"""`refluid run`: a Fluid script, unchanged, with `paddle` found in refluid."""

from __future__ import annotations

import gc
import runpy
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from multiprocessing import spawn
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Literal

import typer

from refluid import paddle
from refluid.cli.missing import advise
from refluid.core.data_ends import end_of_data
from refluid.core.fetched import keep_when_copied
from refluid.core.importing import import_many
from refluid.core.job_variables import export_job
from refluid.paddle import beside
from refluid.porting import loading

_INTERRUPTED = 130


_Script = Annotated[str, typer.Argument(help="A Python file (with -m: a module's name).")]
_Arguments = Annotated[
    list[str] | None, typer.Argument(metavar="[ARGS]...", help="Passed on to the script.")
]
_Module = Annotated[bool, typer.Option("-m", "--module", help="SCRIPT is a module's name.")]
_Watch = Annotated[bool, typer.Option("--watch", help="Say what steps take, live and at the end.")]
_Profile = Annotated[
    Path | None,
    typer.Option(metavar="OUT.html", help="Write a page: where the time of a step goes."),
]
_Memory = Annotated[
    Path | None,
    typer.Option(metavar="OUT", help="Write what a step's memory goes to: .html or text."),
]
PlaceOption = Annotated[
    Literal["cpu"] | None,
    typer.Option("--place", help="Run there, whatever places the script names."),
]
_ShowTranslation = Annotated[
    bool, typer.Option("--show-translation", help="Print what is translated from Python 2.")
]
_LogFolder = Annotated[
    Path | None,
    typer.Option("--log-dir", metavar="DIR", help="Write what steps do there, for TensorBoard."),
]
_StrategyFile = Annotated[
    Path | None,
    typer.Option("--strategy", metavar="FILE.toml", help="Knobs, set over what the script says."),
]
_Auto = Annotated[
    bool,
    typer.Option("--auto", help="Try what may be faster while training; no number changes."),
]
_GateNumber = Annotated[int | None, typer.Option("--gate", hidden=True)]
_AsFluidCpu = Annotated[
    bool,
    typer.Option("--as-fluid-cpu", help="Compute as Fluid's CPU, also where that is wrong."),
]


def run(
    script: _Script,
    arguments: _Arguments = None,
    module: _Module = False,
    watch: _Watch = False,
    profile: _Profile = None,
    memory: _Memory = None,
    place: PlaceOption = None,
    strategy: _StrategyFile = None,
    log_dir: _LogFolder = None,
    auto: _Auto = False,
    show_translation: _ShowTranslation = False,
    as_fluid_cpu: _AsFluidCpu = False,
    gate: _GateNumber = None,
) -> None:
    """Run a script that imports paddle.fluid.

    The script runs as __main__ with its own sys.argv; its output and exit status are passed on.
    """
    if not module and not Path(script).exists():
        from refluid.cli.console import refuse

        refuse(f"no such script: {script}")
    sys.argv = [script, *(arguments or [])]
    sys.excepthook = sys.__excepthook__  # in place of typer's
    paddle.install(script=True)
    loading.install(show_translation=show_translation)
    prepare()
    _choose_processor(place, as_fluid_cpu=as_fluid_cpu)
    _hand_on(_folder(script, module=module), place, as_fluid_cpu=as_fluid_cpu)
    if strategy is not None:
        _choose(strategy)
    try:
        with _watched(Path(script).name, watch, profile, memory, gate, log_dir, auto=auto):
            _run_to_the_end(_run_module if module else _run_file, script)
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None
    except Exception as error:
        if isinstance(error, ModuleNotFoundError):
            advise(error)
        from refluid.cli.failing import report

        report(error.with_traceback(_from_script(error.__traceback__)))
        raise SystemExit(1) from None
    finally:
        _say_what_was_old()


def prepare() -> None:
    """Imports what programs need, before the script's folder is on the path.

    Fluid's variables then say which trainer this is, if anything does. What was imported stays
    until the end: the collector need not go through it, neither while the script runs nor, several
    times, when Python ends.
    """
    import_many("refluid.fluid.public")
    import_many("refluid.porting.given_back")  # of scripts that are rewritten: most old ones
    from refluid.core.values import LoDTensor
    from refluid.porting.numpy_numbers import print_plainly

    print_plainly()
    keep_when_copied(LoDTensor)
    export_job()
    gc.freeze()


def _say_what_was_old() -> None:
    """Where a rewritten file was loaded, the log names what it was given back."""
    given_back = sys.modules.get("refluid.porting.given_back")
    if given_back is not None:
        given_back.say()


def _choose_processor(place: str | None, *, as_fluid_cpu: bool) -> None:
    """What `--place` and `--as-fluid-cpu` ask for."""
    if place:
        from refluid.core.places import stay_on_cpu

        stay_on_cpu()
    if as_fluid_cpu:
        from refluid.core import flags

        flags.set_flags({"FLAGS_refluid_fluid_cpu_faults": True})


class _AsUnpickled:
    """Unpickled, it is what a function returns."""

    def __init__(self, function: Callable[..., Any], *given: Any) -> None:
        self._call = (function, given)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._call


def _hand_on(folder: str, place: str | None, *, as_fluid_cpu: bool) -> None:
    """Has processes that multiprocessing starts anew (`spawn`, `forkserver`) begin as this one.

    What they are sent is unpickled before they run the script's file again, in this order: torch
    must not be imported before libraries find their own modules.
    """
    usual = spawn.get_preparation_data
    find = _AsUnpickled(partial(paddle.install, script=True))
    begin = _AsUnpickled(begin_anew, folder, place, as_fluid_cpu)

    def prepared(name: str) -> dict[str, Any]:
        return {"find_paddle": find, "begin_anew": begin, **usual(name)}

    spawn.get_preparation_data = prepared


def begin_anew(folder: str, place: str | None, as_fluid_cpu: bool) -> None:
    """What `run` does before a script, in a process that runs its file as `__mp_main__`."""
    loading.install()
    prepare()
    _choose_processor(place, as_fluid_cpu=as_fluid_cpu)
    beside.set_aside(folder)

    def run_path(*given: Any, **named: Any) -> dict[str, Any]:
        return loading.run_file(*given, *named.values())

    runpy.run_path = run_path  # by which multiprocessing runs the file


def _choose(file: Path) -> None:
    from refluid.engine.strategy_file import WrongStrategy, apply_strategy

    try:
        apply_strategy(file)
    except (OSError, WrongStrategy) as error:
        from refluid.cli.console import refuse

        refuse(str(error))


def _watched(
    title: str,
    watch: bool,
    profile: Path | None,
    memory: Path | None,
    gate: int | None,
    log_dir: Path | None,
    *,
    auto: bool,
) -> ExitStack:
    """What the options ask for, imported only where they do: few runs are watched."""
    around = ExitStack()
    if profile is not None or memory is not None:
        from refluid.cli.profiling import metering, profiling

        for page, keeping in ((profile, profiling), (memory, metering)):
            if page is not None:
                around.enter_context(keeping(page, title))
    if watch:
        from refluid.cli.watching import watching

        around.enter_context(watching())
    if log_dir is not None:
        from refluid.cli.scalars import logging_scalars

        around.enter_context(logging_scalars(log_dir))
    if auto:
        from refluid.cli.auto import tuned_meanwhile

        around.enter_context(tuned_meanwhile())
    if gate is not None:
        from refluid.tune.gate import gate as at_gate

        around.enter_context(at_gate(gate))
    return around


def _run_to_the_end(run_it: Callable[[str], None], script: str) -> None:
    """Runs the script; where it ends well, other trainers may have more data."""
    try:
        run_it(script)
    except SystemExit as error:
        if not error.code:
            end_of_data(0)
        raise
    end_of_data(0)


def _folder(script: str, *, module: bool) -> str:
    return str(Path.cwd() if module else Path(script).resolve().parent)


def _run_file(script: str) -> None:
    if Path(script).is_file():
        _begin_path(_folder(script, module=False))
    loading.run_file(script)


def _run_module(name: str) -> None:
    _begin_path(_folder(name, module=True))
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _begin_path(folder: str) -> None:
    """Has Python look in the script's folder first; libraries keep the modules that they have."""
    beside.set_aside(folder)
    sys.path.insert(0, folder)


def _from_script(frames: TracebackType | None) -> TracebackType | None:
    """Leaves out the frames before the script's: they are refluid's and runpy's."""
    own = {__file__, loading.__file__, runpy.__file__, "<frozen runpy>"}
    while frames is not None and frames.tb_frame.f_code.co_filename in own:
        frames = frames.tb_next
    return frames
