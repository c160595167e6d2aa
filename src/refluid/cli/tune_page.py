"""What `refluid tune` found, as one self-contained page."""

from __future__ import annotations

from html import escape
from pathlib import Path

from refluid.cli.page import Share, Spread, card, document, section, table, tiles, two_curves
from refluid.engine.strategy_file import known, written
from refluid.tune.evidence import BoundBy
from refluid.tune.report import denied, gain, how_to_apply, verdict
from refluid.tune.search import Tried
from refluid.tune.tuner import TuningOutcome

_CURVE = 200
_MEANING = {
    BoundBy.READER: "the next batch isn't ready yet",
    BoundBy.PYTHON: "the script's own lines between two steps",
    BoundBy.SCHEDULING: "calling operators so small that it takes longer than what they compute",
    BoundBy.KERNELS: "arithmetic, and numbers that go through memory",
    BoundBy.COMMUNICATION: "gradients and parameters that come from other processes",
}


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
        (bound.value, _MEANING[bound], f"{share:.0%}", Share(share))
        for bound, share in outcome.diagnosis.shares.items()
    ]
    return section(
        "What bound the run",
        "A step is one batch: data come, the network computes a loss and gradients, parameters are "
        "updated. This is what a step of the script, as it is, spends its time on. What takes most "
        "is worth mending first.",
        table(("part", "what that is", "share", ""), rows, "share", stacks=True),
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
    most = max(high for *_, high in bars)
    rows = [
        (name, f"{value:.2f}", f"{low:.2f} to {high:.2f}" if low < high else "",
         Spread(value / most, low / most, high / most))
        for name, value, low, high in bars
    ]  # fmt: skip
    return section(
        "Gains",
        "The time of a step as a part of what it was, after each choice that was kept; a row has "
        f"those above it. The dark line is the range that was measured. Together: {gain(proof)}.",
        table(("choice", "time", "range", ""), rows, "time|range", stacks=True),
    )


def _losses(outcome: TuningOutcome) -> str:
    proof = outcome.proof
    if proof is None or not outcome.best or not proof.usual.losses:
        return ""
    before, after = (one[:_CURVE] for one in (proof.usual.losses, proof.losses))
    return section(
        "Losses before and after",
        f"{len(before)} steps on the same batches from the same state; the greatest difference of "
        f"the first eight is {proof.off:.2g} of the loss.",
        two_curves(before, after),
    )


def _memory(outcome: TuningOutcome) -> str:
    sides = [("before", outcome.seen.profile.peak)]
    if outcome.proof and outcome.best and outcome.proof.peak:
        sides = [("before", outcome.proof.usual.peak), ("after", outcome.proof.peak)]
    most = max(1, *(peak for _, peak in sides))
    rows = [(name, f"{peak / 1e6:.4g} MB", Share(peak / most)) for name, peak in sides]
    whole = outcome.seen.life.kind.passes and len(sides) > 1
    return section(
        "Memory",
        "What the process holds." if whole else "What tensors of a step hold at its peak.",
        table(("", "peak", " "), rows, "peak"),
    )


def _advice(outcome: TuningOutcome) -> str:
    cards = [card(one.name, one.fact, one.lines, one.advice) for one in outcome.diagnosis.causes]
    if not cards:
        return ""
    return section(
        "What a person can do", "No setting mends these; the lines are those of the script.", *cards
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
    rows: list[tuple[str, ...]] = []
    for one in outcome.seen.profile.slowest:
        seconds = one.ms * 1e-3
        least = ceilings.least_seconds(one.flops, one.moved)
        reached = f"{min(1.0, least / seconds):.0%}" if seconds and least else ""
        rows.append((one.type, one.line, f"{one.ms:.3g}", reached))
    heads: tuple[str, ...] = ("operator", "your line", "ms a step", "of ceiling")
    if not any(line for _, line, *_ in rows):  # of torch's own operators none is known
        rows, heads = [(row[0], *row[2:]) for row in rows], (heads[0], *heads[2:])
    return section(
        "The slowest operators",
        "How near each comes to what the machine can do at most: "
        f"{ceilings.rate / 1e9:.4g} GFLOP/s, {ceilings.bandwidth / 1e9:.3g} GB/s.",
        table(heads, rows, "ms a step|of ceiling", "your line"),
    )


def _apply(outcome: TuningOutcome, file: str) -> str:
    lines = [line for line in how_to_apply(outcome, file) if not line.startswith("  ")]
    shown = ""
    for line in lines:
        text, _, command = line.partition(":  ")
        shown += f"<p>{escape(text)}</p>" + (f"<pre>{escape(command)}</pre>" if command else "")
    if outcome.best:
        shown += f"<p>The file says:</p><pre>{escape(written(outcome.best).strip())}</pre>"
    return f"<h2>How to apply it</h2>{shown}"
