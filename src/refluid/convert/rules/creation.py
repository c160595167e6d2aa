"""Operators that make tensors: constants, shapes, random numbers."""

from __future__ import annotations

from refluid.convert.rules.calls import Template, calls
from refluid.convert.site import Site, short, torch_dtype
from refluid.convert.table import converts

calls(
    {
        "diag": Template("torch.diag({Diagonal})", lengths=""),
        "fill_zeros_like": "torch.zeros_like({X})",
        "where_index": Template("{Condition.x}.nonzero()", lengths=""),
    }
)


@converts("fill_constant")
def fill_constant(site: Site) -> None:
    site.require(not site.has("ValueTensor"), "its value is computed")
    kind = torch_dtype(site.attr("dtype"))
    number = site.attr("str_value") or site.attr("value", 0.0)
    value = short(float(number)) if "float" in kind else int(float(number))
    if site.has("ShapeTensor"):
        sizes_ = site.held("ShapeTensor")
        option = f", dtype={kind}, device={sizes_}.device"
        site.give(f"torch.full({sizes_}.tolist(), {value!r}{option})", lengths="")
        return
    if site.has("ShapeTensorList"):
        count = range(len(site.names("ShapeTensorList")))
        parts = ", ".join(f"int({site.arg('ShapeTensorList', place)})" for place in count)
        device = f"{site.x('ShapeTensorList')}.device"
        site.give(f"torch.full(({parts},), {value!r}, dtype={kind}, device={device})", lengths="")
        return
    sizes = [int(one) for one in site.attr("shape")]
    name = site.op.output("Out")[0]
    text = f"torch.full({tuple(sizes)}, {value!r}, dtype={kind})"
    site.give(site.writer.members.constant(name, text), lengths="")


@converts("assign_value")
def assign_value(site: Site) -> None:
    kind = torch_dtype(site.attr("dtype"))
    slots = ("fp32_values", "int32_values", "int64_values", "bool_values")
    numbers = next((list(site.attr(slot)) for slot in slots if site.attr(slot)), [])
    shape_ = [int(one) for one in site.attr("shape")]
    text = f"torch.tensor({[short(one) for one in numbers]}, dtype={kind})"
    text += f".reshape({shape_})" if len(shape_) != 1 else ""
    site.give(site.writer.members.constant(site.op.output("Out")[0], text), lengths="")


@converts("fill_constant_batch_size_like")
def like_batch(site: Site) -> None:
    kind, sizes = torch_dtype(site.attr("dtype")), [int(one) for one in site.attr("shape")]
    value = short(float(site.attr("str_value") or site.attr("value", 0.0)))
    x, place = site.held("Input"), site.attr("output_dim_idx", 0)
    texts = [str(one) for one in sizes]
    texts[place] = f"{x}.shape[{site.attr('input_dim_idx', 0)}]"
    like = "" if kind == "torch.float32" else f", dtype={kind}"
    site.give(f"{x}.new_full(({', '.join(texts)},), {value!r}{like})", lengths="")


@converts("one_hot", "one_hot_v2")
def one_hot(site: Site) -> None:
    site.require(not site.has("depth_tensor"), "its depth is computed")
    x = site.x()
    if site.op.type == "one_hot" and site.shape("X")[-1:] == (1,):
        x += ".squeeze(-1)"
    site.give(f"F.one_hot({x}, {site.attr('depth')}).float()")


_DEVICE = "next(self.parameters()).device"


def _drawn(site: Site, sizes: str, device: str) -> None:
    kind = torch_dtype(site.attr("dtype"))
    site.require(kind == "torch.float32", "of another type than float32")
    if site.op.type.startswith("uniform"):
        call, numbers = "uniform({}, {!r}, {!r}, {})", (site.attr("min"), site.attr("max"))
    else:
        call, numbers = "gaussian({}, {!r}, {!r}, {})", (site.attr("mean"), site.attr("std"))
    site.writer.done.draws.append(site.op.output("Out")[0])
    site.require(site.op.block.idx == 0, "in a loop or branch")
    site.give(call.format(sizes, *short(list(numbers)), device), lengths="")


@converts("uniform_random", "gaussian_random")
def random(site: Site) -> None:
    site.require(
        not site.has("ShapeTensor") and not site.has("ShapeTensorList"), "a computed shape"
    )
    site.require(not site.attr("diag_num"), "with a diagonal")
    _drawn(site, str(tuple(int(one) for one in site.attr("shape"))), _DEVICE)


@converts("uniform_random_batch_size_like", "gaussian_random_batch_size_like")
def random_like(site: Site) -> None:
    texts, x = [str(int(one)) for one in site.attr("shape")], site.held("Input")
    texts[site.attr("output_dim_idx")] = f"{x}.shape[{site.attr('input_dim_idx')}]"
    _drawn(site, f"({', '.join(texts)},)", f"{x}.device")


@converts("range")
def arange(site: Site) -> None:
    """A range of whole numbers or floats, of the type of its ends."""
    kind = str(torch_dtype(site.var("Start").dtype))
    ends = ", ".join(f"{site.x(slot)}.item()" for slot in ("Start", "End", "Step"))
    site.give(f"torch.arange({ends}, dtype={kind}, device={site.x('Start')}.device)", lengths="")
