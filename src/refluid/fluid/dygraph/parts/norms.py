"""Normalisations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from refluid.build import at_once, op
from refluid.eager import KeptAttributes
from refluid.fluid.dygraph.layers import Layer
from refluid.fluid.dygraph.parts.activated import Activated
from refluid.fluid.dygraph.parts.former import (
    channels,
    normalized_shape,
    scoped,
    whole_shape,
)
from refluid.fluid.initializer import Constant, Normal
from refluid.fluid.param_attr import ParamAttr
from refluid.ir.variable import Variable


@scoped("num_channels act is_test momentum epsilon param_attr bias_attr dtype data_layout")
class BatchNorm(Activated):
    """Batch normalisation, as `fluid.layers.batch_norm` with parameters of its own."""

    _followed: ClassVar[dict[str, str]] = {
        f"_{name}": name
        for name in (
            *("momentum", "epsilon", "data_layout"),
            *("use_global_stats", "trainable_statistics"),
        )
    }

    def __init__(
        self,
        num_channels: int,
        act: str | None = None,
        is_test: bool = False,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        dtype: Any = "float32",
        data_layout: str = "NCHW",
        in_place: bool = False,
        moving_mean_name: str | None = None,
        moving_variance_name: str | None = None,
        do_model_average_for_mean_and_var: bool = True,
        use_global_stats: bool = False,
        trainable_statistics: bool = False,
    ) -> None:
        assert bias_attr is not False, "bias_attr should not be False in batch_norm."
        super().__init__(dtype, act)
        kind = "float32" if dtype == "float16" else dtype
        size = [num_channels]
        self.weight = self.create_parameter(
            size, param_attr, kind, default_initializer=Constant(1.0)
        )
        self.bias = self.create_parameter(size, bias_attr, kind, is_bias=True)
        for name, given, start in (
            ("_mean", moving_mean_name, 0.0),
            ("_variance", moving_variance_name, 1.0),
        ):
            attr = ParamAttr(
                name=given,
                initializer=Constant(start),
                trainable=False,
                do_model_average=do_model_average_for_mean_and_var,
            )
            made = self.create_parameter(size, attr, kind)
            made.stop_gradient = True
            setattr(self, name, made)
        self._is_test, self._in_place = is_test, in_place
        self._param_attr, self._bias_attr = param_attr, bias_attr
        self._momentum, self._epsilon, self._data_layout = momentum, epsilon, data_layout
        self._use_global_stats = use_global_stats
        self._trainable_statistics = trainable_statistics
        options = {kept: getattr(self, name) for name, kept in self._followed.items()}
        self._testing = KeptAttributes(options | {"is_test": True})
        self._options = KeptAttributes(options | {"is_test": False})

    def _follow(self, attribute: str, value: Any) -> None:
        super()._follow(attribute, value)
        self._testing = KeptAttributes(self._testing | {attribute: value})

    def forward(self, input: Variable) -> Any:
        """The normalised input; the moving statistics follow it while the layer trains."""
        slots = {
            "X": input,
            "Scale": self.weight,
            "Bias": self.bias,
            "Mean": self._mean,
            "Variance": self._variance,
        }
        makes = {
            "Y": None,
            "MeanOut": self._mean,
            "VarianceOut": self._variance,
            "SavedMean": None,
            "SavedVariance": None,
        }
        # Where operators run at once, `eval()` alone says so, as Fluid documents.
        tested = not self.training or (self._is_test and not at_once())
        attrs = self._testing if tested else self._options
        return self._activated(op("batch_norm", slots, attrs, makes)[0])


@scoped(
    "scale shift begin_norm_axis epsilon param_attr bias_attr act",
    normalized_shape=normalized_shape,
)
class LayerNorm(Activated):
    """Layer normalisation over the last dimensions, as `fluid.layers.layer_norm`."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        scale: bool = True,
        shift: bool = True,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(dtype, act)
        one = isinstance(normalized_shape, int)
        sizes: Any = [normalized_shape] if one else normalized_shape
        self._normalized_shape: list[int] = list(sizes)
        self._epsilon, self._scale, self._shift = epsilon, scale, shift
        self._param_attr, self._bias_attr = param_attr, bias_attr
        size = [math.prod(self._normalized_shape)]
        self.weight = self.bias = None
        if scale:
            self.weight = self.create_parameter(
                size, param_attr, dtype, default_initializer=Constant(1.0)
            )
        if shift:
            self.bias = self.create_parameter(size, bias_attr, dtype, is_bias=True)

    def forward(self, input: Variable) -> Any:
        """The normalised input. ValueError where its last dimensions are others."""
        first = len(input.shape) - len(self._normalized_shape)
        if list(input.shape[first:]) != self._normalized_shape:
            raise ValueError(
                f"Given normalized_shape is {self._normalized_shape}, expected input with shape "
                f"[*, {str(self._normalized_shape)[1:]}, but got input shape {list(input.shape)}"
            )
        slots = {"X": input, "Scale": self.weight, "Bias": self.bias}
        attrs = {"epsilon": self._epsilon, "begin_norm_axis": first}
        return self._activated(op("layer_norm", slots, attrs, ("Y", "Mean", "Variance"))[0])


