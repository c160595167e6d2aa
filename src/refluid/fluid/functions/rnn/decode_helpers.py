"""Helpers of `BasicDecoder`: where a step's tokens and the next inputs come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from refluid.core.dtypes import dtype_name
from refluid.fluid.functions.control.structures import map_structure
from refluid.fluid.functions.loss.sampled import sampling_id
from refluid.fluid.functions.math.comparison import equal, less_equal
from refluid.fluid.functions.math.ordering import argmax
from refluid.fluid.functions.nn.activation import softmax
from refluid.fluid.functions.rnn.decoders import Decoder
from refluid.fluid.functions.tensor.creation import fill_constant, fill_constant_batch_size_like
from refluid.fluid.functions.tensor.padding import pad
from refluid.fluid.functions.tensor.shaping import squeeze
from refluid.fluid.functions.tensor.slicing import slice as cut
from refluid.ir.variable import Variable


class DecodeHelper:
    """Base of helpers. All values may be structures of variables."""

    def initialize(self) -> tuple[Any, Any]:
        """(first inputs, which are finished from the start)."""
        raise NotImplementedError

    def sample(self, time: Variable, outputs: Any, states: Any) -> Variable:
        """The tokens of a step."""
        raise NotImplementedError

    def next_inputs(
        self, time: Variable, outputs: Any, states: Any, sample_ids: Variable
    ) -> tuple[Any, Any, Any]:
        """(which are finished, next inputs, next states)."""
        raise NotImplementedError


class TrainingHelper(DecodeHelper):
    """The next inputs are given: teacher forcing.

    inputs: structure of (batch, time, ...), or of (time, batch, ...) if `time_major`.
    sequence_length: (batch,).
    """

    def __init__(self, inputs: Any, sequence_length: Variable, time_major: bool = False) -> None:
        self.inputs, self.sequence_length = inputs, sequence_length
        self.time_major = time_major
        self._axis = 0 if time_major else 1
        self.inputs_ = map_structure(self._one_more, inputs)

    def _one_more(self, x: Variable) -> Variable:
        """A step of zeros after the last one, which the last step takes as its next input."""
        paddings = [0, 0] * len(x.shape)
        paddings[2 * self._axis + 1] = 1
        return pad(x, paddings=paddings)

    def initialize(self) -> tuple[Any, Any]:
        """The first step's inputs; sequences of length 0 are finished."""
        none = fill_constant([1], dtype_name(self.sequence_length.dtype), 0)
        finished = equal(self.sequence_length, none)
        return map_structure(self._first, self.inputs), finished

    def _first(self, x: Variable) -> Variable:
        first: Variable = x[0] if self.time_major else x[:, 0]
        return first

    def sample(self, time: Variable, outputs: Any, states: Any) -> Variable:
        """The most probable tokens."""
        return argmax(outputs, axis=-1)

    def next_inputs(
        self, time: Variable, outputs: Any, states: Any, sample_ids: Variable
    ) -> tuple[Any, Any, Any]:
        """The inputs of the next time step, whatever the tokens are."""
        from refluid.fluid.functions.tensor.assignment import cast

        after = time + 1
        length = self.sequence_length
        same = after if after.dtype == length.dtype else cast(after, dtype_name(length.dtype))
        finished = less_equal(length, same)

        def at(x: Variable) -> Variable:
            part = cut(x, axes=[self._axis], starts=[after], ends=[after + 1])
            return squeeze(part, axes=[self._axis])

        return finished, map_structure(at, self.inputs_), states


class GreedyEmbeddingHelper(DecodeHelper):
    """The next input is the embedding of the most probable token.

    start_tokens: (batch,). A sequence ends with `end_token`.
    """

    def __init__(
        self, embedding_fn: Callable[[Variable], Any], start_tokens: Variable, end_token: int
    ) -> None:
        self.embedding_fn, self.start_tokens = embedding_fn, start_tokens
        self.end_token = fill_constant([1], "int64", end_token)

    def initialize(self) -> tuple[Any, Any]:
        """Embeddings of the start tokens; nothing is finished."""
        finished = fill_constant_batch_size_like(
            input=self.start_tokens, shape=[-1], dtype="bool", value=False, force_cpu=True
        )
        return self.embedding_fn(self.start_tokens), finished

    def sample(self, time: Variable, outputs: Any, states: Any) -> Variable:
        """The most probable tokens."""
        return argmax(outputs, axis=-1)

    def next_inputs(
        self, time: Variable, outputs: Any, states: Any, sample_ids: Variable
    ) -> tuple[Any, Any, Any]:
        """Embeddings of the tokens."""
        finished = equal(sample_ids, self.end_token)
        finished.stop_gradient = True
        return finished, self.embedding_fn(sample_ids), states


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """The next input is the embedding of a token drawn by its probability.

    softmax_temperature: outputs are divided by it; small ones make likely tokens more likely.
    """

    def __init__(
        self,
        embedding_fn: Callable[[Variable], Any],
        start_tokens: Variable,
        end_token: int,
        softmax_temperature: float | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(embedding_fn, start_tokens, end_token)
        self.softmax_temperature = softmax_temperature
        self.seed = 0 if seed is None else seed

    def sample(self, time: Variable, outputs: Any, states: Any) -> Variable:
        """Tokens drawn at random."""
        scaled = outputs
        if self.softmax_temperature is not None:
            scaled = outputs / self.softmax_temperature
        kind = dtype_name(self.start_tokens.dtype)
        sampled: Variable = sampling_id(softmax(scaled), seed=self.seed, dtype=kind)
        return sampled


class BasicDecoderOutput(NamedTuple):
    """Of each step: what the cell gives, and the tokens."""

    cell_outputs: Any
    sample_ids: Any


class BasicDecoder(Decoder):
    """A cell, and a helper that says which token comes next.

    output_fn: applied to the cell's outputs before a token is chosen.
    """

    OutputWrapper = BasicDecoderOutput

    def __init__(
        self,
        cell: Any,
        helper: DecodeHelper,
        output_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        self.cell, self.helper, self.output_fn = cell, helper, output_fn

    def initialize(self, initial_cell_states: Any) -> tuple[Any, Any, Any]:
        """The helper's first inputs, and the cell's states as they are given."""
        inputs, finished = self.helper.initialize()
        return inputs, initial_cell_states, finished

    def step(
        self, time: Variable, inputs: Any, states: Any, **kwargs: Any
    ) -> tuple[Any, Any, Any, Any]:
        """One step of the cell, and one of the helper."""
        outputs, states = self.cell(inputs, states, **kwargs)
        if self.output_fn is not None:
            outputs = self.output_fn(outputs)
        tokens = self.helper.sample(time=time, outputs=outputs, states=states)
        tokens.stop_gradient = True
        finished, next_inputs, next_states = self.helper.next_inputs(
            time=time, outputs=outputs, states=states, sample_ids=tokens
        )
        return BasicDecoderOutput(outputs, tokens), next_states, next_inputs, finished
