"""Operators on sequences: rows one sequence behind the other, and a tensor of their lengths."""

from __future__ import annotations

from refluid.convert.site import Site, Weight, turned
from refluid.convert.table import converts

_POOLS = {"SUM": "sum", "AVERAGE": "mean", "MAX": "max"}


@converts("sequence_pool")
def sequence_pool(site: Site) -> None:
    kind, lengths = site.attr("pooltype", "AVERAGE"), site.lengths()
    site.require(not site.attr("pad_value"), "empty sequences that become something else than 0")
    if kind in _POOLS:
        text = f'torch.segment_reduce({site.arg()}, "{_POOLS[kind]}", lengths={lengths})'
        site.give(text, lengths="")
    elif kind == "SQRT":
        text = f'torch.segment_reduce({site.arg()}, "sum", lengths={lengths})'
        site.give(f"{text} / {lengths}.sqrt()[:, None]", loose=True, lengths="")
    elif kind == "LAST":
        site.give(f"{site.x()}[{lengths}.cumsum(0) - 1]", lengths="")
    else:
        site.require(kind == "FIRST", f"pooltype {kind}")
        site.give(f"{site.x()}[{lengths}.cumsum(0) - {lengths}]", lengths="")


@converts("sequence_softmax")
def sequence_softmax(site: Site) -> None:
    parts = f"{site.x()}.split({site.lengths()}.tolist())"
    site.give(f"torch.cat([F.softmax(part, dim=0) for part in {parts}])")


@converts("sequence_conv")
def sequence_conv(site: Site) -> None:
    """Each row's context as columns: those of the sequences padded at both ends."""
    site.require(not site.attr("paddingTrainable"), "padding that is trained")
    site.require(site.attr("contextStride", 1) == 1, "a stride")
    site.require(site.is_parameter("Filter"), "its filter is computed")
    count, start = site.attr("contextLength"), site.attr("contextStart", 0)
    width = site.shape("X")[-1]
    before, after = -start, count - 1 + start
    site.require(before >= 0 and after >= 0, "a context that begins behind its row")
    inputs, outputs = site.writer.source.values[site.name("Filter")].shape
    maker = f"nn.Linear({inputs}, {outputs}, bias=False)"
    module = site.module(maker, {"weight": Weight(site.name("Filter"), turned)})
    # unfold gives (rows, width, count); the filter's rows are those of one place after the other.
    windows = f"F.pad(part, (0, 0, {before}, {after})).unfold(0, {count}, 1).mT"
    parts = f"{site.x()}.split({site.lengths()}.tolist())"
    rows = f"torch.cat([{windows} for part in {parts}]).reshape(-1, {count * width})"
    site.give(f"{module}({rows})")


@converts("sequence_unpad")
def sequence_unpad(site: Site) -> None:
    length = f"{site.x('Length')}.flatten()"
    rows = f"zip({site.x()}, {length}.tolist())"
    site.give(f"torch.cat([row[:size] for row, size in {rows}])", lengths=length)
