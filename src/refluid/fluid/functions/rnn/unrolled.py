"""rnn: a cell applied to all time steps of padded sequences."""

from __future__ import annotations

from functools import partial
from typing import Any

from refluid.core.dtypes import dtype_name
from refluid.fluid.functions.control.static_rnn import StaticRNN
from refluid.fluid.functions.control.structures import (
    assert_same_structure,
    flatten,
    map_structure,
    pack_sequence_as,
)
from refluid.fluid.functions.math.elementwise import elementwise_mul
from refluid.fluid.functions.sequence.rows import sequence_mask
from refluid.fluid.functions.tensor.shaping import shape, transpose
from refluid.fluid.functions.tensor.slicing import reverse
from refluid.ir.variable import Variable


def swap_batch_and_time(x: Variable) -> Variable:
    """(a, b, ...) -> (b, a, ...)."""
    return transpose(x, [1, 0, *range(2, len(x.shape))])


def rnn(
    cell: Any,
    inputs: Any,
    initial_states: Any = None,
    sequence_length: Variable | None = None,
    time_major: bool = False,
    is_reverse: bool = False,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """(outputs of all steps, states after the last one) of a cell run over `inputs`.

    inputs: structure of (batch, time, ...), or of (time, batch, ...) if `time_major`; outputs are
    alike. initial_states: by default the cell's own. sequence_length: (batch,); states don't
    change after a sequence has ended. is_reverse: the last step comes first. kwargs go to the
    cell. Raises ValueError where the cell gives states of another structure.
    """
    if initial_states is None:
        initial_states = cell.get_initial_states(
            batch_ref=inputs, batch_dim_idx=1 if time_major else 0
        )
    if not time_major:
        inputs = map_structure(swap_batch_and_time, inputs)
    mask = _time_mask(sequence_length, flatten(inputs)[0], flatten(initial_states)[0])
    if is_reverse:
        inputs = map_structure(_backwards, inputs)
        mask = None if mask is None else _backwards(mask)

    unrolled = StaticRNN()
    with unrolled.step():
        parts = map_structure(unrolled.step_input, inputs)
        states = map_structure(unrolled.memory, initial_states)
        outputs, new_states = cell.call(parts, states, **kwargs)
        assert_same_structure(states, new_states, check_types=False)
        if mask is not None:
            goes_on = unrolled.step_input(mask)
            new_states = map_structure(partial(kept_where_over, goes_on), states, new_states)
        map_structure(unrolled.update_memory, states, new_states)
        for one in flatten(outputs) + flatten(new_states):
            unrolled.step_output(one)

    results = unrolled()
    count = len(flatten(outputs))
    steps = pack_sequence_as(outputs, results[:count])
    last = pack_sequence_as(new_states, [one[-1] for one in results[count:]])
    if is_reverse:
        steps = map_structure(_backwards, steps)
    if not time_major:
        steps = map_structure(swap_batch_and_time, steps)
    return steps, last


def _backwards(x: Variable) -> Variable:
    return reverse(x, axis=[0])


def _time_mask(
    sequence_length: Variable | None, inputs: Variable, state: Variable
) -> Variable | None:
    """(time, batch), 1 while a sequence goes on."""
    if sequence_length is None:
        return None
    longest = shape(inputs)[0]
    mask = sequence_mask(sequence_length, maxlen=longest, dtype=dtype_name(state.dtype))
    return transpose(mask, [1, 0])


def kept_where_over(goes_on: Variable, state: Variable, new_state: Variable) -> Variable:
    """`new_state` where the mask (batch,) is 1, `state` where it is 0."""
    kept: Variable = elementwise_mul(new_state, goes_on, axis=0) - elementwise_mul(
        state, (goes_on - 1), axis=0
    )
    return kept
