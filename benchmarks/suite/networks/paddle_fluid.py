"""The part of Fluid's API that the networks use, written with paddle 2's and 3's static graph.

With it in the place of fluid, the workloads' Fluid networks build paddle's own programs. Sequences
come padded, for later paddles have no LoD networks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import paddle
import paddle.nn.functional as functional

ACTS: Mapping[str | None, Callable[[Any], Any]] = {
    None: lambda x: x,
    "relu": functional.relu,
    "tanh": functional.tanh,
    "gelu": functional.gelu,
    "softmax": functional.softmax,
}


class Parameters(dict[str, Any]):
    """Parameters by name; what asks for one again shares it."""

    def make(self, name: str, shape: list[int], *, trainable: bool = True) -> Any:
        if name not in self:
            attr = paddle.ParamAttr(name=name, trainable=trainable)
            self[name] = paddle.static.create_parameter(shape, "float32", attr=attr)
        return self[name]


class PaddleLayers:
    """`fluid.layers`. An attribute of parameters is their name here."""

    concat = staticmethod(paddle.concat)
    gather = staticmethod(lambda x, index: paddle.gather(x, paddle.flatten(index)))
    mean = staticmethod(paddle.mean)
    reshape = staticmethod(paddle.reshape)
    slice = staticmethod(paddle.slice)
    softmax = staticmethod(functional.softmax)
    square = staticmethod(paddle.square)
    squeeze = staticmethod(paddle.squeeze)
    transpose = staticmethod(paddle.transpose)
    unsqueeze = staticmethod(paddle.unsqueeze)
    scale = staticmethod(paddle.scale)
    elementwise_mul = staticmethod(paddle.multiply)
    softmax_with_cross_entropy = staticmethod(functional.softmax_with_cross_entropy)
    RNNCell = object

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters

    def fc(
        self,
        input: Any,
        size: int,
        num_flatten_dims: int = 1,
        act: str | None = None,
        param_attr: Any = None,
        bias_attr: Any = None,
    ) -> Any:
        if len(input.shape) > num_flatten_dims + 1:
            input = paddle.flatten(input, num_flatten_dims)
        weight = self.parameters.make(param_attr, [int(input.shape[-1]), size])
        bias = self.parameters.make(bias_attr, [size]) if bias_attr else None
        return ACTS[act](functional.linear(input, weight, bias))

    def embedding(
        self, input: Any, size: list[int], is_sparse: bool = False, param_attr: Any = None
    ) -> Any:
        return self.embedding_v2(paddle.squeeze(input, [-1]), size, is_sparse, param_attr)

    def embedding_v2(
        self, input: Any, size: list[int], is_sparse: bool = False, param_attr: Any = None
    ) -> Any:
        """`fluid.embedding`: rows get an axis of their own after those of the ids."""
        weight = self.parameters.make(param_attr, list(size))
        return functional.embedding(input, weight, sparse=is_sparse)

    def conv2d(
        self,
        input: Any,
        num_filters: int,
        filter_size: int,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
    ) -> Any:
        shape = [num_filters, int(input.shape[1]) // groups, filter_size, filter_size]
        weight = self.parameters.make(param_attr, shape)
        bias = self.parameters.make(bias_attr, [num_filters]) if bias_attr else None
        found = functional.conv2d(input, weight, bias, stride, padding, groups=groups)
        return ACTS[act](found)

    def pool2d(
        self,
        input: Any,
        pool_size: int = -1,
        pool_type: str = "max",
        pool_stride: int = 1,
        pool_padding: int = 0,
        global_pooling: bool = False,
    ) -> Any:
        if global_pooling:
            return functional.adaptive_avg_pool2d(input, 1)
        return functional.max_pool2d(input, pool_size, pool_stride, pool_padding)

    def batch_norm(
        self,
        input: Any,
        act: str | None = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        moving_mean_name: str = "",
        moving_variance_name: str = "",
    ) -> Any:
        channels = [int(input.shape[1])]
        mean = self.parameters.make(moving_mean_name, channels, trainable=False)
        variance = self.parameters.make(moving_variance_name, channels, trainable=False)
        weight = self.parameters.make(param_attr, channels)
        bias = self.parameters.make(bias_attr, channels)
        found = functional.batch_norm(input, mean, variance, weight, bias, training=True)
        return ACTS[act](found)

    def layer_norm(self, input: Any, begin_norm_axis: int, param_attr: Any, bias_attr: Any) -> Any:
        shape = [int(size) for size in input.shape[begin_norm_axis:]]
        weight = self.parameters.make(param_attr, shape)
        return functional.layer_norm(input, shape, weight, self.parameters.make(bias_attr, shape))

    def matmul(self, x: Any, y: Any, transpose_y: bool = False, alpha: float = 1.0) -> Any:
        found = paddle.matmul(x, y, transpose_y=transpose_y)
        return found if alpha == 1.0 else paddle.scale(found, alpha)

    def elementwise_add(self, x: Any, y: Any, act: str | None = None) -> Any:
        return ACTS[act](paddle.add(x, y))

    def cross_entropy(self, input: Any, label: Any) -> Any:
        return functional.cross_entropy(input, label, use_softmax=False, reduction="none")

    def sigmoid_cross_entropy_with_logits(self, x: Any, label: Any) -> Any:
        return functional.binary_cross_entropy_with_logits(x, label, reduction="none")

    def reduce_sum(self, input: Any, dim: int, keep_dim: bool = False) -> Any:
        return paddle.sum(input, axis=dim, keepdim=keep_dim)

    def fill_constant_batch_size_like(
        self, input: Any, shape: list[int], dtype: str, value: float
    ) -> Any:
        return paddle.full([int(input.shape[0]), *shape[1:]], value, dtype)

    def LSTMCell(  # noqa: N802
        self, hidden_size: int, param_attr: str, bias_attr: str, name: str = ""
    ) -> Any:
        return LstmCell(self.parameters, hidden_size, param_attr, bias_attr)

    def rnn(self, cell: Any, inputs: Any, initial_states: Any = None) -> Any:
        """paddle's LSTM for a plain cell; any other cell is unrolled."""
        if isinstance(cell, LstmCell):
            return cell.whole(inputs)
        states, found = initial_states, []
        for step in paddle.unbind(inputs, 1):
            out, states = cell.call(step, states)
            found.append(out)
        return paddle.stack(found, 1), states


