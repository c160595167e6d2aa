"""Operators that move elements: shapes, parts, rows."""

from __future__ import annotations

from refluid.convert.rules.indices import shape_text
from refluid.convert.site import Site, short
from refluid.convert.table import converts


@converts("reshape", "reshape2")
def reshape(site: Site) -> None:
    if site.has("ShapeTensor"):
        count = range(len(site.names("ShapeTensor")))
        sizes = ", ".join(f"int({site.arg('ShapeTensor', place)})" for place in count)
        site.give(f"{site.x()}.reshape({sizes})")
        return
    if site.has("Shape"):
        site.give(f"{site.x()}.reshape({site.x('Shape')}.tolist())")
        return
    shape, before = [int(one) for one in site.attr("shape")], site.shape("X")
    if site.value("X").scalar and shape in ([1], [-1]):
        site.give(site.value("X").text, scalar=True)
        return
    if shape[:1] == [0] and shape[1:] == [-1]:
        site.give(f"{site.x()}.flatten(1)")
        return
    kept = [place for place, one in enumerate(shape) if one == 0]
    # The size of an unknown dimension that stays is not written down.
    if kept and -1 not in shape and len([one for one in kept if before[one] < 0]) == 1:
        shape = [-1 if not one and before[p] < 0 else one for p, one in enumerate(shape)]
    shape = [before[p] if not one and before[p] > 0 else one for p, one in enumerate(shape)]
    x = site.held() if 0 in shape else site.x()
    site.give(f"{x}.reshape({shape_text(shape, x)})")


@converts("transpose", "transpose2")
def transpose(site: Site) -> None:
    axes = [int(one) for one in site.attr("axis")]
    moved = [place for place, axis in enumerate(axes) if place != axis]
    if len(moved) == 2:
        site.give(f"{site.x()}.transpose({moved[0]}, {moved[1]})")
    else:
        site.give(f"{site.x()}.permute({', '.join(map(str, axes))})" if moved else site.x())


@converts("flatten", "flatten2")
def flatten(site: Site) -> None:
    axis, rank = site.attr("axis", 1), len(site.shape("X"))
    if axis == 1:
        site.give(f"{site.x()}.flatten(1)" if rank > 1 else f"{site.x()}[:, None]")
        return
    site.require(axis == rank - 1, "at an axis in between")
    site.give(f"{site.x()}.flatten(0, {axis - 1})")


@converts("squeeze", "squeeze2")
def squeeze(site: Site) -> None:
    axes, text = sorted(int(one) for one in site.attr("axes") or []), site.x()
    rank = len(site.shape("X"))
    axes = sorted(axis + rank if axis < 0 else axis for axis in axes)
    if not axes:
        axes = [place for place, size in enumerate(site.shape("X")) if size == 1]
    for axis in reversed(axes):
        text += f".squeeze({axis - rank if axis == rank - 1 else axis})"
    site.give(text)


@converts("unsqueeze", "unsqueeze2")
def unsqueeze(site: Site) -> None:
    text = site.x()
    site.require(not site.has("AxesTensor"), "its axes are computed")
    for axis in site.attr("axes"):
        text += f".unsqueeze({int(axis)})"
    site.give(text)


@converts("concat")
def concat(site: Site) -> None:
    site.require(not site.has("AxisTensor"), "its axis is computed")
    parts = ", ".join(site.arg("X", index) for index in range(len(site.names("X"))))
    site.give(f"torch.cat([{parts}], dim={site.attr('axis', 0)})")


@converts("stack")
def stack(site: Site) -> None:
    parts = ", ".join(site.arg("X", index) for index in range(len(site.names("X"))))
    site.give(f"torch.stack([{parts}], dim={site.attr('axis', 0)})", "Y")


@converts("split")
def split(site: Site) -> None:
    site.require(not site.has("AxisTensor"), "its axis is computed")
    sections, count = list(site.attr("sections") or []), len(site.op.output("Out"))
    outputs = [("Out", index) for index in range(count)]
    axis = site.attr("axis", 0)
    if sections and -1 not in sections:
        site.give_all(f"{site.x()}.split({[int(one) for one in sections]}, dim={axis})", outputs)
    else:
        site.require(not sections, "a part of unknown size")
        site.give_all(f"{site.x()}.chunk({count}, dim={axis})", outputs)


