"""Linear maps, tables, activations with parameters, and single steps of recurrent networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from refluid.build import at_once, backend, op
from refluid.core.notices import tell_once
from refluid.eager import KeptAttributes
from refluid.fluid.dygraph.layers import Layer
from refluid.fluid.dygraph.parts.activated import Activated, FormerNames
from refluid.fluid.dygraph.parts.former import channels, scoped, whole_shape
from refluid.fluid.functions.nn.dropout import drop
from refluid.fluid.initializer import Constant
from refluid.ir.variable import Variable

# Those that the fused product does, as the pass that fuses it in programs.
ACTIVATIONS = (None, "relu", "tanh", "sigmoid")
_UNIT_ACTIVATIONS = {"identity": 0, "sigmoid": 1, "tanh": 2, "relu": 3}


class Linear(Activated):
    """x W + b over the last dimension, and an activation."""

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(dtype, act)
        self.weight = self.create_parameter([input_dim, output_dim], param_attr, dtype)
        self.bias = self.create_parameter([output_dim], bias_attr, dtype, is_bias=True)
        fused = {"x_num_col_dims": -1, "activation": act or ""}
        self._fused = KeptAttributes(fused) if act in ACTIVATIONS else None

    def forward(self, input: Variable) -> Any:
        """(..., input_dim) gives (..., output_dim)."""
        own = self._parameters  # Quicker than attributes; a user may have put others there.
        known = "weight" in own and "bias" in own
        weight, bias = (own["weight"], own["bias"]) if known else (self.weight, self.bias)
        if self._fused is not None and bias is not None and backend().fuses:
            return op("fused_gemm_epilogue", {"X": input, "Y": weight, "Bias": bias}, self._fused)
        attrs = {"transpose_X": False, "transpose_Y": False, "alpha": 1.0}
        out = op("matmul", {"X": input, "Y": weight}, attrs)
        return self._finished(out, bias, len(input.shape) - 1)


@scoped("size is_sparse is_distributed padding_idx param_attr dtype")
class Embedding(FormerNames):
    """Rows of a table chosen by ids, as `fluid.embedding`: ids (...) give (..., width).

    Made with a scope it is as `fluid.layers.embedding`: ids (..., 1) give (..., width).
    """

    _former: ClassVar[dict[str, str]] = {"_w": "weight"}

    def __init__(
        self,
        size: Sequence[int],
        is_sparse: bool = False,
        is_distributed: bool = False,
        padding_idx: int | None = None,
        param_attr: Any = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(dtype=dtype)
        first = -1 if padding_idx is None else padding_idx
        if padding_idx is not None and padding_idx < 0:
            first = size[0] + padding_idx
        self._size, self._param_attr, self._padding_idx = size, param_attr, first
        self._is_sparse, self._is_distributed = is_sparse, is_distributed
        self._options = {
            "is_sparse": is_sparse,
            "is_distributed": is_distributed,
            "remote_prefetch": is_sparse and not is_distributed,
            "padding_idx": first,
        }
        self.weight = self.create_parameter(size, param_attr, dtype)

    def forward(self, input: Variable) -> Any:
        """The rows of `input`."""
        kind = "lookup_table_v2" if self._refluid_scope is None else "lookup_table"
        return op(kind, {"Ids": input, "W": self.weight}, self._options, dtype=self._dtype)


class Dropout(Layer):
    """Elements set to 0 at random while the layer trains, as `fluid.layers.dropout`."""

    def __init__(
        self,
        p: float = 0.5,
        seed: int | None = None,
        dropout_implementation: str = "downgrade_in_infer",
        is_test: bool = False,
    ) -> None:
        super().__init__()
        assert isinstance(p, float | int), "p argument should be a number"
        assert 0 <= p <= 1, "p argument should between 0 and 1"
        assert dropout_implementation in ("downgrade_in_infer", "upscale_in_train"), (
            "dropout_implementation argument should be 'downgrade_in_infer' or 'upscale_in_train'"
        )
        self._p, self._seed, self._is_test = p, seed, is_test
        self._implementation = dropout_implementation

    def forward(self, input: Variable) -> Any:
        """The rest of `input`. is_test counts in programs alone, as Fluid documents."""
        return drop(
            input,
            self._p,
            is_test=not self.training or (self._is_test and not at_once()),
            seed=self._seed,
            dropout_implementation=self._implementation,
        )


@scoped(
    "mode param_attr",
    ("all", "channel", "element"),
    channel=lambda inputs, _: inputs[0].shape[1] if len(inputs[0].shape) > 1 else None,
    input_shape=whole_shape,
)
class PRelu(Layer):
    """max(0, x) + a min(0, x), as `fluid.layers.prelu`; `a` for all, a channel or an element."""

    def __init__(
        self,
        mode: str,
        channel: int | None = None,
        input_shape: Sequence[int] | None = None,
        param_attr: Any = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__("prelu", dtype)
        if mode == "all":
            shape = [1]
        elif mode == "channel":
            assert isinstance(channel, int), "channel argument is required when mode is 'channel'."
            shape = [1, channel, 1, 1]
        elif mode == "element":
            assert isinstance(input_shape, list | tuple), (
                "input_shape argument is required when mode is 'element'."
            )
            shape = [1, *input_shape[1:]]
        else:
            raise ValueError("mode should be one of all, channel, element.")
        self._mode = mode
        self.weight = self.create_parameter(
            shape, param_attr, dtype, default_initializer=Constant(0.25)
        )

    def forward(self, input: Variable) -> Any:
        """The activation of `input`."""
        return op("prelu", {"X": input, "Alpha": self.weight}, {"mode": self._mode})


@scoped(
    "size name act param_attr bias_attr",
    input1_dim=channels,
    input2_dim=lambda inputs, _: int(inputs[1].shape[1]),
    output_dim=lambda _, given: given.pop("size"),
)
class BilinearTensorProduct(Activated):
    """x W[i] y + b, as `fluid.layers.bilinear_tensor_product`."""

    def __init__(
        self,
        input1_dim: int,
        input2_dim: int,
        output_dim: int,
        name: str | None = None,
        act: str | None = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(dtype, act)
        self._name = name
        self.weight = self.create_parameter([output_dim, input1_dim, input2_dim], param_attr, dtype)
        self.bias = self.create_parameter([1, output_dim], bias_attr, dtype, is_bias=True)

    def forward(self, x: Variable, y: Variable) -> Any:
        """(N, input1_dim) and (N, input2_dim) give (N, output_dim)."""
        slots = {"X": x, "Y": y, "Weight": self.weight, "Bias": self.bias}
        return self._activated(op("bilinear_tensor_product", slots))


@scoped("size param_attr bias_attr activation gate_activation origin_mode dtype")
class GRUUnit(Layer):
    """One step of a GRU, as `fluid.layers.gru_unit`; `size` is three times its width.

    As in Fluid 1.8 `origin_mode` has no effect here: a warning in the log says so.
    """

    def __init__(
        self,
        size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        activation: str = "tanh",
        gate_activation: str = "sigmoid",
        origin_mode: bool = False,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(dtype=dtype)
        if origin_mode:
            tell_once("GRUUnit: Fluid 1.8 ignores origin_mode in dygraph, and so does refluid")
        self._options = {
            "activation": _UNIT_ACTIVATIONS[activation],
            "gate_activation": _UNIT_ACTIVATIONS[gate_activation],
        }
        width = size // 3
        self.weight = self.create_parameter([width, 3 * width], param_attr, dtype)
        self.bias = self.create_parameter([1, 3 * width], bias_attr, dtype, is_bias=True)

    def forward(self, input: Variable, hidden: Variable) -> tuple[Any, Any, Any]:
        """The new hidden state, the old one after the reset gate, and the gates."""
        slots = {"Input": input, "HiddenPrev": hidden, "Weight": self.weight, "Bias": self.bias}
        makes = ("Gate", "ResetHiddenPrev", "Hidden")
        gate, reset, updated = op("gru_unit", slots, self._options, makes)
        return updated, reset, gate
