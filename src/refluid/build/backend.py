"""Where operators go: into a block of a program, or to a backend that runs them at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from refluid.ir.at_once import of_no_program
from refluid.ir.block import Block
from refluid.ir.defaults import default_main_program, default_startup_program
from refluid.ir.operator import Operator
from refluid.ir.variable import Parameter, Variable

Slots = Mapping[str, Any]
Attributes = Mapping[str, Any] | None


MISSED = object()


class Backend(Protocol):
    """What layers need of the place where they put operators.

    names_results: whether results have names from the start. fuses: whether layers may use the
    operators that programs have only after passes, or never. training: whether operators that
    differ in training and inference do as in training, where nothing else says it.
    """

    names_results: bool
    training: bool

    @property
    def fuses(self) -> bool: ...

    def at(self, block: Block) -> Backend:
        """What appends to a block in its place."""

    def variable(self, *args: Any, **options: Any) -> Variable:
        """A variable for results, with the arguments of `Variable`."""

    def state(self, *args: Any, **options: Any) -> Variable:
        """A variable that outlasts the block it is made in."""

    def parameter(self, initializer: Any, options: dict[str, Any]) -> Variable:
        """A parameter with its first value; that of this name again where there is one."""

    def initialise(self, var: Variable, initializer: Any) -> None:
        """Gives a variable that `state` made its first value."""

    def direct(
        self,
        type: str,
        inputs: Slots | None,
        attrs: Attributes,
        makes: Any,
        how: Mapping[str, Any],
    ) -> Any:
        """What `op` returns, of a call that it has seen alike; MISSED for any other."""

    def run(self, type: str, inputs: Slots | None, outputs: Slots, attrs: Attributes) -> Any:
        """Appends or runs an operator that writes `outputs`."""


class Blocks:
    """Appends to a block, the current one of the default main program unless another is given.

    index: the position where operators go, at the end unless given.
    """

    names_results, fuses, training = True, False, True

    def __init__(self, block: Block | None = None, index: int | None = None) -> None:
        self._block, self._index = block, index

    @property
    def block(self) -> Block:
        """Where operators go."""
        return default_main_program().current_block() if self._block is None else self._block

    def at(self, block: Block) -> Backend:
        return Blocks(block)

    def variable(self, *args: Any, **options: Any) -> Variable:
        return self.block.create_var(*args, **options)

    def state(self, *args: Any, **options: Any) -> Variable:
        return default_main_program().global_block().create_var(*args, **options)

    def parameter(self, initializer: Any, options: dict[str, Any]) -> Variable:
        _start(Parameter, options, initializer)
        return default_main_program().global_block().create_parameter(**options)

    def initialise(self, var: Variable, initializer: Any) -> None:
        options = {"name": var.name, "type": var.type, "dtype": var.dtype, "shape": var.shape}
        _start(Variable, options | {"persistable": True}, initializer)

    def direct(self, *_call: Any) -> Any:
        return MISSED

    def run(self, type: str, inputs: Slots | None, outputs: Slots, attrs: Attributes) -> Operator:
        block = self.block
        index = len(block.ops) if self._index is None else self._index
        for given in (inputs or {}).values():
            for var in given if isinstance(given, list | tuple) else (given,):
                at_once = getattr(var, "kind", None) == "eager"
                if at_once and block.find_var_recursive(var.name) is None:
                    raise of_no_program(type, var.name)
        return block.insert_op(index, type, inputs, outputs, attrs)


def _start(kind: Any, options: dict[str, Any], initializer: Any) -> None:
    """Puts a variable into the startup program, and what initialises it, but only once."""
    block = default_startup_program().global_block()
    former = block.vars.get(options["name"])
    if former is not None and former.shape != tuple(options["shape"]):
        raise ValueError(
            f"parameter {former.name!r} exists with shape {list(former.shape)} and can't "
            f"be shared as {list(options['shape'])}; give one of the two another name"
        )
    if former is None or not any(former.name in op.output_arg_names for op in block.ops):
        initializer(kind(block, **options), block)


_backend: Backend = Blocks()


def backend() -> Backend:
    """Where operators go now."""
    return _backend


def at_once() -> bool:
    """Whether operators run at once instead of being appended to a program."""
    return not isinstance(_backend, Blocks)


@contextmanager
def using(other: Backend) -> Iterator[None]:
    """Operators go to another backend within the `with`."""
    global _backend
    former, _backend = _backend, other
    try:
        yield
    finally:
        _backend = former
