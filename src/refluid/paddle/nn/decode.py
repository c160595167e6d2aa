"""`paddle.nn.decode`: decoders, and what runs them until all sequences are finished."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from refluid.build import at_once
from refluid.fluid.functions.control.structures import flatten, map_structure
from refluid.fluid.functions.rnn import dynamic_decoding as fluid
from refluid.fluid.functions.rnn.decoders import BeamSearchDecoder as BeamSearchDecoder
from refluid.fluid.functions.rnn.decoders import Decoder as Decoder
from refluid.ir.variable import Variable
from refluid.paddle.tensor import creation, logic, manipulation, math, reduction, search
from refluid.paddle.tensor.making import cast_to, rank_of


def dynamic_decode(
    decoder: Any,
    inits: Any = None,
    max_step_num: int | None = None,
    output_time_major: bool = False,
    impute_finished: bool = False,
    is_test: bool = False,
    return_length: bool = False,
    **kwargs: Any,
) -> Any:
    """(outputs of all steps, last states), with `return_length` also lengths (batch,).

    As `fluid.layers.dynamic_decode`; where functions run at once, step by step.
    """
    settings = decoder, inits, max_step_num, output_time_major, impute_finished
    if not at_once():
        return fluid.dynamic_decode(*settings, is_test, return_length, **kwargs)
    outputs, states, lengths = _steps(*settings, **kwargs)
    return (outputs, states, lengths) if return_length else (outputs, states)


def _steps(
    decoder: Any, inits: Any, last: int | None, time_major: bool, impute: bool, **kwargs: Any
) -> tuple[Any, Any, Any]:
    inputs, states, finished = decoder.initialize(inits)
    lengths = creation.zeros_like(cast_to(finished, "int64"))
    made: list[Any] = []
    while not bool(reduction.all(finished)) and (last is None or len(made) <= last):
        step = creation.full([1], len(made), "int64")
        outputs, after, inputs, ended = decoder.step(step, inputs, states, **kwargs)
        made.append(outputs)
        if not getattr(decoder, "tracks_own_finished", False):
            ended = logic.logical_or(ended, finished)
            lengths = math.add(lengths, cast_to(logic.logical_not(finished), "int64"))
            after = map_structure(partial(_kept, finished), states, after) if impute else after
        else:
            lengths = getattr(after, "lengths", lengths)
        states, finished = after, ended
    steps = [flatten(one) for one in made]
    columns = [manipulation.stack(list(one)) for one in zip(*steps, strict=True)]
    outputs = _like(made[0], columns)
    with suppress(NotImplementedError):
        outputs, states = decoder.finalize(outputs, states, lengths)
    return outputs if time_major else map_structure(_batch_first, outputs), states, lengths


def _like(structure: Any, values: list[Variable]) -> Any:
    """The values in the structure of another."""
    left = iter(values)
    return map_structure(lambda _: next(left), structure)


def _kept(finished: Variable, state: Variable, new_state: Variable) -> Variable:
    """The old state of what is finished."""
    shape = [*finished.shape, *[1] * (rank_of(state) - rank_of(finished))]
    kept: Variable = search.where(manipulation.reshape(finished, shape), state, new_state)
    return kept


def _batch_first(x: Variable) -> Variable:
    return manipulation.transpose(x, [1, 0, *range(2, rank_of(x))])