class LstmCell:
    """Fluid's gates are i, j, f, o in one matrix, with 1 added to f; paddle's i, f, g, o in two."""

    def __init__(self, parameters: Parameters, width: int, weight: str, bias: str) -> None:
        self.parameters, self.width = parameters, width
        self.weight, self.bias = weight, bias

    def __call__(self, x: Any, states: Any) -> Any:
        hidden, cell = states
        shape = [int(x.shape[-1]) + self.width, 4 * self.width]
        weight = self.parameters.make(self.weight, shape)
        bias = self.parameters.make(self.bias, shape[1:])
        gates = functional.linear(paddle.concat([x, hidden], 1), weight, bias)
        i, j, f, o = paddle.split(gates, 4, axis=1)
        kept = cell * functional.sigmoid(f + 1.0)
        cell = kept + functional.sigmoid(i) * functional.tanh(j)
        hidden = functional.tanh(cell) * functional.sigmoid(o)
        return hidden, (hidden, cell)

    def whole(self, x: Any) -> Any:
        """The layer over all steps; its parameters are `weight`.ih, .hh, `bias`.ih, .hh."""
        names = [f"{self.weight}.ih", f"{self.weight}.hh", f"{self.bias}.ih", f"{self.bias}.hh"]
        attrs = [paddle.ParamAttr(name=n, trainable=n != names[3]) for n in names]
        layer = paddle.nn.LSTM(
            int(x.shape[-1]),
            self.width,
            weight_ih_attr=attrs[0],
            weight_hh_attr=attrs[1],
            bias_ih_attr=attrs[2],
            bias_hh_attr=attrs[3],
        )
        found, (hidden, cell) = layer(x)
        return found, (paddle.squeeze(hidden, [0]), paddle.squeeze(cell, [0]))


def make_fluid() -> Any:
    """What takes the place of the module fluid, and `parameters` by name."""
    parameters = Parameters()
    layers = PaddleLayers(parameters)
    block = SimpleNamespace(var=parameters.__getitem__)
    program = SimpleNamespace(global_block=lambda: block)
    return SimpleNamespace(
        layers=layers,
        embedding=layers.embedding_v2,
        ParamAttr=lambda name, initializer=None: name,
        initializer=SimpleNamespace(Uniform=lambda low, high: None),
        default_main_program=lambda: program,
        parameters=parameters,
    )


def lstm_lod(fluid: Any, feed: Mapping[str, Any], words: int = 10000, width: int = 256) -> Any:
    """The language model over padded sequences; logits are computed for real words only."""
    hidden = fluid.embedding(feed["words"], [words, width], param_attr="words.weight")
    cell = LstmCell(fluid.parameters, width, "lstm.weight", "lstm.bias")
    hidden, _ = cell.whole(hidden)
    hidden = paddle.gather(paddle.reshape(hidden, [-1, width]), feed["rows"])
    logits = fluid.layers.fc(hidden, words, param_attr="out.weight", bias_attr="out.bias")
    return functional.cross_entropy(logits, feed["next_rows"])
