"""Operators with parameters: the submodules of torch.nn."""

from __future__ import annotations

from refluid.convert.site import Site
from refluid.convert.table import converts
from refluid.convert.weights import Weight


def _bias(site: Site, weights: dict[str, Weight], slot: str = "Bias") -> str:
    """The argument that says whether there is a bias, which is put among the weights."""
    name = site.writer.biases.of.get(id(site.op))
    if name is None and site.is_parameter(slot):
        name = site.name(slot)
    if name is None:
        return ", bias=False"
    weights["bias"] = Weight(name)
    return ""


def pair(sizes: object) -> str:
    """Two equal sizes as one number."""
    found = [int(one) for one in sizes]  # type: ignore[attr-defined]
    return str(found[0]) if len(set(found)) == 1 else f"({', '.join(map(str, found))})"


@converts("mul")
def mul(site: Site) -> None:
    x_rank, columns = len(site.shape("X")), site.attr("x_num_col_dims", 1)
    y_columns = site.attr("y_num_col_dims", 1)
    flat = columns != x_rank - 1
    x = f"{site.x()}.flatten({columns})" if flat else site.arg()
    linear = site.is_parameter("Y") and len(site.shape("Y")) == 2 and y_columns == 1
    if not linear or _is_read_otherwise(site):
        site.require(len(site.shape("Y")) == 2 and y_columns == 1, "its right side is no matrix")
        site.give(f"{x if flat else site.x()} @ {site.x('Y')}{_added(site)}", loose=True)
        return
    inputs, outputs = site.writer.source.values[site.name("Y")].shape
    weights = {"weight": Weight(site.name("Y"), turned=True)}
    maker = f"nn.Linear({inputs}, {outputs}{_bias(site, weights)})"
    site.give(f"{site.module(maker, weights)}({x})")


@converts("matmul")
def matmul(site: Site) -> None:
    alpha, turned_x = site.attr("alpha", 1.0), site.attr("transpose_X")
    shape = site.shape("Y")
    plain = len(shape) == 2 and not turned_x and alpha == 1.0 and not site.attr("transpose_Y")
    own = site.is_parameter("Y") and not _is_read_otherwise(site)
    if plain and own and len(site.shape("X")) >= 2:
        weights = {"weight": Weight(site.name("Y"), turned=True)}
        maker = f"nn.Linear({shape[0]}, {shape[1]}{_bias(site, weights)})"
        site.give(f"{site.module(maker, weights)}({site.arg('X')})")
        return
    x = f"{site.x('X')}.mT" if turned_x and len(site.shape("X")) > 1 else site.x("X")
    y = f"{site.x('Y')}.mT" if site.attr("transpose_Y") and len(shape) > 1 else site.x("Y")
    both = len(site.shape("X")) == 1 and len(shape) == 1
    factor = f" * {alpha!r}" if alpha != 1.0 else ""
    site.give(f"{x} @ {y}{factor}{_added(site)}", loose=True, scalar=both)


def _added(site: Site) -> str:
    """The bias that was joined with a product that became no layer."""
    name = site.writer.biases.of.get(id(site.op))
    return f" + {site.writer.value(name).text}" if name is not None else ""


def _is_read_otherwise(site: Site) -> bool:
    """Whether the right side is something else than a layer's weight too: then it isn't turned."""
    name, products = site.name("Y"), ("mul", "matmul")
    others = (op for op in site.writer.source.every_op() if name in op.input_arg_names)
    return name in site.writer.done.homes or any(
        op.type not in products or op.attrs.get("transpose_Y") for op in others
    )


_CONVOLUTIONS = {
    "conv2d": "nn.Conv2d",
    "depthwise_conv2d": "nn.Conv2d",
    "conv3d": "nn.Conv3d",
    "conv2d_transpose": "nn.ConvTranspose2d",
    "depthwise_conv2d_transpose": "nn.ConvTranspose2d",
}


