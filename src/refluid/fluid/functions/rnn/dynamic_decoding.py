"""dynamic_decode: runs a decoder until all sequences are finished."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from refluid.core.dtypes import dtype_name
from refluid.fluid.functions.control.arrays import (
    array_read,
    array_write,
    create_array,
    tensor_array_to_tensor,
)
from refluid.fluid.functions.control.structures import map_structure
from refluid.fluid.functions.control.while_loop import While
from refluid.fluid.functions.math.comparison import less_equal
from refluid.fluid.functions.math.elementwise import (
    elementwise_add,
    logical_and,
    logical_not,
    logical_or,
)
from refluid.fluid.functions.math.reduction import reduce_all
from refluid.fluid.functions.rnn.unrolled import kept_where_over, swap_batch_and_time
from refluid.fluid.functions.tensor.assignment import assign, cast
from refluid.fluid.functions.tensor.counting import increment
from refluid.fluid.functions.tensor.creation import fill_constant, zeros_like
from refluid.ir.defaults import default_main_program
from refluid.ir.variable import Variable


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

    inits: given to `decoder.initialize`. max_step_num: the loop ends after the step of that
    number, counted from 0. Outputs are (batch, time, ...), or (time, batch, ...) if
    `output_time_major`. impute_finished: states of finished sequences don't change. is_test: the
    values of former steps are not kept, as no gradient is wanted. kwargs go to `decoder.step`.
    """
    inputs, states, finished = decoder.initialize(inits)
    step = fill_constant(shape=[1], dtype="int64", value=0)
    condition = logical_not(reduce_all(finished))
    last = None
    if max_step_num is not None:
        last = fill_constant(shape=[1], dtype="int64", value=max_step_num)
    loop = While(condition, is_test=is_test)
    lengths = cast(zeros_like(finished), "int64")
    lengths.stop_gradient = True
    carried = _Carried(is_test, step, inputs, states)
    with loop.block():
        inputs, states = carried.read()
        outputs, next_states, next_inputs, next_finished = decoder.step(
            step, inputs, states, **kwargs
        )
        next_finished = logical_or(next_finished, finished)
        going = cast(logical_not(finished), dtype_name(lengths.dtype))
        next_lengths = elementwise_add(lengths, going)
        if impute_finished:
            next_states = map_structure(partial(_imputed, finished), states, next_states)
        arrays = map_structure(partial(_written, step), outputs)
        increment(x=step, value=1.0, in_place=True)
        carried.write(next_inputs, next_states)
        assign(next_finished, finished)
        assign(next_lengths, lengths)
        _go_on(finished, step, last, condition)
    outputs = map_structure(_stacked, arrays)
    states = carried.states()
    with suppress(NotImplementedError):
        outputs, states = decoder.finalize(outputs, states, lengths)
    if not output_time_major:
        outputs = map_structure(swap_batch_and_time, outputs)
    return (outputs, states, lengths) if return_length else (outputs, states)


def _go_on(finished: Variable, step: Variable, last: Variable | None, condition: Variable) -> None:
    """Says in `condition` whether there is another step."""
    if last is None:
        logical_not(reduce_all(finished), out=condition)
    else:
        logical_and(logical_not(reduce_all(finished)), less_equal(step, last), out=condition)


class _Carried:
    """Inputs and states from step to step: in arrays, or in place where nothing is kept."""

    def __init__(self, in_place: bool, step: Variable, inputs: Any, states: Any) -> None:
        self._in_place, self._step = in_place, step
        keep = map_structure if not in_place else _as_is
        self._inputs = keep(partial(array_write, i=step), inputs)
        self._states = keep(partial(array_write, i=step), states)

    def read(self) -> tuple[Any, Any]:
        """(inputs, states) of this step."""
        if self._in_place:
            return self._inputs, self._states
        get = partial(array_read, i=self._step)
        return map_structure(get, self._inputs), map_structure(get, self._states)

    def write(self, inputs: Any, states: Any) -> None:
        """Those of the next step."""
        for old, new in ((self._inputs, inputs), (self._states, states)):
            if self._in_place:
                map_structure(assign, new, old)
            else:
                map_structure(lambda x, array: array_write(x, self._step, array), new, old)

    def states(self) -> Any:
        """The states after the last step."""
        return self._states if self._in_place else self.read_states()

    def read_states(self) -> Any:
        """The states at the present step, from their arrays."""
        return map_structure(partial(array_read, i=self._step), self._states)


def _as_is(function: Any, structure: Any) -> Any:
    return structure


def _imputed(finished: Variable, state: Variable, new_state: Variable) -> Variable:
    going = cast(logical_not(finished), dtype_name(state.dtype))
    return kept_where_over(going, state, new_state)


def _written(step: Variable, x: Variable) -> Variable:
    """A new array of the block around the loop, `x` written to it in each step."""
    with _enclosing_block():
        array = create_array(dtype_name(x.dtype))
    return array_write(x, step, array)


@contextmanager
def _enclosing_block() -> Iterator[None]:
    program = default_main_program()
    inner = program.current_block_idx
    program.rollback()
    try:
        yield
    finally:
        program.current_block_idx = inner


def _stacked(array: Variable) -> Variable:
    return tensor_array_to_tensor(array, axis=0, use_stack=True)[0]
