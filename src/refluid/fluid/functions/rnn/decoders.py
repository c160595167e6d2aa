"""Decoders: what `dynamic_decode` runs step by step; beam search."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from refluid.core.dtypes import dtype_name
from refluid.fluid.functions.control.structures import flatten, map_structure
from refluid.fluid.functions.math.comparison import equal
from refluid.fluid.functions.math.elementwise import (
    elementwise_add,
    elementwise_floordiv,
    elementwise_mod,
    elementwise_mul,
    logical_not,
    logical_or,
)
from refluid.fluid.functions.math.ordering import topk
from refluid.fluid.functions.nn.activation import log, softmax
from refluid.fluid.functions.rnn.beam import gather_tree
from refluid.fluid.functions.tensor.assignment import assign, cast
from refluid.fluid.functions.tensor.creation import (
    fill_constant,
    fill_constant_batch_size_like,
    zeros_like,
)
from refluid.fluid.functions.tensor.creation import range as numbers
from refluid.fluid.functions.tensor.joining import stack
from refluid.fluid.functions.tensor.shaping import expand, reshape, shape, transpose, unsqueeze
from refluid.fluid.functions.tensor.slicing import gather_nd
from refluid.ir.variable import Variable

_NEVER = -1e9


class Decoder:
    """Base of decoders. All values may be structures of variables."""

    def initialize(self, inits: Any) -> tuple[Any, Any, Any]:
        """(first inputs, first states, which are finished from the start)."""
        raise NotImplementedError

    def step(
        self, time: Variable, inputs: Any, states: Any, **kwargs: Any
    ) -> tuple[Any, Any, Any, Any]:
        """(outputs, next states, next inputs, which are finished)."""
        raise NotImplementedError

    def finalize(self, outputs: Any, final_states: Any, sequence_lengths: Any) -> Any:
        """What becomes of (outputs of all steps, last states); as they are by default."""
        raise NotImplementedError


class BeamSearchOutput(NamedTuple):
    """Of each step and beam: the score, the token, and the beam it goes on from."""

    scores: Any
    predicted_ids: Any
    parent_ids: Any


class BeamSearchState(NamedTuple):
    """Of each beam: the cell's state, log probability, whether it is finished, length."""

    cell_states: Any
    log_probs: Any
    finished: Any
    lengths: Any


