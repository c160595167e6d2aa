"""Leaves out what no gradient reaches and what nobody wants."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from refluid.autodiff.making import Draft, bare_op, names_of

EMPTY = "@EMPTY@"


def prune(
    drafts: Iterable[Draft], seeds: Collection[str], no_grad: Collection[str]
) -> list[Draft]:
    """Keeps the drafts that a gradient reaches and that compute a wanted one.

    seeds: gradient names that exist before. no_grad: gradient names not to be computed.
    Gradients that a kept draft reads and nobody computes are filled with zeros.
    """
    live = set(seeds)
    kept: list[Draft] = []
    for draft in drafts:
        if live.isdisjoint(draft.given):
            continue
        _drop_outputs(draft, no_grad)
        missing = [n for n in names_of(draft.op.inputs) if n in draft.given and n not in live]
        kept += [_zeros(draft, name) for name in dict.fromkeys(missing)]
        kept.append(draft)
        live |= set(missing) | set(draft.op.output_arg_names) - {EMPTY}
    return kept


def _drop_outputs(draft: Draft, no_grad: Collection[str]) -> None:
    for slot, names in draft.op.outputs.items():
        left = [EMPTY if name in no_grad else name for name in names]
        draft.op.outputs[slot] = [] if set(left) <= {EMPTY} else left


def _zeros(draft: Draft, name: str) -> Draft:
    block = draft.op.block
    like = {"X": [name.removesuffix("@GRAD")]}
    return Draft(bare_op(block, "fill_zeros_like", like, {"Out": [name]}))
