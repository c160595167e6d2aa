"""One operator measured: the program that runs it, and what PyTorch does for the same result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import refluid.fluid as fluid
from refluid.core.offsets import Offsets
from refluid.ops.registry import find

Array = npt.NDArray[Any]
Random = np.random.RandomState
Build = Callable[[Mapping[str, Any]], Any]
HALF = 0.5


class Rows(NamedTuple):
    """Rows of sequences with their lengths; `outer` lengths of a level above."""

    values: Any
    lengths: list[int]
    outer: list[int] | None = None

    @property
    def lod(self) -> list[list[int]]:
        return [self.lengths] if self.outer is None else [self.outer, self.lengths]


@dataclass(frozen=True)
class Case:
    """An operator at a realistic size.

    inputs: gives the arrays (or `Rows`) by variable name. build: appends the operator to the
    default program and returns its result. peer: computes the same from the inputs as tensors, in
    their order. wrt: inputs whose gradients are wanted; without them there is no backward run.
    held: inputs that lie in the scope as parameters do, others are fed. same: results are
    compared; they can't be where they are random. updates: both sides train by themselves, so one
    run is forward, backward and update. hands_on: a gradient is what flows in; both sides make that
    by an operator, for what is fed and fetched as it is would be copied, as in no program.
    reason: why refluid takes over 1.3 times as long.
    """

    name: str
    inputs: Callable[[Random], Mapping[str, Any]]
    build: Build
    peer: Callable[..., Any]
    wrt: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    same: bool = True
    updates: bool = False
    hands_on: bool = False
    reason: str = ""

    def values(self) -> Mapping[str, Any]:
        return self.inputs(np.random.RandomState(7))


def op(op_type: str, result: str = "Out", **attrs: Any) -> Build:
    """Appends one operator; an input `X1` goes to slot X, `X` too, outputs are all its slots."""

    def build(given: Mapping[str, Any]) -> Any:
        definition = find(op_type)
        assert definition is not None, op_type
        block = fluid.default_main_program().current_block()
        inputs: dict[str, list[Any]] = {}
        known = {slot.name for slot in definition.inputs}
        for name, var in given.items():
            slot = name if name in known else name.rstrip("0123456789")
            inputs.setdefault(slot, []).append(var)
        outputs = {
            slot.name: inputs.get(definition.mutates.get(slot.name, ""))
            or [block.create_var(name=f"made.{slot.name}", dtype="float32")]
            for slot in definition.outputs
            if slot.name != "ReserveSpace"
        }
        block.append_op(type=op_type, inputs=inputs, outputs=outputs, attrs=attrs)
        return outputs[result][0]

    return build


def draw(**shapes: Sequence[int]) -> Callable[[Random], Mapping[str, Any]]:
    """Normal values of those shapes."""

    def inputs(random: Random) -> dict[str, Any]:
        return {name: normal(random, *shape) for name, shape in shapes.items()}

    return inputs


def normal(random: Random, *shape: int) -> Array:
    return random.standard_normal(shape).astype("float32")


def lengths_of(random: Random, count: int, low: int, high: int) -> list[int]:
    return [int(one) for one in random.randint(low, high + 1, count)]


class Ours:
    """A program of the one operator, and of its gradient where `gradient` flows into it."""

    def __init__(self, case: Case, gradient: Array | Rows | None) -> None:
        values = case.values()
        self.scope, self.exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        main, startup = fluid.Program(), fluid.Program()
        main.random_seed = startup.random_seed = 1
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            block = main.global_block()
            given = {name: _declare(block, name, one, case) for name, one in values.items()}
            self.fetches = [case.build(given)]
            if gradient is not None:
                flowing = block.create_var(
                    name="flowing", shape=self.fetches[0].shape, dtype="float32"
                )
                wanted = [given[name] for name in case.wrt]
                arrives = fluid.layers.scale(flowing, HALF) if case.hands_on else flowing
                self.fetches += fluid.gradients(self.fetches[:1], wanted, [arrives])
                values = {**values, "flowing": gradient}
        self.exe.run(startup, scope=self.scope)
        for name in case.held:
            self.scope.var(name).get_tensor().set(values[name], fluid.CPUPlace())
        self.main = main
        self.feed = {name: _fed(one) for name, one in values.items() if name not in case.held}
        self.ragged = [one for one in self.feed.values() if isinstance(one, fluid.LoDTensor)]

    def __call__(self) -> None:
        """One run, of which all results are fetched: what nobody reads might not be computed."""
        for one in self.ragged:  # what is made of sequences is made of each batch's anew
            one.levels = tuple(Offsets(level.array) for level in one.levels)
        self.results()

    def results(self) -> list[Any]:
        """The result, and the gradients."""
        return self.exe.run(
            self.main, self.feed, self.fetches, scope=self.scope, return_numpy=False
        )


class Peer:
    """PyTorch's run; `gradient` flows into its result where there is one."""

    def __init__(self, case: Case, gradient: Array | Rows | None) -> None:
        self.case = case
        self.flowing = None if gradient is None else _values(_as_tensor(gradient))
        self.arguments = [_as_tensor(one) for one in case.values().values()]
        leaves = dict(zip(case.values(), self.arguments, strict=True))
        self.leaves = [_values(leaves[name]) for name in case.wrt if self.flowing is not None]
        for leaf in self.leaves:
            leaf.requires_grad_()

    def __call__(self) -> None:
        self.results()

    def results(self) -> list[Any]:
        """The result, and the gradients."""
        if self.case.updates:
            return [self.case.peer(*self.arguments)]
        if self.flowing is None:
            with torch.no_grad():
                return [self.case.peer(*self.arguments)]
        out = self.case.peer(*self.arguments)
        arrives = self.flowing * HALF if self.case.hands_on else self.flowing
        return [out.detach(), *torch.autograd.grad(out, self.leaves, arrives)]


def gradient_like(result: Any) -> Array | Rows:
    """Random values of the shape and with the sequences of a result."""
    random = np.random.RandomState(3)
    made = normal(random, *result.shape())
    lengths = result.recursive_sequence_lengths()
    if not lengths:
        return made
    return Rows(made, lengths[-1], lengths[0] if len(lengths) > 1 else None)


def _values(given: Any) -> Tensor:
    tensor: Tensor = given.values if isinstance(given, Rows) else given
    return tensor


def _as_tensor(value: Any) -> Any:
    if isinstance(value, Rows):
        return value._replace(values=torch.from_numpy(value.values.copy()))
    return torch.from_numpy(value.copy())


def _fed(value: Any) -> Any:
    if not isinstance(value, Rows):
        return torch.from_numpy(value.copy())
    return fluid.create_lod_tensor(value.values, value.lod, fluid.CPUPlace())


def _declare(block: Any, name: str, value: Any, case: Case) -> Any:
    array, level = (value.values, len(value.lod)) if isinstance(value, Rows) else (value, 0)
    shape = [-1, *array.shape[1:]] if level else list(array.shape)
    var = block.create_var(
        name=name,
        shape=shape,
        dtype=str(array.dtype),
        lod_level=level,
        persistable=name in case.held,
    )
    var.is_data = name not in case.held
    var.stop_gradient = name not in case.wrt
    return var