class BeamSearchDecoder(Decoder):
    """Keeps the `beam_size` most probable sequences of each example.

    cell: gives outputs of which `output_fn` makes scores (..., vocabulary). embedding_fn: makes
    the cell's inputs of tokens (batch, beam). Variables of shape (batch, ...) that the cell uses
    beside its states are repeated by `tile_beam_merge_with_batch`. The result of
    `dynamic_decode` are the tokens, (batch, time, beam).
    """

    OutputWrapper, StateWrapper = BeamSearchOutput, BeamSearchState

    def __init__(
        self,
        cell: Any,
        start_token: int,
        end_token: int,
        beam_size: int,
        embedding_fn: Callable[[Variable], Any] | None = None,
        output_fn: Callable[[Any], Variable] | None = None,
    ) -> None:
        self.cell = cell
        self.start_token, self.end_token = start_token, end_token
        self.beam_size = beam_size
        self.embedding_fn, self.output_fn = embedding_fn, output_fn

    @staticmethod
    def tile_beam_merge_with_batch(x: Variable, beam_size: int) -> Variable:
        """(batch, ...) -> (batch * beam_size, ...), each row `beam_size` times."""
        x = unsqueeze(x, [1])
        x = expand(x, [1, beam_size] + [1] * (len(x.shape) - 2))
        rank = len(x.shape)
        x = transpose(x, [*range(2, rank), 0, 1])
        x = reshape(x, shape=[0] * (rank - 2) + [-1])
        return transpose(x, [rank - 2, *range(rank - 2)])

    def _expand_to_beam_size(self, x: Variable) -> Variable:
        """(batch, ...) -> (batch, beam, ...)."""
        x = unsqueeze(x, [1])
        return expand(x, [1, self.beam_size] + [1] * (len(x.shape) - 2))

    @staticmethod
    def _merge_batch_beams(x: Variable) -> Variable:
        """(batch, beam, ...) -> (batch * beam, ...)."""
        return reshape(x, shape=[-1, *x.shape[2:]])

    def _split_batch_beams(self, x: Variable) -> Variable:
        """(batch * beam, ...) -> (batch, beam, ...)."""
        return reshape(x, shape=[-1, self.beam_size, *x.shape[1:]])

    def initialize(self, initial_cell_states: Any) -> tuple[Any, Any, Any]:
        """The first inputs are the start token; only the first beam is probable."""
        state = flatten(initial_cell_states)[0]
        self.batch_size = shape(state)[0]
        self.start_token_tensor = fill_constant([1], "int64", self.start_token)
        self.end_token_tensor = fill_constant([1], "int64", self.end_token)
        cell_states = map_structure(self._expand_to_beam_size, initial_cell_states)
        tokens = self._expand_to_beam_size(expand(self.start_token_tensor, [self.batch_size]))
        scores = assign(np.array([[0.0] + [_NEVER] * (self.beam_size - 1)], dtype="float32"))
        log_probs = expand(scores, [self.batch_size, 1])
        if dtype_name(state.dtype) == "float64":
            log_probs = cast(log_probs, "float64")
        finished = fill_constant_batch_size_like(
            input=state, shape=[-1, self.beam_size], dtype="bool", value=False, force_cpu=True
        )
        lengths = zeros_like(tokens)
        inputs = self.embedding_fn(tokens) if self.embedding_fn else tokens
        return inputs, BeamSearchState(cell_states, log_probs, finished, lengths), finished

    def step(
        self, time: Variable, inputs: Any, states: Any, **kwargs: Any
    ) -> tuple[Any, Any, Any, Any]:
        """One step of the cell, then the best continuations over all beams."""
        inputs = map_structure(self._merge_batch_beams, inputs)
        cell_states = map_structure(self._merge_batch_beams, states.cell_states)
        outputs, next_states = self.cell(inputs, cell_states, **kwargs)
        outputs = map_structure(self._split_batch_beams, outputs)
        next_states = map_structure(self._split_batch_beams, next_states)
        logits = self.output_fn(outputs) if self.output_fn is not None else outputs
        made, state = self._beam_search_step(time, logits, next_states, states)
        made.predicted_ids.stop_gradient = True
        tokens = made.predicted_ids
        next_inputs = self.embedding_fn(tokens) if self.embedding_fn else tokens
        return made, state, next_inputs, state.finished

    def _beam_search_step(
        self, time: Variable, logits: Variable, next_cell_states: Any, beam_state: BeamSearchState
    ) -> tuple[BeamSearchOutput, BeamSearchState]:
        """The best continuations by logits (batch, beam, vocabulary), and the states of theirs."""
        state, vocabulary, batch = beam_state, logits.shape[-1], self.batch_size
        size = fill_constant([1], "int64", vocabulary)
        only_end = np.full(vocabulary, _NEVER, dtype="float32")
        only_end[self.end_token] = 0
        self._only_end = assign(only_end)
        step_probs = self._mask_probs(log(softmax(logits)), state.finished)
        log_probs = elementwise_add(x=step_probs, y=state.log_probs, axis=0)
        flat = [-1, self.beam_size * vocabulary]
        top_scores, top = topk(reshape(log_probs, flat), k=self.beam_size)
        beams = elementwise_floordiv(top, size)
        tokens = elementwise_mod(top, size)
        next_log_probs = self._gather(reshape(log_probs, flat), top, batch)
        chosen = partial(self._gather, indices=beams, batch_size=batch)
        next_cell_states = map_structure(chosen, next_cell_states)
        finished, lengths = chosen(state.finished), chosen(state.lengths)
        lengths = lengths + cast(logical_not(finished), dtype_name(state.lengths.dtype))
        finished = logical_or(finished, equal(tokens, self.end_token_tensor))
        return (
            BeamSearchOutput(top_scores, tokens, beams),
            BeamSearchState(next_cell_states, next_log_probs, finished, lengths),
        )

    def _mask_probs(self, probs: Variable, finished: Variable) -> Variable:
        """Log probabilities (batch, beam, vocabulary); a finished beam ends, and nothing else."""
        over = cast(finished, dtype_name(probs.dtype))
        wide = expand(unsqueeze(over, [2]), [1, 1, probs.shape[-1]])
        stay: Variable = elementwise_mul(wide, self._only_end, axis=-1) - elementwise_mul(
            probs, (over - 1), axis=0
        )
        return stay

    def _gather(self, x: Variable, indices: Variable, batch_size: Variable) -> Variable:
        """x[example, indices[example, beam]], (batch, beam, ...)."""
        count = cast(batch_size, dtype_name(indices.dtype))
        count.stop_gradient = True
        examples = unsqueeze(numbers(0, count, 1, dtype=dtype_name(indices.dtype)), [1])
        places = stack([expand(examples, [1, self.beam_size]), indices], axis=2)
        places.stop_gradient = True
        return gather_nd(x, places)

    def finalize(self, outputs: Any, final_states: Any, sequence_lengths: Any) -> Any:
        """(tokens (time, batch, beam) along the paths of the beams, states)."""
        tokens = gather_tree(outputs.predicted_ids, outputs.parent_ids)
        return tokens, final_states
