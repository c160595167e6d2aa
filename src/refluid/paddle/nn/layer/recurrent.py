"""Recurrent layers: cells over all time steps of padded sequences."""

from __future__ import annotations

from typing import Any

from refluid.build import at_once, op
from refluid.fluid.functions.control.structures import flatten, map_structure
from refluid.fluid.functions.rnn.unrolled import rnn as unrolled
from refluid.ir.variable import Variable
from refluid.paddle.nn.functional import shapes
from refluid.paddle.nn.layer.cells import GRUCell, LSTMCell, SimpleRNNCell
from refluid.paddle.nn.layer.container import LayerList
from refluid.paddle.nn.layer.layers import Layer
from refluid.paddle.tensor import manipulation


class _Called:
    """A cell as Fluid's functions take it."""

    def __init__(self, cell: Any) -> None:
        self.call, self.get_initial_states = cell, cell.get_initial_states


def _swapped(x: Variable) -> Variable:
    return manipulation.transpose(x, [1, 0, *range(2, len(x.shape))])


def _over_time(
    cell: Any, inputs: Any, states: Any, lengths: Variable | None, reverse: bool, **given: Any
) -> tuple[Any, Any]:
    """A cell over inputs (time, batch, ..), at once; states stay where a sequence has ended."""
    steps = int(flatten(inputs)[0].shape[0])
    mask = None
    if lengths is not None:
        mask = _swapped(shapes.sequence_mask(lengths, steps, flatten(states)[0].dtype))
    outs: list[Any] = [None] * steps
    for step in reversed(range(steps)) if reverse else range(steps):
        outs[step], new = cell(map_structure(lambda x, n=step: x[n], inputs), states, **given)
        if mask is not None:
            goes_on = manipulation.unsqueeze(mask[step], -1)
            new = map_structure(lambda a, b, on=goes_on: a + (b - a) * on, states, new)
        states = new
    return map_structure(lambda *parts: manipulation.stack(parts, 0), *outs), states


class RNN(Layer):
    """A cell over all time steps. is_reverse: from the last one. time_major: time comes first."""

    def __init__(self, cell: Any, is_reverse: bool = False, time_major: bool = False) -> None:
        super().__init__()
        self.cell, self.is_reverse, self.time_major = cell, is_reverse, time_major

    def forward(
        self,
        inputs: Any,
        initial_states: Any = None,
        sequence_length: Variable | None = None,
        **kwargs: Any,
    ) -> tuple[Any, Any]:
        """(outputs of all steps, last states) of inputs (batch, time, ..).

        sequence_length (batch,): states stay as they are after so many steps. kwargs go to the
        cell.
        """
        if initial_states is None:
            place = 1 if self.time_major else 0
            initial_states = self.cell.get_initial_states(inputs, batch_dim_idx=place)
        if not at_once():
            how = sequence_length, self.time_major, self.is_reverse
            return unrolled(_Called(self.cell), inputs, initial_states, *how, **kwargs)
        if not self.time_major:
            inputs = map_structure(_swapped, inputs)
        outs, last = _over_time(
            self.cell, inputs, initial_states, sequence_length, self.is_reverse, **kwargs
        )
        return outs if self.time_major else map_structure(_swapped, outs), last


class BiRNN(Layer):
    """Two cells, one from the first step on, one from the last; outputs side by side."""

    def __init__(self, cell_fw: Any, cell_bw: Any, time_major: bool = False) -> None:
        super().__init__()
        if cell_fw.input_size != cell_bw.input_size:
            raise ValueError(
                f"input size of forward cell({cell_fw.input_size}) does not equals that of "
                f"backward cell({cell_bw.input_size})"
            )
        self.cell_fw, self.cell_bw, self.time_major = cell_fw, cell_bw, time_major

    def forward(
        self,
        inputs: Any,
        initial_states: Any = None,
        sequence_length: Variable | None = None,
        **kwargs: Any,
    ) -> tuple[Any, Any]:
        """(outputs, (last states forward, last states backward))."""
        starts = (None, None) if initial_states is None else initial_states
        assert len(starts) == 2, "length of initial_states should be 2 when it is a list/tuple"
        made = [
            RNN(cell, reverse, self.time_major)(inputs, start, sequence_length, **kwargs)
            for cell, reverse, start in zip(
                (self.cell_fw, self.cell_bw), (False, True), starts, strict=True
            )
        ]
        outs = map_structure(lambda *both: manipulation.concat(both, -1), made[0][0], made[1][0])
        return outs, (made[0][1], made[1][1])


