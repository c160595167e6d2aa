"""The page of `refluid run --memory`: memory over one step, and what holds it at the peak."""

from __future__ import annotations

from refluid.cli.page import curve, document, section, table, tiles
from refluid.fluid.contrib.memory_report import MemoryReport, size_text


def memory_page(title: str, report: MemoryReport) -> str:
    """The page as HTML."""
    return document(title, "refluid: memory of one step", memory_sections(report))


def memory_sections(report: MemoryReport) -> list[str]:
    """The figures, the curve and the largest tensors."""
    sizes = [size for _, size in report.curve]
    names = [name for name, _ in report.curve]
    peak = sizes.index(report.peak) if sizes else 0
    facts = [
        (size_text(report.peak), f"measured peak, in {report.peak_operator or 'the first'}"),
        (size_text(report.planned.peak), f"planned peak, in {report.planned.operator}"),
        (size_text(report.state), "parameters and other state"),
    ]
    rows = [
        [
            size_text(one.size),
            f"{100 * one.size / max(1, report.peak):.1f} %",
            one.name,
            f"{one.dtype}{list(one.shape)}",
            one.maker,
            one.line,
        ]
        for one in report.largest
    ]
    heads = ["size", "of peak", "tensor", "shape", "made by", "your line"]
    listed = table(heads, rows, numbers="size|of peak", codes="tensor|shape|made by|your line")
    return [
        section(
            "Memory over one step",
            "Bytes held after every kernel, from the first operator to the last.",
            tiles(facts),
            curve(sizes, names, peak),
        ),
        section(
            "Largest tensors at the peak",
            f"{len(report.largest)} of the {report.held_at_peak} that were held.",
            listed,
        ),
    ]
