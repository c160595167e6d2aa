"""What tuning found, as text: what binds, what was gained, what was tried, what a person can do."""

from __future__ import annotations

from collections.abc import Iterator

from refluid.engine.strategy_file import written
from refluid.tune.ratios import Compared
from refluid.tune.search import Tried
from refluid.tune.tuner import TuningOutcome


def report_text(outcome: TuningOutcome, file: str) -> str:
    """The report. file: where the strategy was written; empty where there is none."""
    return "\n".join(_lines(outcome, file))


def _lines(outcome: TuningOutcome, file: str) -> Iterator[str]:
    seen, found = outcome.seen, outcome.diagnosis
    yield verdict(outcome)
    yield ""
    yield f"A step takes {seen.life.period * 1e3:.4g} ms ({seen.life.steps} were measured):"
    for bound, share in found.shares.items():
        yield f"  {share:5.0%}  {bound.value}"
    yield (
        f"Runs reach {found.efficiency:.0%} of what the machine's ceilings allow; {found.limit} "
        f"limits them. A step holds {seen.profile.peak / 1e6:.4g} MB at its peak."
    )
    if found.causes:
        yield ""
        yield "What a person can do:"
        for cause in found.causes:
            yield f"  {cause.name}: {cause.fact}"
            yield from (f"      {line}" for line in cause.lines)
            yield f"      -> {cause.advice}"
    if outcome.tried:
        yield ""
        yield "What was tried (time of a step beside that without it):"
        for one in outcome.tried:
            yield f"  {'kept' if one.kept else '    '}  {tried_text(one)}"
    if outcome.proof and not outcome.best:
        yield f"  {denied(outcome.proof)}"
    if outcome.left:
        why = "interrupted" if outcome.interrupted else "the time was up"
        yield f"  {outcome.left} more were not tried: {why}"
    yield ""
    yield from how_to_apply(outcome, file)


def verdict(outcome: TuningOutcome) -> str:
    """In one sentence."""
    if outcome.best and outcome.proof:
        return f"{gain(outcome.proof)}, by {_counted(outcome.best.count)}"
    return "the settings are as fast as any that was tried"


def _counted(count: int) -> str:
    return f"{count} choice" + ("s" if count > 1 else "")


def denied(proof: Compared) -> str:
    """Why what was kept isn't chosen."""
    return (
        f"All that was kept beside the default, once more: {proof.ratio:.2f} ({proof.low:.2f} to "
        f"{proof.high:.2f}). That isn't clearly faster, or its losses differ: nothing is chosen."
    )


def gain(found: Compared) -> str:
    """How many times as fast, with its range over the rounds, or how much less memory."""
    speed = f"{1 / found.ratio:.2f} times as fast ({1 / found.high:.2f} to {1 / found.low:.2f})"
    if found.is_faster:
        return speed
    held = f"{found.peak / 1e6:.4g} MB a step instead of {found.usual.peak / 1e6:.4g}"
    return f"{held}, {speed}"


def tried_text(one: Tried) -> str:
    """A row of the table of trials."""
    found = one.found
    figures = f"{found.ratio:.2f} ({found.low:.2f} to {found.high:.2f})" if found else ""
    return f"{one.proposal.key:40} {figures:22} {one.why}"


def how_to_apply(outcome: TuningOutcome, file: str) -> Iterator[str]:
    """What to run from now on."""
    if not outcome.best:
        yield "There is nothing to apply."
        return
    command = " ".join(outcome.script.command)
    if file:
        yield f"To apply it:  refluid run --strategy {file} {command}"
        yield f'or at the top of the script:  import refluid; refluid.apply_strategy("{file}")'
    yield from ("  " + line for line in written(outcome.best).splitlines() if line)
