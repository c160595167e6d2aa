"""What is converted: a program with the values of its variables, and the names of its ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from refluid.analysis.uses import blocks_in_use
from refluid.core.errors import EnforceNotMet
from refluid.fluid.inference.config import AnalysisConfig
from refluid.fluid.inference.models import load
from refluid.ir.attributes import OpRole
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from refluid.passes.prune import prune

# Operators of training that are no part of the network.
_TRAINING = OpRole.BACKWARD | OpRole.OPTIMIZE | OpRole.LR_SCHED
_METRICS = frozenset(("auc", "chunk_eval", "precision_recall"))
_ENDS = frozenset(("feed", "fetch"))


@dataclass
class Source:
    """A program, the values of its variables, what is fed and what is fetched.

    whole: the training program that the network was taken from, None of an inference model.
    """

    name: str
    program: Program
    values: Mapping[str, Tensor]
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    whole: Program | None = None
    ops: list[Operator] = field(init=False)

    def __post_init__(self) -> None:
        self.ops = [op for op in self.program.global_block().ops if op.type not in _ENDS]

    def var(self, name: str) -> Variable:
        """The description of a variable."""
        return self.program.global_block().var(name)

    def every_op(self) -> Iterable[Operator]:
        """The operators of all blocks."""
        return (op for block in self.program.blocks for op in block.ops)

    def constant_of(self, name: str) -> float | None:
        """The number that a variable is filled with; None where it isn't."""
        makers = [op for op in self.every_op() if name in op.output_arg_names]
        while len(makers) == 1 and makers[0].type in ("assign", "cast"):
            (name,) = makers[0].input("X")
            makers = [op for op in self.every_op() if name in op.output_arg_names]
        if len(makers) != 1:
            return None
        attrs = makers[0].attrs
        if makers[0].type == "fill_constant":
            return float(attrs.get("str_value") or attrs.get("value", 0.0))
        values = list(attrs.get("fp32_values") or attrs.get("int32_values") or [])
        single = makers[0].type == "assign_value" and len(values) == 1
        return float(values[0]) if single else None

    def sequences(self) -> list[str]:
        """Names of what is fed as sequences."""
        return [name for name in self.feeds if self.var(name).lod_level]


def read_model(path: Path, params: Path | None = None) -> Source:
    """A saved inference model: a folder, or the file of its program and that of its parameters.

    Raises EnforceNotMet for missing and damaged files.
    """
    if params is None:
        config = AnalysisConfig(str(path))
    else:
        config = AnalysisConfig(str(path), str(params))
    model = load(config, torch.device("cpu"))
    values = {
        name: cell.value
        for name in model.scope.local_var_names()
        if isinstance((cell := model.scope.var(name)).value, Tensor)
    }
    return Source(path.stem, model.program, values, model.inputs, model.outputs)


def from_training(
    name: str,
    program: Program,
    values: Mapping[str, Tensor],
    fetches: Sequence[str],
    *,
    test: bool = False,
) -> Source:
    """The network of a training program: what computes the fetched variables, without gradients.

    test: as `Program.clone(for_test=True)` has it.
    """
    forward = program.clone(for_test=True) if test else _forward(program)
    known = {one for op in forward.global_block().ops for one in op.output_arg_names}
    found = [one for one in fetches if one in known]
    own = [one for one in found if not _is_beside(forward, one, values)]
    computed = own or found
    if not computed:
        raise EnforceNotMet(f"the network computes none of what is fetched: {', '.join(fetches)}")
    pruned = prune(forward, computed, [])
    return Source(
        name,
        pruned,
        values,
        tuple(_fed(pruned, values)),
        tuple(computed),
        whole=None if test else program,
    )


def _is_beside(program: Program, name: str, values: Mapping[str, Tensor]) -> bool:
    """Whether no part of the network gives it: a metric of many batches, the learning rate."""
    makers = [op for op in program.global_block().ops if name in op.output_arg_names]
    kept = any(op.type in _METRICS for op in makers)
    return kept or not list(_fed(prune(program, [name], []), values))


def _forward(program: Program) -> Program:
    copy = program.clone()
    Editor(copy.global_block()).keep(lambda op: not op.role & _TRAINING)
    return copy


def _fed(program: Program, values: Mapping[str, Tensor]) -> Iterable[str]:
    """What the operators read that nobody gives them."""
    written: set[str] = set()
    found: dict[str, None] = {}
    for block in blocks_in_use(program)[:1]:
        for op in block.ops:
            found |= dict.fromkeys(
                one
                for one in op.input_arg_names
                if one not in written and one not in values and block.has_var(one)
            )
            written |= set(op.output_arg_names)
    return found
