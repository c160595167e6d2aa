"""The tables of docs/benchmarks.md, and the one on the terminal, from kept results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.suite.goals import goals_of
from benchmarks.suite.missed import missed_lines
from benchmarks.suite.results import best, ceiling_share, difference, newest, ours
from benchmarks.suite.rivals import DECLARATIVE, DYGRAPH, EAGER, FLOAT32, RIVALS
from benchmarks.suite.workloads import WORKLOADS

Result = Mapping[str, Any]
PEERS = ("eager", DYGRAPH, DECLARATIVE, "compile", "paddle3", "paddle2", "jax", FLOAT32)
# bfloat16 keeps 8 bits, and a step rounds thousands of times.
HALF_TOLERANCE = 3e-2
MIB = 2**20


def milliseconds(seconds: float) -> str:
    digits = 3 if seconds < 1e-3 else 2 if seconds < 1e-2 else 1 if seconds < 1e-1 else 0
    return f"{seconds * 1e3:,.{digits}f}"


def ratio_cell(result: Result, name: str, peer: str) -> str:
    entry = best(result, peer)
    if entry is None:
        return "fails" if peer in result["failed"] else "–"
    found = entry["ratio"]
    text = f"{found['value']:.2f} ({found['low']:.2f}–{found['high']:.2f})"
    if not agrees(result, name, peer):
        text += ", other losses"
    goal = goals_of(name, result.get("half", "")).get(peer)
    return text if goal is None else f"{text} {'✓' if found['value'] >= goal else '✗'}"


def summary(result: Result, name: str) -> str:
    """One line while others are still measured."""
    cells = {RIVALS[peer].title: ratio_cell(result, name, peer) for peer in PEERS}
    ratios = ", ".join(f"{title} {cell}" for title, cell in cells.items() if cell != "–")
    return f"{milliseconds(ours(result)['median'])} ms; {ratios}"


def table(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def shown(results: Mapping[str, Result]) -> list[str]:
    """The peers that were measured somewhere."""
    there = {peer for result in results.values() for peer in (*result["peers"], *result["failed"])}
    return [peer for peer in PEERS if peer in there]


def speed_rows(results: Mapping[str, Result]) -> list[list[str]]:
    peers = shown(results)
    titles = [RIVALS[peer].title for peer in peers]
    rows = [["workload", "refluid ms", "tier", "samples/s", "of ceiling", *titles]]
    for name, result in results.items():
        median = ours(result)["median"]
        share = ceiling_share(result)
        rows.append(
            [
                result["title"],
                milliseconds(median),
                newest(result)["tier"],
                f"{result['batch'] / median:,.0f}",
                f"{share:.0%}" if share >= 0.005 else "–",
                *(ratio_cell(result, name, peer) for peer in peers),
            ]
        )
    return rows


def memory_rows(results: Mapping[str, Result]) -> list[list[str]]:
    peers = shown(results)
    titles = ["refluid", *(RIVALS[peer].title for peer in peers)]
    rows = [["workload", *titles]]
    for result in results.values():
        entries = [ours(result), *(_theirs(result, peer) for peer in peers)]
        rows.append([result["title"], *(_resources(entry) for entry in entries)])
    return rows


def _theirs(result: Result, peer: str) -> Mapping[str, Any] | None:
    entry = best(result, peer)
    return None if entry is None else entry["theirs"]


def _resources(measured: Mapping[str, Any] | None) -> str:
    if measured is None:
        return "–"
    return f"{measured['peak'] / MIB:,.0f} MiB, {measured['first_step']:.2f} s"


def agrees(result: Result, name: str, peer: str) -> bool:
    """Losses within the bound, and apart by far less than training moved them.

    But none has to be nearer than PyTorch's own variants are to each other.
    """
    entry = result["peers"][peer]
    far = entry["difference"] > max(entry["moved"] / 4, own_spread(result))
    return bool(entry["difference"] <= allowed(result, name, peer)) and not far


def allowed(result: Result, name: str, peer: str) -> float:
    """The workload's bound, or what PyTorch's own variants differ by, if that is more."""
    work = WORKLOADS[name]
    factor = 10 if peer in work.other_formula else 1
    half = HALF_TOLERANCE if result.get("half") else 0.0
    return max(factor * work.tolerance, half, own_spread(result))


def own_spread(result: Result) -> float:
    """Twice what the losses of PyTorch's variants differ by; 0 where there is one alone.

    Those that are as far from each other as a quarter of what training moves say nothing of
    rounding: one of them computes something else.
    """
    plain = result["peers"].get(EAGER)
    if plain is None:
        return 0.0
    others = [result["peers"].get(variant) for variant in ("channels_last", "compile")]
    losses = [other["theirs"]["losses"] for other in others if other]
    apart = [difference(one, plain["theirs"]["losses"]) for one in losses]
    return max((2 * far for far in apart if far <= plain["moved"] / 4), default=0.0)


def loss_lines(results: Mapping[str, Result]) -> list[str]:
    lines = []
    for name, result in results.items():
        peers = result["peers"]
        moved = max(entry["moved"] for entry in peers.values())
        found = [
            f"{peer} {entry['difference']:.0e}"
            + ("" if agrees(result, name, peer) else f" (OVER {allowed(result, name, peer):.0e})")
            for peer, entry in peers.items()
        ]
        lines.append(
            f"- {result['title']}: {', '.join(found)}; allowed {allowed(result, name, EAGER):.0e} "
            f"({WORKLOADS[name].reason}); training moved it by {moved:.0e}."
        )
    return lines


def failure_lines(results: Mapping[str, Result]) -> list[str]:
    return [
        f"- {result['title']}, {RIVALS[peer].title}: {why}"
        for result in results.values()
        for peer, why in result["failed"].items()
    ]


def fact_lines(results: Mapping[str, Result]) -> list[str]:
    """Machine and versions; a workload measured elsewhere or otherwise gets a line of its own."""
    lines: dict[str, list[str]] = {}
    for name, result in results.items():
        for entry in result["peers"].values():
            facts = {k: v for k, v in entry["facts"].items() if k != "time"}
            versions = entry["theirs"]["versions"] | facts
            for key, value in versions.items():
                names = lines.setdefault(f"{key} {value}", [])
                if name not in names:
                    names.append(name)
    everywhere = [fact for fact, names in lines.items() if len(names) == len(results)]
    here = [
        f"{fact} ({', '.join(names)})" for fact, names in lines.items() if fact not in everywhere
    ]
    return ["Measured with " + ", ".join(everywhere) + ".", "; ".join(here)]


def markdown(results: Mapping[str, Result], picture: str | None) -> str:
    """The section of the page. `picture` is a path from the page's folder."""
    parts = [
        "Peers' step time over refluid's (above 1, refluid is faster), with the lowest and highest "
        "of the rounds; ✓ and ✗: the goal is met or missed. refluid's median step in milliseconds, "
        "by its faster tier; its arithmetic as a share of the matrix ceiling measured in the same "
        "run.",
        table(speed_rows(results)),
    ]
    if picture:
        parts.append(f"![Step time of peers over refluid's]({picture})")
    if lines := missed_lines(results):
        parts += [
            "Goals that are missed, and where the time of a step goes, by PyTorch operator:",
            "\n".join(lines),
        ]
    parts += [
        "Peak memory (beyond what the process held after its imports) and time of the first step:",
        table(memory_rows(results)),
        "Equal arithmetic: how far the losses of four steps on one batch, from the same weights, "
        "differ from each peer's, relatively.",
        "\n".join(loss_lines(results)),
    ]
    if failures := failure_lines(results):
        parts += ["What doesn't run:", "\n".join(failures)]
    return "\n\n".join([*parts, *filter(None, fact_lines(results))])
