"""Losses."""

from __future__ import annotations

from refluid.convert.rules.calls import Template, calls
from refluid.convert.site import Site, short
from refluid.convert.table import converts


@converts("cross_entropy", "cross_entropy2")
def cross_entropy(site: Site) -> None:
    rank = len(site.shape("X"))
    x, label = site.x(), site.held("Label") if rank > 2 else site.x("Label")
    if site.attr("soft_label"):
        site.give(f"-({label} * {x}.log().clamp(min=-64.0)).sum(-1, keepdim=True)", "Y", loose=True)
        return
    ignored = site.attr("ignore_index", -100)
    option = f", ignore_index={ignored}" if ignored != -100 else ""
    p = f"{x}.log().clamp(min=-64.0)"  # Fluid's softmax gives no less than exp(-64)
    if rank == 2:
        text = f'F.nll_loss({p}, {label}.squeeze(-1), reduction="none"{option}).unsqueeze(-1)'
    else:
        flat = f"{p}.flatten(0, -2), {label}.flatten()"
        text = f'F.nll_loss({flat}, reduction="none"{option}).view_as({label})'
    site.give(text, "Y")


@converts("softmax_with_cross_entropy")
def softmax_with_cross_entropy(site: Site) -> None:
    if site.needed("Softmax") and site.needed("Loss"):
        site.held("Logits")
    label = site.held("Label") if len(site.shape("Logits")) > 2 else site.x("Label")
    x, rank = site.x("Logits"), len(site.shape("Logits"))
    site.require(site.attr("axis", -1) in (-1, rank - 1), "along another axis than the last")
    site.give(f"F.softmax({site.arg('Logits')}, dim=-1)", "Softmax")
    if site.attr("soft_label"):
        text = f"-({label} * F.log_softmax({site.arg('Logits')}, dim=-1)).sum(-1, keepdim=True)"
        site.give(text, "Loss", loose=True)
        return
    ignored = site.attr("ignore_index", -100)
    option = f", ignore_index={ignored}" if ignored != -100 else ""
    if rank == 2:
        text = f'F.cross_entropy({x}, {label}.squeeze(-1), reduction="none"{option}).unsqueeze(-1)'
    else:
        flat = f"{x}.flatten(0, -2), {label}.flatten()"
        text = f'F.cross_entropy({flat}, reduction="none"{option}).view_as({label})'
    site.give(text, "Loss")


@converts("sigmoid_cross_entropy_with_logits")
def sigmoid_cross_entropy(site: Site) -> None:
    site.require(not site.attr("normalize"), "normalised by the number of labels")
    site.require(site.attr("ignore_index", -100) == -100, "labels that are ignored")
    name = "F.binary_cross_entropy_with_logits"
    site.give(f'{name}({site.arg()}, {site.arg("Label")}, reduction="none")')


@converts("log_loss")
def log_loss(site: Site) -> None:
    x, label, small = site.held("Predicted"), site.held("Labels"), short(site.attr("epsilon", 1e-4))
    right = f"(1 - {label}) * (1 - {x} + {small!r}).log()"
    site.give(f"-{label} * ({x} + {small!r}).log() - {right}", "Loss", loose=True)


@converts("smooth_l1_loss")
def smooth_l1(site: Site) -> None:
    sigma = float(site.attr("sigma", 1.0))
    inside, outside = site.has("InsideWeight"), site.has("OutsideWeight")
    x, y = site.x(), site.x("Y")
    if inside:
        x, y = f"{x} * {site.x('InsideWeight')}", f"{y} * {site.x('InsideWeight')}"
    beta = short(1.0 / sigma**2)
    option = f", beta={beta!r}" if beta != 1.0 else ""
    text = f'F.smooth_l1_loss({x}, {y}, reduction="none"{option})'
    text += f" * {site.x('OutsideWeight')}" if outside else ""
    site.give(f"({text}).flatten(1).sum(1, keepdim=True)" if outside else
              f"{text}.flatten(1).sum(1, keepdim=True)")  # fmt: skip


@converts("huber_loss")
def huber(site: Site) -> None:
    delta = short(site.attr("delta"))
    text = f'F.huber_loss({site.arg()}, {site.arg("Y")}, reduction="none", delta={delta!r})'
    site.give(text)


@converts("label_smooth")
def label_smooth(site: Site) -> None:
    site.require(not site.has("PriorDist"), "towards given probabilities")
    share = short(site.attr("epsilon", 0.0))
    size = site.shape("X")[-1]
    x = site.x() if size > 0 else site.held()
    classes = str(size) if size > 0 else f"{x}.shape[-1]"
    rest = short(1.0 - share)
    site.give(f"{x} * {rest!r} + {share!r} / {classes}", loose=True)


@converts("cos_sim")
def cos_sim(site: Site) -> None:
    site.give(f"F.cosine_similarity({site.arg()}, {site.arg('Y')}).unsqueeze(-1)")


@converts("kldiv_loss")
def kldiv(site: Site) -> None:
    reduction = {"none": "none", "mean": "mean", "sum": "sum", "batchmean": "batchmean"}
    kind = reduction[site.attr("reduction", "mean")]
    text = f'F.kl_div({site.arg()}, {site.arg("Target")}, reduction="{kind}")'
    site.give(text, "Loss", scalar=kind != "none")


calls({"bpr_loss": Template("bpr_loss({X}, {Label})", "Y", lengths="")})
