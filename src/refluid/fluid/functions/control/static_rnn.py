"""StaticRNN: a block that runs once per time step of sequences of equal length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from refluid.build import apply, check_variables, op
from refluid.core import names
from refluid.core.dtypes import VarType
from refluid.fluid.functions.control.conditional import (
    BlockGuard,
    outer_variables,
    read_from_outside,
)
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable


@dataclass
class StaticRNNMemoryLink:
    """What the first step starts with, the value a step begins with, and ends with."""

    init: Variable
    pre_mem: Variable
    mem: Variable | None = None


class StaticRNN:
    """A recurrent network whose sequences all have the same length, time first.

        rnn = fluid.layers.StaticRNN()
        with rnn.step():
            word = rnn.step_input(x)                      # x: (time, batch, width)
            prev = rnn.memory(shape=[-1, 8], batch_ref=word)
            hidden = fluid.layers.fc([word, prev], 8, act="relu")
            rnn.update_memory(prev, hidden)
            rnn.step_output(hidden)
        out = rnn()                                       # (time, batch, 8)

    Raises ValueError for methods called outside of `step`, for inputs of different lengths, and
    for memories that are never updated.
    """

    BEFORE_RNN_BLOCK, IN_RNN_BLOCK, AFTER_RNN_BLOCK = range(3)

    def __init__(self, name: str | None = None) -> None:
        self.helper = LayerHelper("static_rnn", name=name)
        self.memories: dict[str, StaticRNNMemoryLink] = {}
        self.inputs: list[Variable] = []
        self.outputs: list[Variable] = []
        self.status = self.BEFORE_RNN_BLOCK
        self.seq_len: int | None = None

    @contextmanager
    def step(self) -> Iterator[None]:
        """Layers within the `with` block are those of one time step."""
        program = self.helper.main_program
        with BlockGuard(program):
            self.status = self.IN_RNN_BLOCK
            yield
            self.status = self.AFTER_RNN_BLOCK
            inside = program.current_block()
            states = self._states()
        self._append(inside, program.current_block(), states)

    def _require_step(self, method: str) -> None:
        if self.status != self.IN_RNN_BLOCK:
            raise ValueError(f"You must invoke {method} in rnn block")

    def memory(
        self,
        init: Variable | None = None,
        shape: Sequence[int] | None = None,
        batch_ref: Variable | None = None,
        init_value: float = 0.0,
        init_batch_dim_idx: int = 0,
        ref_batch_dim_idx: int = 1,
    ) -> Variable:
        """The value that `update_memory` gave in the step before, at first `init`.

        Without `init`: `init_value` everywhere, in `shape`, whose dimension
        `init_batch_dim_idx` is as long as dimension `ref_batch_dim_idx` of `batch_ref`.
        An `init` that is computed within the step, such as a part of a variable outside, is
        computed before the first step.
        """
        self._require_step("memory")
        if init is None:
            if shape is None or batch_ref is None:
                raise ValueError("if init is None, memory at least need shape and batch_ref")
            init = self._boot(
                list(shape), batch_ref, init_value, init_batch_dim_idx, ref_batch_dim_idx
            )
        check_variables("StaticRNN.memory", {"init": init})
        init = self._before_steps(init)
        value = self.helper.create_variable(
            name=names.generate(f"{self.helper.name}@mem"), dtype=init.dtype, shape=init.shape
        )
        self.memories[value.name] = StaticRNNMemoryLink(init, value)
        return value

    def _before_steps(self, init: Variable) -> Variable:
        """Has what computes `init` in the step's block done in the block around it."""
        inside, parent = self.helper.main_program.current_block(), self._parent()
        needed, moved = {init.name}, list[Operator]()
        for one in reversed(inside.ops):
            if not needed.isdisjoint(one.output_arg_names):
                moved.append(one)
                needed.update(one.input_arg_names)
        made = {name for one in moved for name in one.output_arg_names}
        within = sorted(name for name in needed - made if name in inside.vars)
        if within:
            raise ValueError(
                f"StaticRNN.memory: init {init.name!r} is there before the first step, but "
                f"depends on {', '.join(within)} of the step"
            )
        if not moved:
            return init
        Editor(inside).remove(*moved)
        variables = {name: inside.vars[name] for name in made if name in inside.vars}
        Editor(inside).forget_variables(variables)
        for name, var in variables.items():
            outer = parent.create_var(name=name, shape=var.shape, dtype=var.dtype)
            outer.stop_gradient = var.stop_gradient
        for one in reversed(moved):
            inputs, outputs = (
                {slot: [parent.var_recursive(name) for name in of] for slot, of in slots.items()}
                for slots in (one.inputs, one.outputs)
            )
            apply(one.type, inputs, outputs, one.attrs, block=parent)
        return parent.var_recursive(init.name)

    def _boot(
        self, shape: list[int], batch_ref: Variable, value: float, dim: int, ref_dim: int
    ) -> Variable:
        check_variables("StaticRNN.memory", {"batch_ref": batch_ref})
        parent = self._parent()
        boot = parent.create_var(
            name=names.generate(f"{self.helper.name}@memory_boot"),
            shape=shape,
            dtype=batch_ref.dtype,
            persistable=False,
        )
        outer = parent.find_var_recursive(batch_ref.name)
        attrs = {
            "value": value,
            "shape": shape,
            "dtype": int(boot.dtype),
            "input_dim_idx": ref_dim,
            "output_dim_idx": dim,
        }
        inputs, sized = {"Input": outer or batch_ref}, "fill_constant_batch_size_like"
        apply(sized, inputs, {"Out": boot}, attrs, block=parent)
        return boot

    def step_input(self, x: Variable) -> Variable:
        """The step's part of `x`, (time, ...): without the first dimension."""
        self._require_step("step_input")
        check_variables("StaticRNN.step_input", {"x": x})
        if self.seq_len is None:
            self.seq_len = x.shape[0]
        elif x.shape[0] != -1 and self.seq_len != x.shape[0]:
            raise ValueError(
                f"Static RNN only take fix seq_len input: {x.name} has {x.shape[0]} steps, an "
                f"input before it {self.seq_len}"
            )
        part = self.helper.create_variable(
            name=x.name, dtype=x.dtype, shape=list(x.shape[1:]), type=x.type
        )
        self.inputs.append(part)
        return part

    def step_output(self, o: Variable) -> None:
        """Makes `o` a result: all its steps are an output, (time, ...)."""
        self._require_step("step_output")
        check_variables("StaticRNN.step_output", {"o": o})
        out = self._named_again(o)
        outer = self._parent().create_var(
            name=out.name, shape=[self._length(), *out.shape], dtype=out.dtype
        )
        self.outputs.append(outer)

    def _length(self) -> int:
        return -1 if self.seq_len is None else self.seq_len

    def _named_again(self, var: Variable) -> Variable:
        return op("rnn_memory_helper", {"X": [var]}, {"dtype": int(var.dtype)}, layer=self.helper)

    def output(self, *outputs: Variable) -> None:
        """`step_output` of each."""
        for one in outputs:
            self.step_output(one)

    def update_memory(self, mem: Variable, var: Variable) -> None:
        """The next step's `mem` is `var`."""
        check_variables("StaticRNN.update_memory", {"mem": mem, "var": var})
        if mem.name not in self.memories:
            raise ValueError(f"{mem.name} is no memory of this StaticRNN")
        self.memories[mem.name].mem = var

    def _parent(self) -> Block:
        parent = self.helper.main_program.current_block().parent
        assert parent is not None
        return parent

    def _states(self) -> list[Variable]:
        states: list[Variable] = []
        for memory in self.memories.values():
            if memory.mem is None:
                raise ValueError(f"memory {memory.pre_mem.name} of a StaticRNN is never updated")
            states.append(self._named_again(memory.mem))
        return states

    def _append(self, inside: Block, parent: Block, states: list[Variable]) -> None:
        own = {var.name for var in self.inputs} | set(self.memories)
        read = [name for name in read_from_outside(inside) if name not in own]
        inputs = {
            "inputs": [parent.var_recursive(var.name) for var in self.inputs],
            "initial_states": [memory.init for memory in self.memories.values()],
            "parameters": outer_variables(read, parent),
        }
        scopes = parent.create_var(type=VarType.STEP_SCOPES)
        attrs = {
            "has_states": bool(self.memories),
            "ex_states": list(self.memories),
            "states": [state.name for state in states],
            "sub_block": inside,
        }
        outputs = {"outputs": self.outputs, "step_scopes": scopes}
        apply("recurrent", inputs, outputs, attrs, block=parent)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The output, or a list of them where there are several."""
        if self.status != self.AFTER_RNN_BLOCK:
            raise ValueError("RNN output can only be retrieved after rnn block")
        if not self.outputs:
            raise ValueError("RNN has no output")
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs
