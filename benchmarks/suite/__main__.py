"""Median training steps of refluid and its peers: same networks, weights and data, in turns.

    python -m benchmarks.suite --quick
    python -m benchmarks.suite --workloads mlp lstm --peers eager compile --record
    python -m benchmarks.suite --page        # writes the page anew from the kept results

The exit status is 1 where losses disagree or refluid itself fails.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.report import record
from benchmarks.suite import page
from benchmarks.suite.data import LENGTHS
from benchmarks.suite.measure import Found, Settings, measure
from benchmarks.suite.peers import how_to_install
from benchmarks.suite.results import Measured, load, merged, pair, save
from benchmarks.suite.rivals import (
    COMPILED,
    DECLARATIVE,
    DYGRAPH,
    EAGER,
    FLOAT32,
    REFLUID,
    RIVALS,
    ROOT,
    RivalFailed,
    scratch,
)
from benchmarks.suite.workloads import WORKLOADS, Workload

PAGE = ROOT / "docs" / "benchmarks.md"
KEPT = ROOT / "benchmarks" / "results"
QUICK = Settings(blocks=5, seconds=0.5, patience=300.0)
QUICK_PEERS = (EAGER, DYGRAPH)


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.suite", description=__doc__.splitlines()[0]
    )
    add = parser.add_argument
    add("--workloads", nargs="+", choices=WORKLOADS, metavar="NAME", help=", ".join(WORKLOADS))
    add("--peers", nargs="+", choices=page.PEERS, help="default: all that are installed")
    add("--quick", action="store_true", help="small workloads against PyTorch eager, short blocks")
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--half", choices=("bfloat16", "float16"), default="", help="mixed precision")
    add("--processor", choices=("avx2",), default="", help="as on one that has no more than that")
    add("--tier", choices=("auto", "interpreted", "recorded", "compiled"), default="auto")
    add("--blocks", type=int, help="rounds (7; --record needs 5)")
    add("--seconds", type=float, help="length of a block (1)")
    add("--threads", type=int, default=0, help="CPU threads of every rival (default: its own)")
    add("--clock", choices=("wall", "cpu"), default="wall", help="cpu: for busy machines")
    add("--fresh", action="store_true", help="no caches of code compiled in earlier runs")
    add("--record", action="store_true", help="keep the results and write docs/benchmarks.md")
    add("--page", action="store_true", help="only write the page, from the kept results")
    options = parser.parse_args(arguments)
    if options.record and options.blocks is not None and options.blocks < 5:
        parser.error("--record needs at least 5 blocks")
    if options.device == "cuda" and not (options.page or torch.cuda.is_available()):
        parser.error("torch sees no CUDA device here")
    return options


def settings_of(options: argparse.Namespace) -> Settings:
    base = QUICK if options.quick else Settings()
    return Settings(
        device=options.device,
        threads=options.threads,
        half=options.half,
        clock=options.clock,
        tier=options.tier,
        blocks=options.blocks or base.blocks,
        seconds=options.seconds or base.seconds,
        patience=base.patience,
        fresh=options.fresh,
        processor=options.processor,
    )


def chosen_peers(options: argparse.Namespace) -> list[str]:
    """Peers that run on the device and are installed; a line on stderr says how to get others."""
    wanted = options.peers or (QUICK_PEERS if options.quick else page.PEERS)
    left_out = {DYGRAPH, DECLARATIVE} if options.half else {FLOAT32}
    if options.half or options.processor:
        left_out |= {"paddle3", "paddle2"}
    if options.half:
        left_out.add("jax")
    fit = [
        name for name in wanted if options.device in RIVALS[name].devices and name not in left_out
    ]
    for name in fit:
        if not RIVALS[name].installed:
            print(f"skipped: {how_to_install(RIVALS[name])}", file=sys.stderr)
    return [name for name in fit if RIVALS[name].installed]


def rivals_of(work: Workload, peers: Sequence[str], settings: Settings, quick: bool) -> list[str]:
    """refluid also compiled, where it can be; PyTorch eager with wide images in both layouts."""
    ragged = any(name.endswith(LENGTHS) for name in work.first())
    ours = [] if quick or ragged or settings.tier != "auto" else [COMPILED]
    both = [EAGER, "channels_last"] if work.wide_images else [EAGER]
    fit = [peer for peer in peers if work.name in (RIVALS[peer].workloads or WORKLOADS)]
    return [*ours, *(name for peer in fit for name in (both if peer == EAGER else [peer]))]


def best_tier(measured: Mapping[str, Measured], tier: str) -> tuple[Measured, str]:
    """refluid's faster tier, and its name; memory and first step are those of the given tier."""
    ours, compiled = measured[REFLUID], measured.get(COMPILED)
    if compiled is None or ours.median <= compiled.median:
        return ours, tier
    start = {name: getattr(ours, name) for name in ("peak", "first_step", "build")}
    return replace(compiled, **start), "compiled"


