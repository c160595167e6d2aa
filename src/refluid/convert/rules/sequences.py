"""Operators on sequences: rows one sequence behind the other, and a tensor of their lengths."""

from __future__ import annotations

import itertools

from refluid.convert.rules.calls import Template, calls, filled
from refluid.convert.site import Site, torch_dtype
from refluid.convert.table import converts
from refluid.convert.weights import Weight

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


@converts("sequence_conv")
def sequence_conv(site: Site) -> None:
    """Each row's context as columns, and a layer on them."""
    site.require(not site.attr("paddingTrainable"), "padding that is trained")
    site.require(site.attr("contextStride", 1) == 1, "a stride")
    site.require(site.is_parameter("Filter"), "its filter is computed")
    rows = filled(site, "sequence_windows({X}, {X.lengths}, {contextLength}, {contextStart})")
    inputs, outputs = site.writer.source.values[site.name("Filter")].shape
    maker = f"nn.Linear({inputs}, {outputs}, bias=False)"
    module = site.module(maker, {"weight": Weight(site.name("Filter"), turned=True)})
    site.give(f"{module}({rows})")


@converts("sequence_unpad")
def sequence_unpad(site: Site) -> None:
    length = site.writer.kept(f"{site.x('Length')}.flatten()")
    text = f"unpadded({site.arg()}, {length})"
    flat = len(site.shape("X")) == 2
    site.give(f"{text}.unsqueeze(1)" if flat else text, lengths=length)


@converts("sequence_pad")
def sequence_pad(site: Site) -> None:
    value = "{PadValue}"
    if site.writer.source.constant_of(site.name("PadValue")) == 0.0:
        value = ""
    longest = int(site.attr("padded_length", -1))
    option = f", {value}" if value else ""
    option += f", longest={longest}" if longest > 0 else ""
    site.give(filled(site, f"padded({{X}}, {{X.lengths}}{option})"), lengths="")
    site.give(site.lengths(), "Length", lengths="")


@converts("sequence_expand")
def sequence_expand(site: Site) -> None:
    _require_plain(site, "Y")
    times, own = site.lengths("Y"), site.value("X").lengths
    if not own:
        site.give(f"{site.x()}.repeat_interleave({times}, dim=0)", lengths="")
        return
    text = filled(site, f"repeat_sequences({{X}}, {{X.lengths}}, {times})")
    site.give(text, lengths=f"{own}.repeat_interleave({times})")


@converts("sequence_expand_as")
def sequence_expand_as(site: Site) -> None:
    times = site.lengths("Y")
    site.give(f"{site.x()}.repeat_interleave({times}, dim=0)", lengths=times)


@converts("sequence_reshape")
def sequence_reshape(site: Site) -> None:
    width, new = site.shape("X")[-1], int(site.attr("new_dim"))
    lengths = site.lengths()
    changed = f"{lengths} * {width // new}" if width % new == 0 else f"{lengths} * {width} // {new}"
    site.give(f"{site.x()}.reshape(-1, {new})", lengths=lengths if width == new else changed)


@converts("sequence_mask")
def sequence_mask(site: Site) -> None:
    x, kind = site.held(), torch_dtype(site.attr("out_dtype"))
    longest = int(site.attr("maxlen", -1))
    size = str(longest) if longest > 0 else f"int({x}.max())"
    if site.has("MaxLenTensor"):
        size = f"int({site.arg('MaxLenTensor')})"
    mask = f"torch.arange({size}, device={x}.device) < {x}.unsqueeze(-1)"
    site.give(f"({mask}).to({kind})", "Y", lengths="")


@converts("lod_reset")
def lod_reset(site: Site) -> None:
    site.require(not site.attr("append"), "a level that is added")
    if site.has("Y"):
        lengths = site.value("Y").lengths or f"{site.x('Y')}.diff()"
    else:
        ends = [int(one) for one in site.attr("target_lod")]
        sizes = [end - start for start, end in itertools.pairwise(ends)]
        lengths = site.writer.members.constant("lengths", f"torch.tensor({sizes})")
    value = site.value("X")
    site.give(value.text, loose=value.loose, scalar=value.scalar, lengths=lengths)


@converts("sequence_concat")
def sequence_concat(site: Site) -> None:
    count = range(len(site.names("X")))
    total = " + ".join(site.lengths("X", place) for place in count)
    site.give(filled(site, "concatenated_sequences({X.all}, {X.all_lengths})"), lengths=total)


@converts("sequence_slice")
def sequence_slice(site: Site) -> None:
    text = filled(site, "sequence_slices({X}, {X.lengths}, {Offset}, {Length})")
    site.give(text, lengths=f"{site.x('Length')}.flatten()")


def _require_plain(site: Site, slot: str) -> None:
    site.require(site.var(slot).lod_level <= 1, "nested sequences")


calls(
    {
        "sequence_reverse": Template("reverse_sequences({X}, {X.lengths})", "Y"),
        "sequence_softmax": "sequence_softmax({X}, {X.lengths})",
    }
)