class _Stacked(LayerList):
    """Layers of one kind of cell on top of each other, in one direction or in both."""

    def __init__(
        self,
        kind: Any,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        direction: str,
        time_major: bool,
        dropout: float,
        *attrs: Any,
    ) -> None:
        super().__init__()
        if direction not in ("forward", "bidirectional", "bidirect"):
            raise ValueError(
                "direction should be forward or bidirect (or bidirectional), received "
                f"direction = {direction}"
            )
        self.input_size, self.hidden_size = input_size, hidden_size
        self.num_layers, self.time_major, self.dropout = num_layers, time_major, dropout
        self.num_directions = 1 if direction == "forward" else 2
        self._cells: list[list[Any]] = []
        for number in range(num_layers):
            size = input_size if number == 0 else hidden_size * self.num_directions
            cells = [kind(size, hidden_size, *attrs) for _ in range(self.num_directions)]
            self._cells.append(cells)
            if self.num_directions == 1:
                self.append(RNN(cells[0], False, time_major))
            else:
                self.append(BiRNN(cells[0], cells[1], time_major))
        for number, cells in enumerate(self._cells):
            for cell, end in zip(cells, ("", "_reverse"), strict=False):
                for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                    self.add_parameter(f"{part}_l{number}{end}", getattr(cell, part))

    def forward(
        self,
        inputs: Variable,
        initial_states: Any = None,
        sequence_length: Variable | None = None,
    ) -> tuple[Variable, Any]:
        """(outputs of the last layer, last states of all layers) of (batch, time, size).

        initial_states: (layers * directions, batch, hidden_size), of LSTM two of them; zeros by
        default. sequence_length (batch,): outputs beyond are 0, states those of the last step.
        """
        x = inputs if self.time_major else _swapped(inputs)
        given = [] if initial_states is None else flatten(initial_states)
        drops = self.training and self.dropout > 0
        parts = [[one] for one in self._cells] if drops else [self._cells]
        found: list[list[Variable]] = []
        for number, cells in enumerate(parts):
            if number:
                x = shapes.dropout(x, self.dropout, mode="upscale_in_train")
            first, count = number * self.num_directions, self.num_directions
            start = [one[first : first + count] for one in given] if drops else given
            x, states = self._run(x, cells, start, sequence_length)
            found.append(states)
        last = [
            manipulation.concat(one, 0) if drops else one[0] for one in zip(*found, strict=True)
        ]
        return x if self.time_major else _swapped(x), last[0] if len(last) == 1 else tuple(last)

    def _run(self, x: Any, layers: list[list[Any]], start: list[Any], lengths: Any) -> Any:
        cells = [cell for several in layers for cell in several]
        inputs = {
            "Input": x,
            "PreState": start or None,
            "WeightList": [weight for cell in cells for weight in cell.weights()],
            "SequenceLength": lengths,
        }
        mode = cells[0].mode
        attrs = {
            "mode": mode,
            "hidden_size": self.hidden_size,
            "num_layers": len(layers),
            "is_bidirec": self.num_directions == 2,
        }
        makes = {"Out": x.dtype, "State": [x.dtype] * (2 if mode == "LSTM" else 1)}
        return op("rnn", inputs, attrs, makes)

    def extra_repr(self) -> str:
        """The sizes, and what isn't usual."""
        text = f"{self.input_size}, {self.hidden_size}"
        unusual = {"num_layers": 1, "time_major": False, "dropout": 0}
        for name, usual in unusual.items():
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text


class SimpleRNN(_Stacked):
    """Layers of `SimpleRNNCell`. direction: forward, or bidirect: outputs of both side by side.

    dropout: of what a layer gives the next.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        activation: str = "tanh",
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        if activation not in ("tanh", "relu"):
            raise ValueError(f"Unknown activation '{activation}'")
        attrs = activation, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr, name
        how = input_size, hidden_size, num_layers, direction, time_major, dropout
        super().__init__(SimpleRNNCell, *how, *attrs)


class LSTM(_Stacked):
    """Layers of `LSTMCell`; arguments as of `SimpleRNN`. States are (h, c)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        attrs = weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr, name
        how = input_size, hidden_size, num_layers, direction, time_major, dropout
        super().__init__(LSTMCell, *how, *attrs)


class GRU(_Stacked):
    """Layers of `GRUCell`; arguments as of `SimpleRNN`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        attrs = weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr, name
        how = input_size, hidden_size, num_layers, direction, time_major, dropout
        super().__init__(GRUCell, *how, *attrs)
