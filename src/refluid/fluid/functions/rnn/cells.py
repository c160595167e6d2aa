"""RNN cells: what computes one time step of a recurrent network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.fluid.functions.control.structures import flatten
from refluid.fluid.functions.tensor.creation import fill_constant_batch_size_like


class RNNCell:
    """Base of cells: `call(inputs, states)` gives (outputs, new states), structures both."""

    def call(self, inputs: Any, states: Any, **kwargs: Any) -> Any:
        """One time step."""
        raise NotImplementedError("RNNCell must implement the call function.")

    def __call__(self, inputs: Any, states: Any, **kwargs: Any) -> Any:
        return self.call(inputs, states, **kwargs)

    def get_initial_states(
        self,
        batch_ref: Any,
        shape: Any = None,
        dtype: Any = "float32",
        init_value: float = 0,
        batch_dim_idx: int = 0,
    ) -> Any:
        """Constant states for a batch as large as dimension `batch_dim_idx` of `batch_ref`.

        shape: structure of the states' shapes (the cell's own by default), a -1 for the batch in
        front or left away. dtype: one element type, or a structure like `shape`.
        """
        reference = flatten(batch_ref)[0]
        shapes = self.state_shape if shape is None else shape

        def made(part: Any, kind: Any) -> Any:
            if _is_shape(part):
                sizes = list(part) if part[0] == -1 else [-1, *part]
                kind = kind[0] if isinstance(kind, list | tuple) else kind
                state = fill_constant_batch_size_like(
                    input=reference,
                    shape=sizes,
                    dtype=kind,
                    value=init_value,
                    input_dim_idx=batch_dim_idx,
                )
                state.stop_gradient = False
                return state
            kinds = kind if isinstance(kind, list | tuple) else [kind] * len(part)
            return type(part)(made(one, own) for one, own in zip(part, kinds, strict=True))

        return made(shapes, dtype)

    @property
    def state_shape(self) -> Any:
        """Structure of the shapes of the states, without the batch."""
        raise NotImplementedError("Please add implementation for `state_shape` in the used cell.")

    @property
    def state_dtype(self) -> Any:
        """Structure of the element types of the states."""
        raise NotImplementedError("Please add implementation for `state_dtype` in the used cell.")


def _is_shape(part: Any) -> bool:
    return isinstance(part, Sequence) and all(isinstance(size, int) for size in part)
