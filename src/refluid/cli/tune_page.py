"""What `refluid tune` found, as one self-contained page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from refluid.cli.page import Share, document, section, table, tiles
from refluid.engine.strategy_file import known, written
from refluid.tune.report import denied, gain, how_to_apply, verdict
from refluid.tune.search import Tried
from refluid.tune.tuner import TuningOutcome

_WIDTH, _ROW, _LEFT = 900, 26, 330
_CURVE, _HEIGHT, _MARGIN = 200, 180, 70


def report_page(outcome: TuningOutcome, file: str) -> str:
    """The page. file: where the strategy was written."""
    title = f"Tuning {Path(outcome.script.command[0]).name}"
    host = outcome.seen.host
    where = f"{host.cores} cores of {host.model or 'an unknown processor'}, {outcome.seconds:.0f} s"
    parts = [_tiles(outcome), _bound(outcome), _gains(outcome), _losses(outcome), _memory(outcome)]
    parts += [_advice(outcome), _tried(outcome), _slowest(outcome), _apply(outcome, file)]
    return document(title, f"{verdict(outcome)}. {where}.", [one for one in parts if one])


def _tiles(outcome: TuningOutcome) -> str:
    seen, found = outcome.seen, outcome.diagnosis
    facts = [
        (f"{seen.life.period * 1e3:.4g} ms", "a step as it was"),
        (f"{found.shares[found.bound]:.0%}", found.bound.value),
        (f"{found.efficiency:.0%}", f"of the ceilings, limited by {found.limit}"),
    ]
    if outcome.proof and outcome.best:
        facts.insert(0, (f"{1 / outcome.proof.ratio:.2f}×", "as fast"))
    return tiles(facts)


def _bound(outcome: TuningOutcome) -> str:
    rows = [
        (bound.value, f"{share:.0%}", Share(share))
        for bound, share in outcome.diagnosis.shares.items()
    ]
    return section(
        "What bound the run",
        "Parts of a step of the script as it is. Kernels are arithmetic and memory traffic; small "
        "operators cost what calling them takes.",
        table(("part", "share", ""), rows, "share"),
    )


def _gains(outcome: TuningOutcome) -> str:
    """A waterfall: the time of a step after each choice that was kept."""
    kept = [one for one in outcome.tried if one.kept and one.found]
    if not kept or not outcome.best or outcome.proof is None:
        return ""
    time, bars = 1.0, [("as it was", 1.0, 1.0, 1.0)]
    for one in kept:
        assert one.found is not None
        before, time = time, time * one.found.ratio
        bars.append((one.proposal.key, time, before * one.found.low, before * one.found.high))
    proof = outcome.proof
    bars.append(("all together, once more", proof.ratio, proof.low, proof.high))
    return section(
        "Gains",
        "Time of a step after each choice that was kept, the one before being part of it; thin "
        f"lines are the range over rounds of A B B A. Together: {gain(proof)}.",
        _waterfall(bars),
    )


def _waterfall(bars: Sequence[tuple[str, float, float, float]]) -> str:
    most = max(1.0, *(high for *_, high in bars))
    scale = (_WIDTH - _LEFT - 60) / most
    shown = []
    for number, (name, value, low, high) in enumerate(bars):
        y = 8 + number * _ROW
        end = _LEFT + value * scale
        middle = y + _ROW / 2 - 3
        shown.append(
            f'<text x="{_LEFT - 10}" y="{middle + 4:.1f}" text-anchor="end">{escape(name)}</text>'
            f'<rect class="area" x="{_LEFT}" y="{y}" width="{value * scale:.1f}" '
            f'height="{_ROW - 8}"/><line class="mark" x1="{_LEFT + low * scale:.1f}" '
            f'x2="{_LEFT + high * scale:.1f}" y1="{middle:.1f}" y2="{middle:.1f}"/>'
            f'<text x="{max(end, _LEFT + high * scale) + 6:.1f}" y="{middle + 4:.1f}">{value:.2f}'
            "</text>"
        )
    height = 16 + len(bars) * _ROW
    return (
        f'<div class="wide"><svg viewBox="0 0 {_WIDTH} {height}" style="min-width:40rem" '
        f'role="img" aria-label="time of a step after each choice">{"".join(shown)}</svg></div>'
    )


def _losses(outcome: TuningOutcome) -> str:
    proof = outcome.proof
    if proof is None or not outcome.best or not proof.usual.losses:
        return ""
    before, after = (one[:_CURVE] for one in (proof.usual.losses, proof.losses))
    return section(
        "Losses before and after",
        f"{len(before)} steps on the same batches from the same state; the greatest difference of "
        f"the first eight is {proof.off:.2g} of the loss. Before: the area; after: dashed.",
        two_curves(before, after),
    )


def two_curves(before: Sequence[float], after: Sequence[float]) -> str:
    """Both over the same axes."""
    finite = [one for one in (*before, *after) if math.isfinite(one)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    span = (high - low) or 1.0

    def points(values: Sequence[float]) -> list[str]:
        step = (_WIDTH - _MARGIN - 10) / max(1, len(values) - 1)
        tall = (_HEIGHT - 40) / span
        return [
            f"{_MARGIN + number * step:.1f},{_HEIGHT - 20 - (one - low) * tall:.1f}"
            for number, one in enumerate(values)
            if math.isfinite(one)
        ]

    floor = _HEIGHT - 10
    area = [f"{_MARGIN},{floor}", *points(before), f"{_WIDTH - 10},{floor}"]
    ends = "".join(
        f'<text x="{_MARGIN - 8}" y="{y}" text-anchor="end">{value:.4g}</text>'
        for y, value in ((24, high), (_HEIGHT - 16, low))
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="losses before and after">'
        f'{ends}<polygon class="area" points="{" ".join(area)}"/>'
        f'<polyline class="mark" fill="none" points="{" ".join(points(after))}"/></svg>'
    )


def _memory(outcome: TuningOutcome) -> str:
    rows = [("before", f"{outcome.seen.profile.peak / 1e6:.4g} MB")]
    if outcome.proof and outcome.best and outcome.proof.peak:
        sides = ("before", outcome.proof.usual.peak), ("after", outcome.proof.peak)
        rows = [(name, f"{peak / 1e6:.4g} MB") for name, peak in sides]
    return section(
        "Memory", "What tensors of a step hold at its peak.", table(("", "peak"), rows, "peak")
    )


def _advice(outcome: TuningOutcome) -> str:
    causes = outcome.diagnosis.causes
    rows = [(one.name, one.fact, "\n".join(one.lines), one.advice) for one in causes]
    if not rows:
        return ""
    return section(
        "What a person can do",
        "No setting mends these; the lines are those of the script.",
        table(("what", "how much", "where", "what to do"), rows, codes="where"),
    )


def _tried(outcome: TuningOutcome) -> str:
    rows = [_row(one) for one in outcome.tried]
    if not rows:
        return ""
    left = f" {outcome.left} more were not tried." if outcome.left else ""
    if outcome.proof and not outcome.best:
        left += f" {denied(outcome.proof)}"
    return section(
        "What was tried",
        "Each beside the best until then, in turns: the time of a step by it over that without it, "
        f"lowest and highest of the rounds.{left}",
        table(("choice", "what it does", "time", "range", "", "why"), rows, "time|range", "choice"),
    )


def _row(one: Tried) -> tuple[str, ...]:
    found = one.found
    figures = (f"{found.ratio:.2f}", f"{found.low:.2f} to {found.high:.2f}") if found else ("", "")
    knob = known(one.proposal.row.scope)[one.proposal.row.name]
    return (
        one.proposal.key,
        knob.does.replace("`", ""),
        *figures,
        "kept" if one.kept else "",
        one.why,
    )


def _slowest(outcome: TuningOutcome) -> str:
    ceilings = outcome.seen.ceilings
    rows = []
    for one in outcome.seen.profile.slowest:
        seconds = one.ms * 1e-3
        least = ceilings.least_seconds(one.flops, one.moved)
        reached = f"{min(1.0, least / seconds):.0%}" if seconds and least else ""
        rows.append((one.type, one.line, f"{one.ms:.3g}", reached))
    return section(
        "The slowest operators",
        f"Against the measured ceilings: {ceilings.rate / 1e9:.4g} GFLOP/s, "
        f"{ceilings.bandwidth / 1e9:.3g} GB/s.",
        table(("operator", "your line", "ms a step", "of ceiling"), rows,
              "ms a step|of ceiling", "your line"),
    )  # fmt: skip


def _apply(outcome: TuningOutcome, file: str) -> str:
    lines = list(how_to_apply(outcome, file))
    shown = "".join(f"<p>{escape(line)}</p>" for line in lines if not line.startswith("  "))
    text = f"<pre>{escape(written(outcome.best))}</pre>" if outcome.best else ""
    return f"<h2>How to apply it</h2>{shown}{text}"
