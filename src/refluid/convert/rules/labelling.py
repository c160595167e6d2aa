"""Linear-chain CRF, CTC, and strings of labels."""

from __future__ import annotations

from refluid.convert.rules.calls import Template, calls, filled
from refluid.convert.site import Site
from refluid.convert.table import converts

calls(
    {
        "linear_chain_crf": Template(
            "crf_cost({Emission}, {Transition}, {Label}, {Emission.lengths})",
            "LogLikelihood",
            lengths="",
        ),
        "warpctc": Template(
            "ctc_cost({Logits}, {Logits.lengths}, {Label}, {Label.lengths}, {blank},"
            " {norm_by_times})",
            "Loss",
            lengths="",
        ),
    }
)


@converts("crf_decoding")
def crf_decoding(site: Site) -> None:
    path = filled(site, "viterbi({Emission}, {Transition}, {Emission.lengths})")
    if site.has("Label"):
        site.give(f"({path} == {site.x('Label')}).long()", "ViterbiPath")
    else:
        site.give(path, "ViterbiPath")


@converts("ctc_align")
def ctc_align(site: Site) -> None:
    site.require(not site.has("InputLength"), "of padded input")
    text = "ctc_collapsed({Input}, {Input.lengths}, {blank}, {merge_repeated})"
    site.give_with_lengths(filled(site, text), "Output")


@converts("sequence_erase")
def sequence_erase(site: Site) -> None:
    site.give_with_lengths(filled(site, "erased({X}, {X.lengths}, {tokens})"))


@converts("edit_distance")
def edit_distance(site: Site) -> None:
    site.require(not site.has("HypsLength"), "of padded input")
    text = "edit_distances({Hyps}, {Hyps.lengths}, {Refs}, {Refs.lengths}, {normalized})"
    site.give(filled(site, text), lengths="")
    site.give(f"torch.tensor([len({site.lengths('Hyps')})])", "SequenceNum", lengths="")
