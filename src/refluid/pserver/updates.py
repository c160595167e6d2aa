"""What servers take over: the operators that update each parameter, and how tables begin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.ir.attributes import OpRole
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from refluid.kernels.rows.draws import CONSTANT, NORMAL, TRUNCATED, UNIFORM, RowDraws
from refluid.ops.registry import find
from refluid.pserver.ring import stable_hash

# Operators of startup programs: kind of draws, and the attributes that have its two numbers.
_DRAWS = {
    "fill_constant": (CONSTANT, "value", None),
    "uniform_random": (UNIFORM, "min", "max"),
    "gaussian_random": (NORMAL, "mean", "std"),
    "truncated_gaussian_random": (TRUNCATED, "mean", "std"),
}
# They look at a parameter as a whole, so it is not cut.
_WHOLE = ("dgc_momentum", "dpsgd", "lamb", "lars_momentum")


@dataclass(frozen=True)
class ParameterUpdate:
    """How a parameter is updated.

    gradient: what its operators begin with. op: the one that writes it. before: operators between
    the gradient and it that read the parameter (of tables). state: what the optimizer keeps for it.
    after: operators that change that.
    """

    param: Variable
    gradient: str
    op: Operator
    state: tuple[str, ...]
    before: tuple[Operator, ...] = ()
    after: tuple[Operator, ...] = ()

    @property
    def ops(self) -> tuple[Operator, ...]:
        """All of it, in order."""
        return (*self.before, self.op, *self.after)

    @property
    def is_divisible(self) -> bool:
        """Whether each row is updated by its own gradient alone."""
        return self.op.type not in _WHOLE


def updates_of(program: Program) -> list[ParameterUpdate]:
    """The updates of a program's parameters.

    EnforceNotMet where one is updated twice, or in a branch or a loop.
    """
    block = program.global_block()
    for op in (op for inner in program.blocks[1:] for op in inner.ops if _is_update(op)):
        raise EnforceNotMet(
            f"{op.input('Param')[0]} is updated in a branch (by operator {op.title}), and servers "
            "update in each step: train beside them without GradientMergeOptimizer, and without "
            "dynamic loss scaling of mixed_precision.decorate"
        )
    found: dict[str, ParameterUpdate] = {}
    for op in block.ops:
        if not _is_update(op):
            continue
        (name,) = op.input("Param")
        if name in found:
            raise EnforceNotMet(f"servers update a parameter once in a step, and not {name} twice")
        state = _state(op, block)
        after = [one for one in block.ops if one is not op and _changes(one, state)]
        found[name] = ParameterUpdate(
            block.var(name), op.input("Grad")[0], op, tuple(state), after=tuple(after)
        )
    return list(found.values())


def _is_update(op: Operator) -> bool:
    definition = find(op.type)
    return (
        definition is not None
        and definition.mutates.get("ParamOut") == "Param"
        and bool(op.input("Grad"))
        and len(op.input("Param")) == 1
    )


def _state(op: Operator, block: Block) -> list[str]:
    """What outlives an update that reads or changes it, besides the parameter and its rate."""
    other = {op.input("Param")[0], *op.input("LearningRate")}
    names = [*dict.fromkeys((*op.output_arg_names, *op.input_arg_names))]
    kept = [name for name in names if name in block.vars and block.vars[name].persistable]
    return [name for name in kept if name not in other]


def _changes(op: Operator, state: Sequence[str]) -> bool:
    return bool(set(op.output_arg_names) & set(state))


# -- tables -------------------------------------------------------------------


def lookups_of(program: Program) -> dict[str, list[Operator]]:
    """Operators that look rows up, by table, where the program asks for sparse gradients."""
    found: dict[str, list[Operator]] = {}
    for op in program.global_block().ops:
        if is_lookup(op) and (op.attr("is_distributed") or op.attrs.get("is_sparse")):
            found.setdefault(op.input("W")[0], []).append(op)
    return found


def is_lookup(op: Operator) -> bool:
    """Whether an operator gives rows of a table W by their ids."""
    definition = find(op.type)
    rows = {} if definition is None else definition.rows
    return rows == {"W": "Ids"} and "is_distributed" in op.attrs and bool(op.output("Out"))


def as_table(
    update: ParameterUpdate, program: Program, draws: RowDraws | None
) -> ParameterUpdate | None:
    """The update of a parameter that can be a table of rows; None where it can't be.

    It can where nothing but lookups, their gradients and the optimizer look at it, and that at each
    row by itself.
    """
    block, name = program.global_block(), update.param.name
    lookups = lookups_of(program).get(name, [])
    if not update.is_divisible:
        return None
    if not lookups or draws is None or update.param.dtype not in (VarType.FP32, VarType.FP64):
        return None
    before = _decay(block, update)
    gradient = _source(before, update)
    allowed = {id(op) for op in (*lookups, *before, *update.ops)}
    for one in program.blocks:
        for op in one.ops:
            if name not in op.arg_names or id(op) in allowed:
                continue
            if not (op.type.endswith("_grad") and op.role & OpRole.BACKWARD and op.input("Ids")):
                return None
    return replace(update, gradient=gradient, before=tuple(before))


def _decay(block: Block, update: ParameterUpdate) -> list[Operator]:
    """Operators of the optimizer that lead from the table's rows to the gradient it takes."""
    reached, found = {update.param.name}, []
    for op in block.ops:
        if op is update.op:
            break
        if op.role & OpRole.OPTIMIZE and reached & set(op.input_arg_names):
            found.append(op)
            reached |= set(op.output_arg_names)
    return found if update.gradient in reached else []


def _source(before: Sequence[Operator], update: ParameterUpdate) -> str:
    """The gradient that operators before the update begin with."""
    made = {name for op in before for name in op.output_arg_names}
    given = [
        name
        for op in before
        for name in op.input_arg_names
        if name not in made and name != update.param.name
    ]
    return given[0] if given else update.gradient


# -- how rows begin -----------------------------------------------------------


def draws_of(op: Operator | None, name: str) -> RowDraws | None:
    """How rows begin of a table that this operator would fill; None where that can't be told."""
    if op is None or op.type not in _DRAWS:
        return None
    kind, first, second = _DRAWS[op.type]
    numbers = (float(op.attr(first) or 0.0), float(op.attr(second) or 0.0) if second else 0.0)
    seed = 0 if kind == CONSTANT else stable_hash(f"{name}:{op.attr('seed') or 0}")
    return RowDraws(kind, *numbers, seed)


def initial_op(startup: Program, name: str) -> Operator | None:
    """The operator that gives a variable its first value."""
    found = [op for op in startup.global_block().ops if name in op.output_arg_names]
    return found[-1] if found else None


# -- learning rates -----------------------------------------------------------


def schedule_of(program: Program, wanted: Iterable[str]) -> list[Operator]:
    """Operators that make learning rates, in order, as far as `wanted` follow from them."""
    needed, found = set(wanted), []
    for op in reversed(program.global_block().ops):
        if op.role & OpRole.LR_SCHED and needed & set(op.output_arg_names):
            found.append(op)
            needed |= set(op.input_arg_names)
            for inner in op.sub_blocks():
                needed |= {name for one in inner.ops for name in one.input_arg_names}
    return found[::-1]
