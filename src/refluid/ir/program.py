"""Program: blocks of operators, what a Fluid script builds and an executor runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from refluid.core.dtypes import VarType
from refluid.core.lod_tensor import LoDTensor
from refluid.core.scope import Scope
from refluid.core.scope_values import set_state_in, state_in
from refluid.ir.attributes import AttrType, OpRole
from refluid.ir.block import Block
from refluid.ir.described import Described
from refluid.ir.editor import Editor
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ir.variable import Parameter, Variable
from refluid.kernels.collecting import without_collections

FLUID_VERSION = 1008005
T = TypeVar("T")
_SKIP_IN_TEST = OpRole.BACKWARD | OpRole.OPTIMIZE | OpRole.LR_SCHED | OpRole.RPC


class Program(Described):
    """A list of blocks; block 0 is the global one. New operators go to the current block."""

    def __init__(self) -> None:
        self.blocks = [Block(self, 0)]
        self.current_block_idx = 0
        self.version: int | None = FLUID_VERSION
        self.op_versions: bytes | None = None
        self.op_role: int = OpRole.FORWARD
        self.op_role_var: Sequence[str] = []
        self._seed = 0
        # What a plain executor runs in its place, if anything: of a fleet's optimizer.
        self._run_as: Any = None
        # Of a transpiler: this trainer and where all are, and options of BuildStrategy for them.
        self._trainers: tuple[int, tuple[str, ...]] | None = None
        self._exchange_options: dict[str, Any] = {}
        # By names of variables: what executors call with the scopes before each run.
        self._before_runs: dict[str, Callable[[Sequence[Any]], None]] = {}
        # Of a transpiler with servers: this trainer's connection to them.
        self._servers: Any = None
        # Of a server's programs: what takes a folder that `fluid.io` is to load for them.
        self._saved_before: Any = None
        self._changes = 0
        self._derived: dict[Callable[[Program], Any], tuple[int, Any]] = {}

    # -- identity -------------------------------------------------------------

    def touch(self) -> None:
        """Marks the program as changed, so that plans made of it are made anew."""
        self._changes += 1

    @property
    def change_count(self) -> int:
        """Grows with every change; part of the key of cached plans."""
        return self._changes

    def derived(self, make: Callable[[Program], T]) -> T:
        """`make(self)`: made once, and anew when the program has changed since."""
        found = self._derived.get(make)
        if found is None or found[0] != self._changes:
            found = self._derived[make] = self._changes, make(self)
        made: T = found[1]
        return made

    @property
    def random_seed(self) -> int:
        """Seed of the program's random operators; 0 draws one per run."""
        return self._seed

    @random_seed.setter
    def random_seed(self, seed: int) -> None:
        if not isinstance(seed, int):
            raise ValueError("Program.random_seed's input seed must be an integer")
        self._seed = seed
        self.touch()

    def global_seed(self, seed: int = 0) -> None:
        """Sets the seed of this program and of those made afterwards in this process."""
        self.random_seed = seed

    def set_before_runs(self, name: str, write: Callable[[Sequence[Any]], None]) -> None:
        """Has `write` called with the scopes before each run, for a variable of that name."""
        self._before_runs[name] = write

    def before_run(self, scopes: Sequence[Any]) -> None:
        """Called by executors before each run."""
        for write in self._before_runs.values():
            write(scopes)

    # -- blocks and variables -------------------------------------------------

    @property
    def num_blocks(self) -> int:
        return len(self.blocks)

    def global_block(self) -> Block:
        """Block 0."""
        return self.blocks[0]

    def block(self, index: int) -> Block:
        """The block of that index."""
        return self.blocks[index]

    def current_block(self) -> Block:
        """The block that new operators go to."""
        return self.blocks[self.current_block_idx]

    def create_block(self, parent_idx: int | None = None) -> Block:
        """Makes a block inside the current (or the given) one and enters it."""
        parent = self.current_block_idx if parent_idx is None else parent_idx
        self.blocks.append(Block(self, len(self.blocks), parent))
        self.current_block_idx = len(self.blocks) - 1
        self.touch()
        return self.current_block()

    def rollback(self) -> None:
        """Leaves the current block for its parent."""
        self.current_block_idx = self.current_block().parent_idx

    def drop_blocks(self, count: int) -> None:
        """Takes all blocks but the first `count` away, which nothing may refer to."""
        del self.blocks[count:]
        self.touch()

    _create_block, _rollback = create_block, rollback

    def blocks_run(self) -> list[Block]:
        """Block 0 and those that its operators run: what took operators away may leave others."""
        found = [self.global_block()]
        for block in found:
            for op in block.ops:
                found += [one for one in op.sub_blocks() if one not in found]
        return found

    def list_vars(self) -> Iterator[Variable]:
        """All variables of all blocks."""
        for block in self.blocks:
            yield from block.vars.values()

    def all_parameters(self) -> list[Parameter]:
        """All parameters."""
        return [parameter for block in self.blocks for parameter in block.iter_parameters()]

    # -- roles ----------------------------------------------------------------

    def state_dict(self, mode: str = "all", scope: Scope | None = None) -> dict[str, LoDTensor]:
        """Values of persistable variables by name, of those that have one in the scope.

        mode: `param` parameters, `opt` the others, `all`. ValueError for another mode.
        """
        return state_in(scope, self._persistables(mode))

    def set_state_dict(self, state_dict: Mapping[str, Any], scope: Scope | None = None) -> None:
        """Overwrites persistable variables. ValueError for another shape or element type."""
        set_state_in(scope, self._persistables("all"), state_dict)

    def _persistables(self, mode: str) -> list[str]:
        if mode not in ("all", "opt", "param"):
            raise ValueError(f"`mode` should be 'param', 'opt' or 'all', but received {mode!r}.")
        return [
            var.name
            for var in self.list_vars()
            if var.persistable
            and var.type == VarType.LOD_TENSOR
            and (mode == "all" or isinstance(var, Parameter) == (mode == "param"))
        ]

    @contextmanager
    def roles(self, role: int, role_var: Sequence[str] = ()) -> Iterator[None]:
        """Operators made within the block get this role (and the variables it is about)."""
        former = self.op_role, self.op_role_var
        self.op_role, self.op_role_var = role, list(role_var)
        try:
            yield
        finally:
            self.op_role, self.op_role_var = former

    def optimized_guard(self, param_and_grads: Sequence[Any]) -> Any:
        """Operators of the optimizer for a parameter and its gradient."""
        names = [
            var if isinstance(var, str) else var.name for var in param_and_grads if var is not None
        ]
        return self.roles(OpRole.OPTIMIZE, names)

    def lr_schedule_guard(self, is_with_opt: bool = False) -> Any:
        """Operators of a learning-rate schedule."""
        return self.roles(OpRole.LR_SCHED | (OpRole.OPTIMIZE if is_with_opt else 0))

    def backward_role_guard(self) -> Any:
        """Operators of the backward pass."""
        return self.roles(OpRole.BACKWARD)

    @property
    def _current_role(self) -> int:
        """The role of operators that are made now."""
        return self.op_role

    @_current_role.setter
    def _current_role(self, role: int) -> None:
        self.op_role = role

    _optimized_guard = optimized_guard
    _lr_schedule_guard = lr_schedule_guard
    _backward_role_guard = backward_role_guard

    # -- copies ---------------------------------------------------------------

    def clone(self, for_test: bool = False) -> Program:
        """A copy that shares nothing but the values in scopes.

        With `for_test` operators such as dropout and batch_norm switch to inference. After
        `minimize` backward, optimizer and learning-rate schedule operators are left out, too; a
        schedule made before `minimize` stays in a copy made before it, and counts its runs.
        """
        copy = Program()
        left = _SKIP_IN_TEST if for_test and self._has_role(OpRole.BACKWARD) else 0
        copy._seed, copy.version, copy.op_versions = self._seed, self.version, self.op_versions
        copy.blocks = [Block(copy, block.idx, block.parent_idx) for block in self.blocks]
        with without_collections():
            for block, twin in zip(self.blocks, copy.blocks, strict=True):
                twin.forward_block_idx = block.forward_block_idx
                twin.vars = {name: var.copy_to(twin) for name, var in block.vars.items()}
                kept = [op for op in block.ops if not op.role & left]
                Editor(twin).assign(copy_op(op, twin) for op in kept)
        if for_test:
            copy.inference_mode()
        else:
            copy._before_runs = dict(self._before_runs)
        return copy

    def _has_role(self, role: int) -> bool:
        return any(op.role & role for block in self.blocks for op in block.ops)

    def inference_mode(self) -> None:
        """Sets `is_test` wherever an operator has it, and drops variables nothing uses."""
        for block in self.blocks:
            for op in block.ops:
                if op.attr_types.get("is_test") == AttrType.BOOLEAN:
                    op.set_attr("is_test", True)
        used = {name for block in self.blocks for op in block.ops for name in op.arg_names}
        for block in self.blocks:
            Editor(block).forget_variables(
                name
                for name, var in list(block.vars.items())
                if name not in used and not var.is_data and name.endswith(GRAD)
            )

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:  # noqa: ARG002
        """The program in text form (`refluid.ir.text`); `with_details` has comments in it."""
        from refluid.ir.text import print_program

        return print_program(self, details=with_details)

    def serialize_to_string(self) -> bytes:
        """The program as a ProgramDesc message."""
        from refluid.ir.desc import encode_program

        return encode_program(self).SerializeToString()

    @staticmethod
    def parse_from_string(binary_str: bytes) -> Program:
        """Reads a ProgramDesc message; EnforceNotMet where it is none."""
        from refluid.ir.reading import decode_into

        program = Program()
        with without_collections():
            decode_into(program, binary_str)
        return program

    def __str__(self) -> str:
        return self.to_string()

    __repr__ = __str__


def copy_op(op: Operator, block: Block) -> Operator:
    """The same operator in another block; sub-blocks become that program's of equal index."""
    copy = Operator(block, op.type, op.inputs, op.outputs)
    blocks = block.program.blocks
    for name, value in op.attrs.items():
        kind = op.attr_types[name]
        if kind == AttrType.BLOCK:
            value = blocks[value.idx]
        elif kind == AttrType.BLOCKS:
            value = [blocks[one.idx] for one in value]
        elif isinstance(value, list):
            value = list(value)
        copy.attrs[name] = value
    copy.attr_types = dict(op.attr_types)
    copy.is_target, copy.alias = op.is_target, op.alias
    return copy
