"""The page of `refluid run --profile`: where the step's time goes, and what the machine allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from refluid.cli.memory_page import memory_sections
from refluid.cli.page import Share, TableCell, document, section, table, tiles
from refluid.fluid.contrib.memory_report import report_of, size_text
from refluid.measure.ceilings import Ceilings
from refluid.measure.step_profile import Spent, StepProfile, work_of
from refluid.runtime.meter import Measured, OperatorWork
from refluid.runtime.watched import Watched

_ROWS = 25
_GROUPS: tuple[tuple[str, str, Callable[[Watched], str]], ...] = (
    ("operator", "By type of operator.", lambda one: one.name),
    ("layer", "Forward, gradient and update of a layer together.", lambda one: one.layer),
    ("your line", "By the line of the script that made the operator.", lambda one: one.line),
)


def profile_page(
    title: str, profile: StepProfile, measured: Measured | None, ceilings: Ceilings, device: str
) -> str:
    """The page as HTML."""
    work = work_of(measured)
    flops = sum(one.flops for one in work.values())
    reached = flops / (profile.ms * 1e-3) / ceilings.rate if profile.ms else 0.0
    overhead = profile.ms - profile.compute
    facts = [
        (f"{profile.ms:.3g} ms", f"a step (median of {profile.steps})"),
        (f"{len(profile.operators)}", "operators"),
        (f"{100 * overhead / profile.ms if profile.ms else 0:.1f} %", "between operators"),
        (f"{flops / 1e9:.3g} GFLOP", "arithmetic a step"),
        (f"{100 * reached:.0f} %", f"of {ceilings.rate / 1e9:,.0f} GFLOP/s, measured"),
        (f"{ceilings.bandwidth / 1e9:.3g} GB/s", "memory bandwidth, measured"),
    ]
    parts = [tiles(facts)]
    parts += [_group(profile, *group) for group in _GROUPS]
    parts.append(_ceiling_section(profile, work, ceilings))
    if measured is not None:
        parts += memory_sections(report_of(measured))
    return document(title, f"refluid profile, {device}", parts)


def _group(profile: StepProfile, name: str, text: str, key: Callable[[Watched], str]) -> str:
    rows = profile.by(key)
    most = rows[0][1] if rows else 1.0
    total = sum(ms for _, ms, _ in rows) or 1.0
    shown: list[list[TableCell]] = [
        [
            label or "(unknown)",
            f"{ms:.4g}",
            f"{100 * ms / total:.1f} %",
            Share(ms / most if most else 0),
            f"{calls:g}",
        ]
        for label, ms, calls in rows[:_ROWS]
    ]
    if len(rows) > _ROWS:
        rest = sum(ms for _, ms, _ in rows[_ROWS:])
        label = f"{len(rows) - _ROWS} more"
        shown.append([label, f"{rest:.4g}", f"{100 * rest / total:.1f} %", "", ""])
    heads = [name, "ms a step", "share", "", "calls"]
    body = table(heads, shown, numbers="ms a step|share|calls", codes=name)
    return section(f"Time by {name}", text, body)


def _ceiling_section(
    profile: StepProfile, work: dict[tuple[str, str], OperatorWork], ceilings: Ceilings
) -> str:
    heads = ["operator", "result", "ms", "GFLOP", "moves", "GFLOP/s", "GB/s", "of ceiling", ""]
    heads += ["limit", "your line"]
    body = table(
        heads,
        _ceiling_rows(profile, work, ceilings),
        numbers="ms|GFLOP|moves|GFLOP/s|GB/s|of ceiling",
        codes="operator|result|your line",
    )
    text = (
        "The slowest operators against what the machine reaches here: the time of a perfect "
        "kernel, limited by arithmetic or by memory, over the time taken. Inputs that lie in a "
        "cache can be read faster than memory, which gives more than 100 %."
    )
    return section("How far from the machine's ceiling", text, body)


def _ceiling_rows(
    profile: StepProfile, work: dict[tuple[str, str], OperatorWork], ceilings: Ceilings
) -> Iterator[list[TableCell]]:
    for one in profile.slowest(_ROWS):
        done = work.get((one.watched.name, one.watched.result))
        if done is None or not one.ms:
            continue
        yield _ceiling_row(one, done, ceilings)


def _ceiling_row(one: Spent, done: OperatorWork, ceilings: Ceilings) -> list[TableCell]:
    seconds = one.ms * 1e-3
    share = ceilings.least_seconds(done.flops, done.moved) / seconds
    return [
        one.watched.name,
        one.watched.result,
        f"{one.ms:.4g}",
        f"{done.flops / 1e9:.3g}" if done.flops else "",
        size_text(done.moved),
        f"{done.flops / seconds / 1e9:,.0f}" if done.flops else "",
        f"{done.moved / seconds / 1e9:.3g}",
        f"{100 * share:.0f} %",
        Share(share),
        ceilings.bound(done.flops, done.moved),
        one.watched.line,
    ]