@converts(*_CONVOLUTIONS)
def convolution(site: Site) -> None:
    site.require(site.is_parameter("Filter"), "its filter is computed")
    transposed, last = site.op.type.endswith("transpose"), site.attr("data_format") == "NHWC"
    shape = tuple(site.writer.source.values[site.name("Filter")].shape)
    groups, dims = site.attr("groups", 1) or 1, len(shape) - 2
    strides = list(site.attr("strides", [1] * dims))
    dilations = list(site.attr("dilations", [1] * dims))
    before, paddings = _paddings(site, strides, shape[2:])
    inputs, outputs = (shape[0], shape[1] * groups) if transposed else (shape[1] * groups, shape[0])
    options = "".join(
        f", {name}={pair(sizes)}"
        for name, sizes, usual in (
            ("stride", strides, 1),
            ("padding", paddings, 0),
            ("dilation", dilations, 1),
        )
        if any(one != usual for one in sizes)
    )
    options += f", groups={groups}" if groups != 1 else ""
    weights = {"weight": Weight(site.name("Filter"))}
    bias = _bias(site, weights)
    maker = f"{_CONVOLUTIONS[site.op.type]}({inputs}, {outputs}, {pair(shape[2:])}{options}{bias})"
    x = channels_first(site.x("Input"), last) if last else site.arg("Input")
    x = f"F.pad({x}, {before})" if before else x
    size = _wanted_size(site) if transposed else ""
    site.give(channels_last(f"{site.module(maker, weights)}({x}{size})", last), "Output")


def _wanted_size(site: Site) -> str:
    """The argument that asks for a size, where the operator does."""
    size = [int(one) for one in site.attr("output_size") or []]
    return f", output_size={size}" if size else ""


def channels_first(x: str, last: bool) -> str:
    """The images with their channels second."""
    return f"{x}.permute(0, 3, 1, 2)" if last else x


def channels_last(x: str, last: bool) -> str:
    """The images with their channels where they were."""
    return f"{x}.permute(0, 2, 3, 1)" if last else x


