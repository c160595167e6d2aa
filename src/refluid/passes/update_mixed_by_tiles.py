"""d_w = gemm_grad(x, d) ; check(d_w) ; if finite: update(w, d_w)
-> check_product(x, d) ; if finite: update_by_tiles(w, x, d), of large weights in mixed precision

Their gradient is never in memory as a whole: whether all of it is finite follows from x and d, and
the branch that updates the weights computes it a tile at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from refluid.analysis.uses import BlockUses, is_update, uses_in
from refluid.core import names
from refluid.core.dtypes import VarType
from refluid.ir.attributes import CALLSTACK, ROLE, ROLE_VAR
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.registry import defined, facts_of
from refluid.passes.pattern import Match, SlotPattern, find_matches, parse_pattern
from refluid.passes.protocol import Options, Refusal, Report
from refluid.passes.update_by_tiles import gemm_settings

_GEMM = parse_pattern(
    "gemm: mixed_gemm_grad(X=x, Y=w, Bias=bias?, Out=out?, Out@GRAD=d_out) "
    "-> X@GRAD=d_x?, Y@GRAD=d_w, Bias@GRAD=d_bias?"
)
(_CHECK,) = parse_pattern(
    "check_product(X=x, Out=out?, Out@GRAD=d_out, FoundInfinite=found, Scale=scale) "
    "-> FoundInfiniteOut=found, Inverse=inverse"
)
# What an update by tiles is given instead of the gradient.
(_UPDATE,) = parse_pattern("by_tiles(X=x, Out=out?, Out@GRAD=d_out, Inverse=inverse) -> Out=w")


class _Chain(NamedTuple):
    """What sees the gradient of the weights, one after the other; `update` is in the branch."""

    gemm: Operator
    check: Operator
    clear: Operator
    branch: Operator
    update: Operator


def update_mixed_by_tiles(program: Program, options: Options) -> Report:
    """Has weights that `mixed_gemm` multiplies by updated tile by tile, in place."""
    report, block = Report(), program.global_block()
    for gemm in [match.op("gemm") for match in find_matches(_GEMM, uses_in(block))]:
        # What comes before was rewritten meanwhile, so that places are others.
        match = next(one for one in find_matches(_GEMM, uses_in(block)) if one.op("gemm") is gemm)
        found = _chain(match, options.kept)
        if isinstance(found, str):
            report.refused.append(Refusal(gemm.type, found))
        else:
            report.made.append(_rewrite(match, found))
    return report


def _chain(match: Match, kept: frozenset[str]) -> _Chain | str:
    """The operators, or why there are none such."""
    uses, version = match.uses, match.versions["d_w"]
    assert version is not None
    block, name = uses.block, version.name
    var, places = block.vars.get(name), [match.positions["gemm"]]
    if var is None or var.persistable or name in kept:
        return f"{name} is fetched or kept"
    for fits in (_checks, _clears, _branches):
        users = uses.users(version)
        if len(users) != 1 or not fits(block.ops[users[0]]):
            reader = block.ops[users[0]].type if users else "nobody"
            return f"{name} is read by {reader} before it is checked and used by one branch"
        places += users
        version = uses.before(users[0] + 1, name)
    gemm, check, clear, branch = (block.ops[place] for place in places)
    if len(check.input("X")) < 2:
        return f"{name} is all that is checked"
    (inner,) = map(uses_in, branch.sub_blocks())
    updates = [inner.block.ops[place] for place in inner.readers.get(name, ())]
    if len(updates) != 1 or not _suits(updates[0], match, name):
        return f"{name} isn't read by one update alone, which can be done by tiles"
    return _obstacle(match, places, inner) or _Chain(gemm, check, clear, branch, updates[0])


def _checks(op: Operator) -> bool:
    return bool(facts_of(op.type).checks)


def _clears(op: Operator) -> bool:
    return facts_of(op.type).clears


def _branches(op: Operator) -> bool:
    nested = defined(op.type).nested
    return nested is not None and nested.branches and len([*op.sub_blocks()]) == 1


def _suits(update: Operator, match: Match, name: str) -> bool:
    by_tiles = facts_of(update.type).by_tiles
    if not by_tiles or not is_update(update) or match.var("w").dtype != VarType.FP32:
        return False
    slots = {slot.name for slot in defined(by_tiles).inputs}
    given = {slot for slot, arguments in update.inputs.items() if arguments} - {"Grad"}
    own = update.input("Param"), update.input("Grad")
    return own == ([match.name("w")], [name]) and given <= slots


def _obstacle(match: Match, places: Sequence[int], inner: BlockUses) -> str | None:
    """Who overwrites the weights, or what their gradient is computed of, before the update."""
    first, *_, last = places
    for symbol in ("x", "out", "d_out", "w"):
        name = match.name(symbol)
        if name is None:
            continue
        writers = set(match.uses.between(name, first, last, reads=False)) - {first, last}
        if writers or len(inner.writers.get(name, ())) > (symbol == "w"):
            return f"{name} is overwritten before the update"
    return None


def _rewrite(match: Match, chain: _Chain) -> str:
    gemm, check, clear, branch, update = chain
    block, (name,) = gemm.block, update.input("Grad")
    inverse = names.generate(f"{name}.inverse")
    block.create_var(name=inverse, shape=(1,), dtype=VarType.FP32, stop_gradient=True)
    (told,), (scale,) = check.output(facts_of(check.type).checks), check.input("Scale")
    own = {symbol: match.name(symbol) for symbol in ("x", "out", "d_out")}
    symbols = {**own, "found": told, "scale": scale, "inverse": inverse}
    settings = gemm_settings(gemm)
    tested = block.make_op(
        _CHECK.types,
        _named(_CHECK.inputs, symbols),
        _named(_CHECK.outputs, symbols),
        settings | _origin(check),
    )
    gemm.set_output("Y@GRAD", [])
    gemm.set_attr(ROLE_VAR, [])
    if not gemm.output_arg_names:
        Editor(block).remove(gemm)
    for op in (check, clear):
        op.set_input("X", [one for one in op.input("X") if one != name])
        op.set_output("Out", [one for one in op.output("Out") if one != name])
    Editor(block).insert(block.ops.index(check) + 1, tested)
    factors = _named(_UPDATE.inputs, symbols)
    given = [one for one in branch.input("Input") if one != name]
    given += [one for (one,) in factors.values() if one not in given]
    branch.set_input("Input", given)
    made = _by_tiles(update, factors, settings)
    Editor(update.block).replace(update, made)
    Editor(block).forget_variables([name])
    return made.type


def _by_tiles(
    update: Operator, factors: Mapping[str, Sequence[str]], settings: Mapping[str, object]
) -> Operator:
    """The update that computes the gradient itself."""
    type = facts_of(update.type).by_tiles
    attrs = {one: value for one, value in update.attrs.items() if one in defined(type).attributes}
    kept = {slot: found for slot, found in update.inputs.items() if found}
    del kept["Grad"]
    made = update.block.make_op(
        type,
        {**kept, **factors},
        {slot: found for slot, found in update.outputs.items() if found},
        {**attrs, **settings, "needs": [0, 0], **_origin(update)},
    )
    made.alias = update.title
    return made


def _origin(op: Operator) -> dict[str, object]:
    """The role and the user's line."""
    return {one: op.attrs.get(one) for one in (ROLE, CALLSTACK)}


def _named(slots: Sequence[SlotPattern], symbols: Mapping[str, str | None]) -> dict[str, list[str]]:
    """The variables of slots that have one."""
    found = {slot.name: symbols[slot.symbol] for slot in slots}
    return {slot: [name] for slot, name in found.items() if name is not None}
