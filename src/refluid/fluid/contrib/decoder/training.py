"""TrainingDecoder: a StateCell run over given sequences, by a DynamicRNN."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from refluid.fluid.contrib.decoder.state_cell import InitState, Keeper, StateCell
from refluid.fluid.functions.control.dynamic_rnn import DynamicRNN
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


class _StateMemory:
    """A state as memory of a DynamicRNN."""

    def __init__(self, rnn: DynamicRNN, init: InitState) -> None:
        self._rnn = rnn
        self._memory = rnn.memory(init=init.value, need_reorder=init.need_reorder)

    def get(self) -> Variable:
        """The memory."""
        return self._memory

    def update(self, value: Variable) -> None:
        """Updates the memory."""
        self._rnn.update_memory(self._memory, value)


class TrainingDecoder:
    """Steps through the target sequences.

        decoder = TrainingDecoder(cell)
        with decoder.block():
            word = decoder.step_input(targets)
            decoder.state_cell.compute_state(inputs={"x": word})
            decoder.output(layers.fc(decoder.state_cell.out_state(), 100, act="softmax"))
            decoder.state_cell.update_states()
        scores = decoder()

    Raises ValueError for methods called outside of the block.
    """

    BEFORE_DECODER, IN_DECODER, AFTER_DECODER = range(3)

    def __init__(self, state_cell: StateCell, name: str | None = None) -> None:
        self._helper = LayerHelper("training_decoder", name=name)
        self._status = self.BEFORE_DECODER
        self._rnn = DynamicRNN()
        self._state_cell = state_cell

    @contextmanager
    def block(self) -> Iterator[None]:
        """Layers within the `with` block are those of one step."""
        if self._status != self.BEFORE_DECODER:
            raise ValueError("decoder.block() can only be invoked once")
        self._status = self.IN_DECODER
        with self._rnn.block():
            self._state_cell.enter(self._keeper)
            yield
            self._state_cell.leave()
        self._status = self.AFTER_DECODER

    def _keeper(self, init: InitState) -> Keeper:
        return _StateMemory(self._rnn, init)

    @property
    def state_cell(self) -> StateCell:
        """The cell, in the block."""
        self._require_block("state_cell")
        return self._state_cell

    @property
    def dynamic_rnn(self) -> DynamicRNN:
        """The network that runs the steps."""
        return self._rnn

    @property
    def type(self) -> str:
        """`training`"""
        return "training"

    def step_input(self, x: Variable) -> Variable:
        """The step's rows of the sequences of `x`."""
        self._require_block("step_input")
        return self._rnn.step_input(x)

    def static_input(self, x: Variable) -> Variable:
        """`x` as a whole, in each step."""
        self._require_block("static_input")
        return self._rnn.static_input(x)

    def output(self, *outputs: Variable) -> None:
        """Makes variables results."""
        self._require_block("output")
        self._rnn.output(*outputs)

    def _require_block(self, what: str) -> None:
        if self._status != self.IN_DECODER:
            raise ValueError(f"{what} should be invoked inside block of TrainingDecoder object.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The output, or a list of them where there are several."""
        if self._status != self.AFTER_DECODER:
            raise ValueError("Output of training decoder can only be visited outside the block.")
        return self._rnn(*args, **kwargs)