@converts("unstack")
def unstack(site: Site) -> None:
    outputs = [("Y", index) for index in range(len(site.op.output("Y")))]
    site.give_all(f"{site.x()}.unbind({site.attr('axis', 0)})", outputs)


@converts("slice")
def slices(site: Site) -> None:
    computed = ("StartsTensor", "EndsTensor", "StartsTensorList", "EndsTensorList")
    site.require(not any(site.has(slot) for slot in computed), "its bounds are computed")
    rank, gone = len(site.shape("Input")), set(site.attr("decrease_axis") or [])
    if rank == 1 and gone == {0}:
        gone = set()
    parts = [":"] * rank
    for axis, start, end in zip(
        site.attr("axes"), site.attr("starts"), site.attr("ends"), strict=True
    ):
        low = "" if start == 0 else str(start)
        high = "" if end >= 2**31 - 1 else str(end)
        parts[axis] = str(start) if axis in gone else f"{low}:{high}"
    while parts and parts[-1] == ":":
        parts.pop()
    site.give(f"{site.x('Input')}[{', '.join(parts)}]" if parts else site.x("Input"))


@converts("expand")
def expand(site: Site) -> None:
    site.require(not site.has("ExpandTimes"), "its times are computed")
    site.require(not site.has("expand_times_tensor"), "its times are computed")
    times = ", ".join(str(int(one)) for one in site.attr("expand_times"))
    site.give(f"{site.x()}.repeat({times})")


@converts("gather")
def gather(site: Site) -> None:
    index = f"{site.x('Index')}.flatten()" if len(site.shape("Index")) > 1 else site.x("Index")
    site.give(f"{site.x()}[{index}]")


@converts("gather_nd")
def gather_nd(site: Site) -> None:
    site.give(f"{site.x()}[{site.x('Index')}.unbind(-1)]")


@converts("reverse")
def reverse(site: Site) -> None:
    site.give(f"{site.x()}.flip({[int(one) for one in site.attr('axis')]})")


@converts("shape")
def shape(site: Site) -> None:
    x = site.held("Input")
    site.give(f"torch.tensor({x}.shape, dtype=torch.int32, device={x}.device)")


@converts("pad")
def pad(site: Site) -> None:
    ends = [int(one) for one in site.attr("paddings")]
    pairs = [ends[place : place + 2] for place in range(0, len(ends), 2)]
    while len(pairs) > 1 and pairs[0] == [0, 0]:
        pairs = pairs[1:]
    turned = tuple(one for low_high in reversed(pairs) for one in low_high)
    site.give(f"F.pad({site.arg()}, {turned}, value={short(site.attr('pad_value', 0.0))!r})")


@converts("pad2d")
def pad2d(site: Site) -> None:
    site.require(site.attr("data_format", "NCHW") == "NCHW", "channels last")
    top, bottom, left, right = (int(one) for one in site.attr("paddings"))
    mode = {"constant": "", "reflect": ', mode="reflect"', "edge": ', mode="replicate"'}
    value = short(site.attr("pad_value", 0.0))
    fill = f", value={value!r}" if site.attr("mode", "constant") == "constant" and value else ""
    sizes = (left, right, top, bottom)
    site.give(f"F.pad({site.arg()}, {sizes}{mode[site.attr('mode', 'constant')]}{fill})")


@converts("cumsum")
def cumsum(site: Site) -> None:
    axis = int(site.attr("axis", -1))
    before = site.attr("exclusive")
    x = site.held() if before else site.x()
    if site.attr("flatten"):
        x, axis = f"{x}.flatten()", 0
    turned = f".flip({axis})" if site.attr("reverse") else ""
    text = f"{x}{turned}.cumsum({axis}){turned}"
    site.give(f"{text} - {x}" if before else text, loose=bool(before))
