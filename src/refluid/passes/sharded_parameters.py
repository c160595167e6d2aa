"""Parameters of which each trainer holds its own: the others come before they are read.

    y = mul(x, w)                  ->  w@SHARD.0 = shard_gather()
                                       y = mul(x, w@SHARD.0)
    x@GRAD = mul_grad(x, w, ...)   ->  w@SHARD.1 = shard_gather()
                                       x@GRAD = mul_grad(x, w@SHARD.1, ...)

They come in segments of neighbours, one segment before the one that reads them, and go with its
last reader. The backward pass has segments of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from refluid.build import apply
from refluid.ir.attributes import ROLE, OpRole
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.passes.data_parallel import bytes_of

Needed = Mapping[Operator, frozenset[int]]


@dataclass(frozen=True)
class SegmentCut:
    """limit: bytes of one, 0 for any number. anchors: operators with these outputs begin one."""

    limit: int
    anchors: tuple[str, ...] = ()


@dataclass
class _Segment:
    """Operators of one role from `begin` on, and the parameters that they read."""

    begin: int
    role: int
    params: dict[str, None] = field(default_factory=dict)
    size: int = 0


def gather_parameters(
    program: Program, owners: Mapping[str, int], share: int, cut: SegmentCut, needed: Needed
) -> None:
    """Has all operators but updates read what came from the owners, in place.

    needed: operators that only some owners need. Parameters that operators with sub-blocks read
    come once and stay until the end.
    """
    block = program.global_block()
    within = (one for op in block.ops for one in op.sub_blocks())
    staying = {name for one in within for name in _read(one, owners, needed)}
    segments = _segments(block, owners, cut, needed)
    came: set[str] = set()
    for number, one in enumerate(segments):
        end = segments[number + 1].begin if number + 1 < len(segments) else len(block.ops)
        renamed = {
            name: f"{name}@SHARD" if name in staying else f"{name}@SHARD.{number}"
            for name in one.params
            if owners[name] != share
        }
        for op in block.ops[one.begin : end]:
            _rename(op, renamed, owners, needed)
        one.params = {name: None for name in one.params if name not in came}
        came |= staying & set(one.params)
    for number in reversed(range(len(segments))):
        # What is read beside updates comes after them.
        early = number > 0 and not segments[number].role & OpRole.OPTIMIZE
        place = segments[number - early].begin
        _insert(block, place, number, segments[number], owners, share, staying)


def _read(block: Block, owners: Mapping[str, int], needed: Needed) -> set[str]:
    """Parameters that operators of a block need of their owners."""
    return {name for op in block.ops for name in _read_by(op, owners, needed)}


def _read_by(op: Operator, owners: Mapping[str, int], needed: Needed) -> set[str]:
    found = {name for one in op.sub_blocks() for name in _read(one, owners, needed)}
    if not op.has_sub_blocks:
        alone = needed.get(op)
        found |= {
            name
            for name in op.input_arg_names
            if name in owners and alone != frozenset([owners[name]])
        }
    return found


def _segments(
    block: Block, owners: Mapping[str, int], cut: SegmentCut, needed: Needed
) -> list[_Segment]:
    found: list[_Segment] = []
    for position, op in enumerate(block.ops):
        read = _read_by(op, owners, needed)
        if not read:
            continue
        role = op.role & (OpRole.BACKWARD | OpRole.OPTIMIZE)
        last = found[-1] if found else None
        anchored = not set(cut.anchors).isdisjoint(op.output_arg_names)
        more = last is None or not last.params.keys() >= read
        if last is None or last.role != role or anchored or (more and last.size >= cut.limit > 0):
            last = _Segment(position, role)
            found.append(last)
        for name in sorted(read - last.params.keys()):
            last.params[name] = None
            last.size += bytes_of(block.var_recursive(name))
    return found


def _rename(
    op: Operator, renamed: Mapping[str, str], owners: Mapping[str, int], needed: Needed
) -> None:
    for old in _read_by(op, owners, needed) & renamed.keys():
        op.rename_input(old, renamed[old])
    for one in op.sub_blocks():
        for inner in one.ops:
            _rename(inner, renamed, owners, needed)


def _insert(
    block: Block,
    place: int,
    number: int,
    segment: _Segment,
    owners: Mapping[str, int],
    share: int,
    staying: set[str],
) -> None:
    """Puts what fetches a segment's parameters before the operator at `place`."""
    if not segment.params:
        return
    sizes: list[int] = []
    given, made = [], []
    params = [block.var_recursive(name) for name in segment.params]
    for var in params:
        sizes += [len(var.shape), *var.shape]
        if owners[var.name] == share:
            given.append(var)
        else:
            name = f"{var.name}@SHARD" + ("" if var.name in staying else f".{number}")
            made.append(
                block.create_var(name=name, shape=var.shape, dtype=var.dtype, stop_gradient=True)
            )
    attrs = {
        "owners": [owners[var.name] for var in params],
        "sizes": sizes,
        "types": [int(var.dtype) for var in params],
        ROLE: segment.role,
    }
    apply("shard_gather", {"X": given}, {"Out": made}, attrs, block=block, index=place)