def _paddings(site: Site, strides: list[int], sizes: tuple[int, ...]) -> tuple[str, list[int]]:
    """What is padded before, as `F.pad` has it, and the padding of the layer."""
    algorithm, given = site.attr("padding_algorithm", "EXPLICIT"), list(site.attr("paddings", [0]))
    dims = len(sizes)
    if algorithm == "VALID":
        return "", [0] * dims
    if algorithm == "SAME":
        odd = all(one == 1 for one in strides) and all(size % 2 for size in sizes)
        site.require(odd, "padding SAME with strides or an even filter")
        return "", [(size - 1) // 2 for size in sizes]
    if len(given) == dims:
        return "", given
    pairs = [given[2 * place : 2 * place + 2] for place in range(dims)]
    if all(low == high for low, high in pairs):
        return "", [low for low, _ in pairs]
    site.require(not site.op.type.endswith("transpose"), "paddings that differ at the ends")
    return str(tuple(one for low_high in reversed(pairs) for one in low_high)), [0] * dims


@converts("batch_norm", "sync_batch_norm")
def batch_norm(site: Site) -> None:
    rank, channels = len(site.shape("X")), site.writer.source.values[site.name("Scale")].shape[0]
    last = site.attr("data_layout") == "NHWC" and rank == 4
    dims = {2: 1, 3: 1, 4: 2, 5: 3}.get(rank)
    site.require(dims is not None, f"an input of {rank} dimensions")
    momentum = round(1.0 - site.attr("momentum", 0.9), 7)
    options = f", eps={site.attr('epsilon', 1e-5):.7g}, momentum={momentum:g}"
    weights = {
        "weight": Weight(site.name("Scale")),
        "bias": Weight(site.name("Bias")),
        "running_mean": Weight(site.name("Mean")),
        "running_var": Weight(site.name("Variance")),
    }
    module = site.module(f"nn.BatchNorm{dims}d({channels}{options})", weights)
    call = f"{module}({channels_first(site.arg(), last)})"
    if site.attr("use_global_stats") and not site.attr("is_test"):
        names = ("running_mean", "running_var", "weight", "bias")
        given = ", ".join(f"{module}.{name}" for name in names)
        call = f"F.batch_norm({channels_first(site.arg(), last)}, {given}, eps={module}.eps)"
    site.give(channels_last(call, last), "Y")


@converts("layer_norm")
def layer_norm(site: Site) -> None:
    begin = site.attr("begin_norm_axis", 1)
    sizes = site.shape("X")[begin:]
    site.require(all(size > 0 for size in sizes), "normalised dimensions of unknown size")
    shape = str(sizes[0]) if len(sizes) == 1 else str(tuple(sizes))
    weights = {}
    for slot, name in (("Scale", "weight"), ("Bias", "bias")):
        if site.has(slot):
            weights[name] = Weight(site.name(slot), shape=None if len(sizes) == 1 else tuple(sizes))
    epsilon = f"eps={site.attr('epsilon', 1e-5):.7g}"
    if "weight" not in weights:
        call = f"F.layer_norm({site.arg()}, {list(sizes)}, {epsilon})"
        bias = f" + {site.x('Bias')}.view({list(sizes)})" if weights else ""
        site.give(call + bias, "Y", loose=bool(bias))
        return
    bias = "" if "bias" in weights else ", bias=False"
    maker = f"nn.LayerNorm({shape}, {epsilon}{bias})"
    site.give(f"{site.module(maker, weights)}({site.arg()})", "Y")


@converts("group_norm")
def group_norm(site: Site) -> None:
    site.require(site.has("Scale") and site.has("Bias"), "without scale or bias")
    site.require(site.attr("data_layout", "NCHW") == "NCHW", "channels last")
    groups, channels = site.attr("groups"), site.shape("X")[1]
    site.require(channels % groups == 0, "of uneven groups")
    weights = {"weight": Weight(site.name("Scale")), "bias": Weight(site.name("Bias"))}
    epsilon = f"eps={site.attr('epsilon', 1e-5):.7g}"
    maker = f"nn.GroupNorm({groups}, {channels}, {epsilon})"
    site.give(f"{site.module(maker, weights)}({site.arg()})", "Y")


@converts("instance_norm")
def instance_norm(site: Site) -> None:
    site.require(site.has("Scale") and site.has("Bias"), "without scale or bias")
    site.require(len(site.shape("X")) == 4, "of other inputs than images")
    weights = {"weight": Weight(site.name("Scale")), "bias": Weight(site.name("Bias"))}
    epsilon = f"eps={site.attr('epsilon', 1e-5):.7g}"
    maker = f"nn.InstanceNorm2d({site.shape('X')[1]}, {epsilon}, affine=True)"
    site.give(f"{site.module(maker, weights)}({site.arg()})", "Y")


@converts("lookup_table", "lookup_table_v2")
def embedding(site: Site) -> None:
    site.require(site.is_parameter("W"), "its table is computed")
    rows, width = site.writer.source.values[site.name("W")].shape
    padding = site.attr("padding_idx", -1)
    padding = padding + rows if padding < -1 else padding

    shared = any(
        site.name("W") in op.input_arg_names and op.type != site.op.type
        for op in site.writer.source.every_op()
    )
    zeroes = padding >= 0 and not shared
    option = f", padding_idx={padding}" if zeroes else ""
    weight = Weight(site.name("W"), zeroed=padding if zeroes else -1)
    maker = f"nn.Embedding({rows}, {width}{option})"
    ids = site.held("Ids")
    if site.op.type == "lookup_table" and site.shape("Ids")[-1:] == (1,):
        ids = f"{site.held('Ids')}.squeeze(-1)"
    text = f"{site.module(maker, {'weight': weight})}({ids})"
    masked = padding >= 0 and shared
    text += f" * ({ids} != {padding}).unsqueeze(-1)" if masked else ""
    site.give(text, loose=masked)


@converts("prelu")
def prelu(site: Site) -> None:
    mode = site.attr("mode", "all")
    site.require(mode in ("all", "channel"), f"mode {mode!r}")
    count = site.writer.source.values[site.name("Alpha")].numel()
    weight = Weight(site.name("Alpha"), shape=(count,))
    site.give(f"{site.module(f'nn.PReLU({count})', {'weight': weight})}({site.arg()})")


@converts("bilinear_tensor_product")
def bilinear(site: Site) -> None:
    site.require(site.is_parameter("Weight"), "its weight is computed")
    outputs, left, right = site.writer.source.values[site.name("Weight")].shape
    weights = {"weight": Weight(site.name("Weight"))}
    if site.has("Bias"):
        weights["bias"] = Weight(site.name("Bias"), shape=(outputs,))
    option = "" if site.has("Bias") else ", bias=False"
    module = site.module(f"nn.Bilinear({left}, {right}, {outputs}{option})", weights)
    site.give(f"{module}({site.arg('X')}, {site.arg('Y')})")