@scoped("groups epsilon param_attr bias_attr act data_layout", channels=channels)
class GroupNorm(Activated):
    """Normalisation of groups of channels, as `fluid.layers.group_norm`."""

    def __init__(
        self,
        channels: int,
        groups: int,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
        data_layout: str = "NCHW",
        dtype: Any = "float32",
    ) -> None:
        if data_layout != "NCHW":
            raise ValueError("unsupported data layout:" + data_layout)
        super().__init__(dtype, act)
        self._param_attr, self._bias_attr = param_attr, bias_attr
        self._options = {"epsilon": epsilon, "groups": groups}
        self.weight = self.create_parameter(
            [channels], param_attr or False, dtype, default_initializer=Constant(1.0)
        )
        self.bias = self.create_parameter([channels], bias_attr or False, dtype, is_bias=True)

    def forward(self, input: Variable) -> Any:
        """The normalised (N, C, H, W)."""
        slots = {"X": input, "Scale": self.weight, "Bias": self.bias}
        return self._activated(op("group_norm", slots, self._options, ("Y", "Mean", "Variance"))[0])


class InstanceNorm(Layer):
    """Normalisation of each channel of each sample, as `fluid.layers.instance_norm`."""

    def __init__(
        self,
        num_channels: int,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        dtype: Any = "float32",
    ) -> None:
        assert bias_attr is not False, "bias_attr should not be False in InstanceNorm."
        super().__init__(dtype=dtype)
        self._epsilon = epsilon
        self._param_attr, self._bias_attr = param_attr, bias_attr
        size = [num_channels]
        self.scale = self.create_parameter(
            size, param_attr, dtype, default_initializer=Constant(1.0)
        )
        self.bias = self.create_parameter(
            size, bias_attr, dtype, is_bias=True, default_initializer=Constant(0.0)
        )

    def forward(self, input: Variable) -> Any:
        """The normalised (N, C, ...)."""
        slots = {"X": input, "Scale": self.scale, "Bias": self.bias}
        makes = ("Y", "SavedMean", "SavedVariance")
        return op("instance_norm", slots, {"epsilon": self._epsilon}, makes)[0]


@scoped("dim power_iters eps name", weight_shape=whole_shape)
class SpectralNorm(Layer):
    """A weight divided by its greatest singular value, as `fluid.layers.spectral_norm`."""

    def __init__(
        self,
        weight_shape: Sequence[int],
        dim: int = 0,
        power_iters: int = 1,
        eps: float = 1e-12,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(dtype=dtype)
        self._options = {"dim": dim, "power_iters": power_iters, "eps": eps}
        rows = weight_shape[dim]
        for name, size in (("weight_u", rows), ("weight_v", math.prod(weight_shape) // rows)):
            made = self.create_parameter([size], None, dtype, default_initializer=Normal(0.0, 1.0))
            made.stop_gradient = True
            setattr(self, name, made)

    def forward(self, weight: Variable) -> Any:
        """The normalised weight."""
        slots = {"Weight": weight, "U": self.weight_u, "V": self.weight_v}
        return op("spectral_norm", slots, self._options)