def entry_of(work: Workload, found: Found, settings: Settings, old: Any) -> dict[str, Any]:
    """What is kept of a workload: the former result with this run's in its place."""
    now = datetime.datetime.now().isoformat(timespec="seconds")
    facts = machine.facts(settings.device) | {"clock": settings.clock, "time": now}
    if settings.threads:
        facts["threads"] = str(settings.threads)
    if settings.processor:
        facts["machine"] += f", of which {settings.processor.upper()} is used"
    ours, tier = best_tier(found.measured, settings.tier)
    pairs = {
        name: pair(ours, theirs, facts, tier)
        for name, theirs in found.measured.items()
        if name not in (REFLUID, COMPILED)
    }
    head = {
        "title": work.title,
        "batch": work.batch,
        **found.needs,
        "ceiling": found.ceiling,
        "copied": found.copied,
        "half": settings.half,
    }
    return merged(old, head, pairs, found.failed)


def kept_in(settings: Settings) -> Path:
    threads = f"{settings.threads}-thread" if settings.threads else ""
    told = settings.device, settings.half, settings.processor, threads
    return KEPT / "-".join(filter(None, told))


def show(results: dict[str, Any]) -> None:
    head, *rows = page.speed_rows(results)
    table = Table(*head, title="Median step; peers' time over refluid's")
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def write_page(settings: Settings) -> None:
    """All kept results of the device as a section of the page, with a picture."""
    folder = kept_in(settings)
    names = [name for name in WORKLOADS if (folder / f"{name}.json").exists()]
    results = {name: load(folder, name) for name in names}
    picture = PAGE.parent / "images" / f"benchmarks-{folder.name}.svg"
    from benchmarks.suite.plot import draw

    draw(results, picture)
    text = page.markdown(results, picture.relative_to(PAGE.parent).as_posix())
    record(PAGE, f"suite on {folder.name}", text)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_options(arguments)
    settings = settings_of(options)
    if options.page:
        write_page(settings)
        return 0
    every = [name for name, work in WORKLOADS.items() if work.quick or not options.quick]
    peers, results, good = chosen_peers(options), {}, True
    for work in (WORKLOADS[name] for name in options.workloads or every):
        with scratch() as folder:
            try:
                found = measure(
                    work,
                    rivals_of(work, peers, settings, options.quick),
                    settings,
                    Path(folder),
                    say,
                )
            except RivalFailed as failure:
                print(f"{work.name}: refluid fails: {failure}", file=sys.stderr)
                good = False
                continue
        if not found.measured.keys() - {REFLUID, COMPILED}:
            print(f"{work.name}: no peer ran: {found.failed}", file=sys.stderr)
            continue
        results[work.name] = result = entry_of(work, found, settings, {})
        say(f"  {page.summary(result, work.name)}")
        if options.record:
            old = load(kept_in(settings), work.name)
            save(kept_in(settings), work.name, entry_of(work, found, settings, old))
            write_page(settings)
    if results:
        show(results)
        print("\n".join([*page.loss_lines(results), *page.failure_lines(results)]))
    return 0 if good and all(_agrees(name, result) for name, result in results.items()) else 1


def _agrees(name: str, result: Any) -> bool:
    return all(page.agrees(result, name, peer) for peer in result["peers"])


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
