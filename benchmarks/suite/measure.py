"""Measures one workload: all rivals built from the same weights, then blocks in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.suite.results import Measured
from benchmarks.suite.rivals import (
    EAGER,
    FLOAT32,
    REFLUID,
    RIVALS,
    RivalFailed,
    Running,
    environment,
)
from benchmarks.suite.sides.side import Options
from benchmarks.suite.worker import FEEDS, write_feeds
from benchmarks.suite.workloads import Workload

LOSSES = 4
MOST_STEPS = 200


@dataclass(frozen=True)
class Settings:
    """`seconds` is how long a block should take; a rival has at least two steps in each."""

    device: str = "cpu"
    threads: int = 0
    half: str = ""
    clock: str = "wall"
    tier: str = "auto"
    blocks: int = 7
    seconds: float = 1.0
    patience: float = 900.0
    fresh: bool = False
    processor: str = ""

    @property
    def asked(self) -> dict[str, str]:
        """What a machine's rate is asked of."""
        return {"device": self.device, "half": self.half, "clock": self.clock}


@dataclass
class Found:
    """What was measured of one workload, by rival; `failed` says why others are missing."""

    measured: dict[str, Measured] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    needs: Mapping[str, float] = field(default_factory=dict)
    ceiling: float = 0.0
    copied: float = 0.0


def measure(
    work: Workload,
    names: Sequence[str],
    settings: Settings,
    folder: Path,
    say: Callable[[str], None],
) -> Found:
    """`names` are those of rivals besides refluid. RivalFailed only where refluid itself fails."""
    write_feeds(folder / FEEDS, work.feeds())
    found = Found()
    with ExitStack() as stack:
        running: dict[str, Running] = {}
        # Once it has answered, it takes no processor from rivals any more that look for load.
        machine = stack.enter_context(_machine(settings, folder))
        found.ceiling = machine.ask("ceiling", **settings.asked)
        for name in (REFLUID, *names):
            say(f"{work.name}: {RIVALS[name].title}")
            log = folder / f"{name}.log"
            caches = folder / "caches" if settings.fresh else None
            env = environment(
                RIVALS[name], settings.threads, settings.tier, caches, settings.processor
            )
            rival = stack.enter_context(Running(RIVALS[name], env, log, settings.patience))
            try:
                found.measured[name] = _start(rival, work, settings, folder)
            except RivalFailed as failure:
                if name == REFLUID:
                    raise
                rival.close()
                found.failed[name] = _reason(failure)
                continue
            running[name] = rival
        _take_turns(running, machine, found, settings, say)
        for name, rival in running.items():
            found.measured[name].peak = rival.ask("peak")
        for name, rival in running.items():
            found.measured[name].shares = rival.ask("shares")
        if EAGER in running:  # last of all: counting makes more memory
            alone = _alone(running[REFLUID], machine, found, settings)
            found.needs = running[EAGER].ask("needs") | {"alone": alone}
            held = found.needs["held"]
            found.copied = machine.ask("copied", device=settings.device, held=held)
    return found


def _alone(refluid: Running, machine: Running, found: Found, settings: Settings) -> float:
    """What a step's products take alone, where the machine multiplies as fast as at its best in
    this run: it may be slower at the moment."""
    rates = [machine.ask("ceiling", **settings.asked)]
    seconds: float = refluid.ask("needs")["alone"]
    rates.append(machine.ask("ceiling", **settings.asked))
    found.ceiling = max(found.ceiling, *rates)
    return seconds * sum(rates) / 2 / found.ceiling


def _reason(failure: RivalFailed) -> str:
    """The line that names the error: of several, what caused the others comes last."""
    lines = str(failure).strip().splitlines()
    return next((line for line in reversed(lines) if "Error" in line), lines[-1]).strip()[:200]


def _start(rival: Running, work: Workload, settings: Settings, folder: Path) -> Measured:
    half = "" if rival.rival.name == FLOAT32 else settings.half
    options = Options(rival.rival.variant, settings.device, settings.threads, half, settings.clock)
    built = rival.build(work.name, options, folder)
    first = rival.ask("losses", count=LOSSES)
    return Measured(
        versions=built["versions"],
        build=built["seconds"],
        first_step=first["first_step"],
        losses=first["losses"],
    )


def _machine(settings: Settings, folder: Path) -> Running:
    """A process that measures what the machine can do."""
    env = environment(RIVALS[REFLUID], settings.threads, "auto", None, settings.processor)
    return Running(RIVALS[REFLUID], env, folder / "machine.log", settings.patience)


def _take_turns(
    running: dict[str, Running],
    machine: Running,
    found: Found,
    settings: Settings,
    say: Callable[[str], None],
) -> None:
    """Blocks of all rivals, `settings.blocks` rounds; the order turns by one every round."""
    steps = {}
    for name, rival in running.items():
        step = rival.ask("warm", seconds=settings.seconds, least=12, most=50)
        steps[name] = max(2, min(MOST_STEPS, round(settings.seconds / step)))
    names = list(running)
    for turn in range(settings.blocks):
        say(f"round {turn + 1} of {settings.blocks}")
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            times = running[name].ask("block", steps=steps[name])
            found.measured[name].blocks.append(times)
        found.ceiling = max(found.ceiling, machine.ask("ceiling", **settings.asked))
