"""Recurrent layers: submodules of Fluid's gates."""

from __future__ import annotations

from refluid.convert.site import Site, short
from refluid.convert.table import converts
from refluid.convert.weights import Weight

_ACTS = {"identity": "nn.Identity()", "": "nn.Identity()", "linear": "nn.Identity()",
         "sigmoid": "torch.sigmoid", "tanh": "torch.tanh", "relu": "torch.relu"}  # fmt: skip
_NUMBERED = ("identity", "sigmoid", "tanh", "relu")


def _options(**usual: tuple[object, object]) -> str:
    """Keyword arguments that aren't the usual ones: name -> (value, usual value)."""
    return "".join(
        f", {name}={value}" for name, (value, common) in usual.items() if value != common
    )


def _act(name: object) -> str:
    return _ACTS[_NUMBERED[name] if isinstance(name, int) else str(name)]


def _gru_weights(site: Site, prefix: str = "") -> tuple[int, dict[str, Weight]]:
    """The size, and weights: in memory those of both gates, then those of the candidate."""
    site.require(site.is_parameter("Weight"), "its weights are computed")
    name, size = site.name("Weight"), site.writer.source.values[site.name("Weight")].shape[0]
    weights = {
        f"{prefix}gates.weight": Weight(name, turned=True, shape=(size, 2 * size)),
        f"{prefix}candidate.weight": Weight(
            name, turned=True, shape=(size, size), begin=2 * size * size
        ),
    }
    if site.has("Bias"):
        weights[f"{prefix}bias"] = Weight(site.name("Bias"), shape=(3 * size,))
    return size, weights


@converts("gru")
def gru(site: Site) -> None:
    size, weights = _gru_weights(site, "cell.")
    options = _options(
        bias=(site.has("Bias"), True),
        reverse=(bool(site.attr("is_reverse")), False),
        origin=(bool(site.attr("origin_mode")), False),
        act=(_act(site.attr("activation", "tanh")), "torch.tanh"),
        gate=(_act(site.attr("gate_activation", "sigmoid")), "torch.sigmoid"),
    )
    first = f", {site.arg('H0')}" if site.has("H0") else ""
    module = site.module(f"GRU({size}{options})", weights)
    site.give(f"{module}({site.arg('Input')}, {site.lengths('Input')}{first})", "Hidden")


@converts("gru_unit")
def gru_unit(site: Site) -> None:
    size, weights = _gru_weights(site)
    options = _options(
        bias=(site.has("Bias"), True),
        origin=(bool(site.attr("origin_mode")), False),
        act=(_act(site.attr("activation", 2)), "torch.tanh"),
        gate=(_act(site.attr("gate_activation", 1)), "torch.sigmoid"),
    )
    site.require(not site.needed("Gate"), "the values of its gates")
    site.require(not site.needed("ResetHiddenPrev"), "its reset state")
    module = site.module(f"GRUStep({size}{options})", weights)
    site.give(f"{module}({site.arg('Input')}, {site.arg('HiddenPrev')})", "Hidden")


@converts("lstm", "lstmp")
def lstm(site: Site) -> None:
    site.require(site.is_parameter("Weight"), "its weights are computed")
    source, peepholes = site.writer.source, bool(site.attr("use_peepholes", True))
    inner, wide = source.values[site.name("Weight")].shape
    size, projected = wide // 4, inner if site.op.type == "lstmp" else 0
    weights = {
        "hidden.weight": Weight(site.name("Weight"), turned=True),
        "hidden.bias": Weight(site.name("Bias"), shape=(wide,)),
    }
    if peepholes:
        weights["peephole"] = Weight(site.name("Bias"), shape=(3, size), begin=wide)
    if projected:
        weights["projection.weight"] = Weight(site.name("ProjWeight"), turned=True)
    options = _options(
        projected=(projected, 0),
        peepholes=(peepholes, True),
        reverse=(bool(site.attr("is_reverse")), False),
        cell_clip=(short(site.attr("cell_clip", 0.0)), 0.0),
        proj_clip=(short(site.attr("proj_clip", 0.0)), 0.0),
        gate=(_act(site.attr("gate_activation", "sigmoid")), "torch.sigmoid"),
        act=(_act(site.attr("cell_activation", "tanh")), "torch.tanh"),
        candidate=(_act(site.attr("candidate_activation", "tanh")), "torch.tanh"),
        proj_act=(_act(site.attr("proj_activation", "tanh")), "torch.tanh"),
    )
    first = f", {site.arg('H0')}" if site.has("H0") else ""
    if site.has("C0"):
        first = f", {site.arg('H0') if site.has('H0') else None}, {site.arg('C0')}"
    module = site.module(f"LSTM({size}{options})", weights)
    call = f"{module}({site.arg('Input')}, {site.lengths('Input')}{first})"
    hidden = "Projection" if projected else "Hidden"
    site.give_all(call, [(hidden, 0), ("Cell", 0)], site.lengths("Input"))
