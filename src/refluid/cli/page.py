"""Pieces of the self-contained pages that refluid writes: tables with bars, and curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from refluid.fluid.contrib.memory_report import size_text

_STYLE = """
:root { --paper: #fff; --ink: #1a1d21; --quiet: #667080; --line: #e3e6ea; --bar: #3b6fb6;
  --wash: #f3f5f8; --soft: #dbe6f5; --alarm: #b5452c; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e8eaed; --quiet: #9aa3af;
  --line: #2c3239; --wash: #1c2127; --bar: #7aa7e6; --soft: #24364f; --alarm: #e58f79; } }
body { background: var(--paper); color: var(--ink); margin: 2rem auto; max-width: 72rem;
  padding: 0 1.5rem; font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .4rem; }
p { color: var(--quiet); margin: .2rem 0 .8rem; max-width: 60rem; }
.tiles { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; margin: 1.2rem 0; }
.tiles b { display: block; font-size: 1.35rem; font-weight: 600; }
.tiles span { color: var(--quiet); font-size: .85rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { color: var(--quiet); font-weight: 500; font-size: .85rem; text-align: left; }
th, td { padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.code { font-family: ui-monospace, monospace; font-size: .85rem; overflow-wrap: anywhere;
  white-space: pre-wrap; }
pre { font: .85rem/1.5 ui-monospace, monospace; background: var(--wash); padding: .6rem .8rem;
  border-radius: 6px; margin: .5rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.bar { background: var(--soft); height: .7rem; margin-top: .4rem; min-width: 7rem; }
.bar i { background: var(--bar); display: block; height: 100%; }
.spread { position: relative; background: var(--wash); height: 1.1rem; margin-top: .2rem;
  min-width: 9rem; } .spread i { position: absolute; background: var(--bar); opacity: .55;
  height: 100%; } .spread u { position: absolute; top: .46rem; height: .18rem;
  background: var(--ink); border-radius: 2px; }
.card { border-left: 3px solid var(--bar); padding: .1rem 0 .1rem 1rem; margin: 1rem 0; }
.card h3 { font-size: 1rem; margin: 0; } .card p { margin: .15rem 0; }
.card .do { color: var(--ink); }
.plot { display: grid; grid-template-columns: auto 1fr; gap: .2rem .6rem; color: var(--quiet);
  font-size: .85rem; } .plot .sides { display: flex; flex-direction: column;
  justify-content: space-between; text-align: right; } .plot .foot { grid-column: 2;
  display: flex; justify-content: space-between; } .plot svg { height: 11rem; display: block;
  border-left: 1px solid var(--line); border-bottom: 1px solid var(--line); }
.plot polyline { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; }
.before { stroke: var(--bar); } .after { stroke: var(--alarm); stroke-dasharray: 6 4; }
.key { display: inline-block; width: 1.6rem; border-top: 2px solid var(--bar);
  vertical-align: middle; margin-right: .4rem; } .key.dashed { border-top: 2px dashed var(--alarm);
  margin-left: 1.2rem; }
@media (max-width: 40rem) { body { padding: 0 .8rem; }
  .stacks tr:first-child { display: none; }
  .stacks tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--line); }
  .stacks td, .stacks td.number { display: block; border: 0; padding: 0; text-align: left; }
  .stacks td:empty { display: none; } .stacks td.code { white-space: pre-wrap; }
  .stacks td::before { content: attr(data-name) " "; color: var(--quiet); font-size: .85rem;
    font-family: system-ui, sans-serif; } }
svg { width: 100%; height: auto; } svg text { fill: var(--quiet); font-size: 11px; }
.area { fill: var(--soft); stroke: var(--bar); stroke-width: 1.5; }
.rule { stroke: var(--line); } .mark { stroke: var(--alarm); stroke-dasharray: 3 3; }
"""
_WIDTH, _HEIGHT, _LEFT, _TOP = 960, 240, 70, 16


@dataclass(frozen=True)
class Share:
    """A cell drawn as a bar: part of a whole, 0 to 1."""

    part: float


@dataclass(frozen=True)
class Spread:
    """A cell drawn as a bar with the range that it may have; 0 to 1."""

    part: float
    low: float
    high: float


TableCell = str | Share | Spread


def document(title: str, subtitle: str, parts: Iterable[str]) -> str:
    """A whole page."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>"
        f"<h1>{escape(title)}</h1><p>{escape(subtitle)}</p>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def section(title: str, explanation: str, *parts: str) -> str:
    """A heading, what it shows, and its contents."""
    return f"<h2>{escape(title)}</h2><p>{escape(explanation)}</p>" + "".join(parts)


def tiles(facts: Iterable[tuple[str, str]]) -> str:
    """(figure, what it is) side by side."""
    shown = "".join(f"<div><b>{escape(v)}</b><span>{escape(k)}</span></div>" for v, k in facts)
    return f'<div class="tiles">{shown}</div>'


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[TableCell]],
    numbers: str = "",
    codes: str = "",
    *,
    stacks: bool = False,
) -> str:
    """A table. `numbers`, `codes`: names of the columns that hold figures, or source.

    On a narrow screen one with source, or that `stacks`, shows a row's cells below one another.
    """
    kinds = dict.fromkeys(numbers.split("|"), "number") | dict.fromkeys(codes.split("|"), "code")
    classes = [f' class="{kinds[head]}"' if head and head in kinds else "" for head in heads]
    top = "".join(f"<th{c}>{escape(h)}</th>" for h, c in zip(heads, classes, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            f'<td{c} data-name="{escape(h)}">{_cell(v)}</td>'
            for v, c, h in zip(row, classes, heads, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    kind = ' class="stacks"' if codes or stacks else ""
    return f'<div class="wide"><table{kind}><tr>{top}</tr>{body}</table></div>'


def _cell(value: TableCell) -> str:
    if isinstance(value, Share):
        width = 100 * min(1.0, max(0.0, value.part))
        return f'<div class="bar"><i style="width:{width:.1f}%"></i></div>'
    if isinstance(value, Spread):
        left, width = 100 * value.low, 100 * (value.high - value.low)
        return (
            f'<div class="spread"><i style="width:{100 * value.part:.1f}%"></i>'
            f'<u style="left:{left:.1f}%;width:{width:.1f}%"></u></div>'
        )
    return escape(value)


def card(title: str, text: str, lines: Sequence[str], advice: str) -> str:
    """One thing that somebody can do: what it is, where, what to do."""
    where = f"<pre>{escape(chr(10).join(lines))}</pre>" if lines else ""
    return (
        f'<div class="card"><h3>{escape(title)}</h3><p>{escape(text)}</p>{where}'
        f'<p class="do">{escape(advice)}</p></div>'
    )


def two_curves(before: Sequence[float], after: Sequence[float]) -> str:
    """Both over the same axes, without what isn't finite."""
    finite = [one for one in (*before, *after) if math.isfinite(one)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    span, most = (high - low) or 1.0, max(len(before), len(after))
    lines = ""
    for name, values in (("before", before), ("after", after)):
        points = " ".join(
            f"{1000 * number / max(1, most - 1):.1f},{95 - 90 * (one - low) / span:.2f}"
            for number, one in enumerate(values)
            if math.isfinite(one)
        )
        lines += f'<polyline class="{name}" points="{points}"/>'
    return (
        f'<p><span class="key"></span>before<span class="key dashed"></span>after</p>'
        f'<div class="plot"><div class="sides"><span>{high:.4g}</span><span>{low:.4g}</span></div>'
        f'<svg viewBox="0 0 1000 100" preserveAspectRatio="none" role="img" '
        f'aria-label="losses before and after">{lines}</svg><div class="foot"><span>step 1</span>'
        f"<span>step {most}</span></div></div>"
    )


def curve(values: Sequence[int], names: Sequence[str], mark: int) -> str:
    """A curve of bytes over the operators `names`, as steps; `mark` is the place of its peak."""
    top = max(values, default=0) or 1
    inner, floor = _WIDTH - _LEFT, _HEIGHT - 24

    def across(place: int) -> float:
        return _LEFT + inner * place / max(1, len(values))

    def up(value: float) -> float:
        return floor - (floor - _TOP) * value / top

    points = [f"{across(0):.1f},{floor}"]
    for place, value in enumerate(values):
        points += [
            f"{across(place):.1f},{up(value):.1f}",
            f"{across(place + 1):.1f},{up(value):.1f}",
        ]
    points.append(f"{across(len(values)):.1f},{floor}")
    rules = "".join(
        f'<line class="rule" x1="{_LEFT}" x2="{_WIDTH}" y1="{up(top * k / 4):.1f}" '
        f'y2="{up(top * k / 4):.1f}"/><text x="{_LEFT - 8}" y="{up(top * k / 4) + 4:.1f}" '
        f'text-anchor="end">{size_text(top * k / 4)}</text>'
        for k in range(5)
    )
    x = across(mark)
    anchor = "end" if x > _WIDTH / 2 else "start"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="memory over one step">'
        f'{rules}<polygon class="area" points="{" ".join(points)}"/>'
        f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{floor}"/>'
        f'<text x="{x:.1f}" y="{_HEIGHT - 8}" text-anchor="{anchor}">peak: '
        f"{escape(names[mark] if names else '')}</text></svg>"
    )
