"""Normalisations with parameters of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from refluid.build import at_once, op
from refluid.ir.variable import Variable
from refluid.paddle.framework.attributes import ParamAttr
from refluid.paddle.nn.functional import norm
from refluid.paddle.nn.initializer import Constant
from refluid.paddle.nn.layer.layers import Layer


class _BatchNorm(Layer):
    """Batch normalisation; the running statistics follow the batches' while it trains."""

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._settings = (momentum, epsilon, data_format, use_global_stats)
        size = [num_features]
        self.weight = self.create_parameter(size, weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(size, bias_attr, is_bias=True)
        for attribute, start, letter in (("_mean", 0.0, "w_1"), ("_variance", 1.0, "w_2")):
            given = None if name is None else f"{name}.{letter}"
            attr = ParamAttr(given, Constant(start), trainable=False)
            made = self.create_parameter(size, attr)
            made.stop_gradient = True
            setattr(self, attribute, made)

    def forward(self, input: Variable) -> Variable:
        """The normalised input."""
        momentum, epsilon, data_format, use_global = self._settings
        return norm.batch_norm(
            input,
            self._mean,
            self._variance,
            self.weight,
            self.bias,
            self.training,
            momentum,
            epsilon,
            data_format,
            use_global,
        )


class BatchNorm1D(_BatchNorm):
    """Batch normalisation of (N, C) or (N, C, L)."""

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCL",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            *(num_features, momentum, epsilon, weight_attr, bias_attr, data_format),
            *(use_global_stats, name),
        )


class BatchNorm2D(_BatchNorm):
    """Batch normalisation of (N, C, H, W)."""


class BatchNorm3D(_BatchNorm):
    """Batch normalisation of (N, C, D, H, W)."""

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCDHW",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            *(num_features, momentum, epsilon, weight_attr, bias_attr, data_format),
            *(use_global_stats, name),
        )


class BatchNorm(Layer):
    """Batch normalisation with an activation, as `fluid.dygraph.BatchNorm`."""

    def __init__(
        self,
        num_channels: int,
        act: str | None = None,
        is_test: bool = False,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        dtype: str = "float32",
        data_layout: str = "NCHW",
        in_place: bool = False,
        moving_mean_name: str | None = None,
        moving_variance_name: str | None = None,
        do_model_average_for_mean_and_var: bool = True,
        use_global_stats: bool = False,
        trainable_statistics: bool = False,
    ) -> None:
        super().__init__(None, "float32" if dtype == "float16" else dtype)
        self._act, self._is_test = act, is_test
        self._settings = (momentum, epsilon, data_layout, use_global_stats or None)
        self._learns = trainable_statistics
        size = [num_channels]
        self.weight = self.create_parameter(size, param_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(size, bias_attr, is_bias=True)
        for attribute, given, start in (
            ("_mean", moving_mean_name, 0.0),
            ("_variance", moving_variance_name, 1.0),
        ):
            averaged = do_model_average_for_mean_and_var
            attr = ParamAttr(given, Constant(start), trainable=False, do_model_average=averaged)
            made = self.create_parameter(size, attr)
            made.stop_gradient = True
            setattr(self, attribute, made)

    def forward(self, input: Variable) -> Variable:
        """The normalised input."""
        momentum, epsilon, data_format, use_global = self._settings
        tested = not self.training or (self._is_test and not at_once())
        trains = self._learns or not tested
        parameters = (self._mean, self._variance, self.weight, self.bias)
        out = norm.batch_norm(
            input, *parameters, trains, momentum, epsilon, data_format, use_global
        )
        return out if self._act is None else op(self._act, {"X": out})


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation; over all trainers where `build_strategy.sync_batch_norm` says so."""

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(
            *(num_features, momentum, epsilon, weight_attr, bias_attr, data_format), name=name
        )

    @classmethod
    def convert_sync_batchnorm(cls, layer: Any) -> Any:
        """The layer itself: which statistics count is the strategy's to say here."""
        return layer


class LayerNorm(Layer):
    """Normalisation over the last dimensions."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        one = isinstance(normalized_shape, int)
        sizes: Any = [normalized_shape] if one else normalized_shape
        self._normalized_shape, self._epsilon = list(sizes), epsilon
        count = [math.prod(self._normalized_shape)]
        self.weight = self.create_parameter(count, weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(count, bias_attr, is_bias=True)

    def forward(self, input: Variable) -> Variable:
        """The normalised input."""
        return norm.layer_norm(input, self._normalized_shape, self.weight, self.bias, self._epsilon)


class GroupNorm(Layer):
    """Normalisation of groups of channels."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._settings = (num_groups, epsilon)
        self._data_format = data_format
        self.weight = self._own(num_channels, weight_attr, 1.0)
        self.bias = self._own(num_channels, bias_attr, 0.0)

    def _own(self, size: int, attr: Any, start: float) -> Any:
        """A parameter; where `attr` is False one that stays as it is."""
        if attr is False:
            attr = ParamAttr(None, Constant(start), trainable=False)
        made = self.create_parameter([size], attr, default_initializer=Constant(start))
        made.stop_gradient = not made.trainable
        return made

    def forward(self, input: Variable) -> Variable:
        """The normalised input."""
        return norm.group_norm(input, *self._settings, self.weight, self.bias, self._data_format)


class _InstanceNorm(Layer):
    """Normalisation of each channel of each sample."""

    def __init__(
        self,
        num_features: int,
        epsilon: float = 1e-05,
        momentum: float = 0.9,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._epsilon = epsilon
        size = [num_features]
        self.scale = self.create_parameter(size, weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(size, bias_attr, is_bias=True)

    def forward(self, input: Variable) -> Variable:
        """The normalised input."""
        return norm.instance_norm(input, None, None, self.scale, self.bias, eps=self._epsilon)


class InstanceNorm1D(_InstanceNorm):
    """Normalisation of each channel of each sample of (N, C, L)."""

    def __init__(
        self,
        num_features: int,
        epsilon: float = 1e-05,
        momentum: float = 0.9,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCL",
        name: str | None = None,
    ) -> None:
        super().__init__(num_features, epsilon, momentum, weight_attr, bias_attr, data_format)


class InstanceNorm2D(_InstanceNorm):
    """Normalisation of each channel of each sample of (N, C, H, W)."""


class InstanceNorm3D(_InstanceNorm):
    """Normalisation of each channel of each sample of (N, C, D, H, W)."""

    def __init__(
        self,
        num_features: int,
        epsilon: float = 1e-05,
        momentum: float = 0.9,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__(num_features, epsilon, momentum, weight_attr, bias_attr, data_format)


# Norms that stay float32 in networks that `paddle.amp.decorate` makes half.
FULL_PRECISION = (_BatchNorm, BatchNorm, LayerNorm, _InstanceNorm)
