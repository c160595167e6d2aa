"""Convolutions and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from refluid.build import op
from refluid.eager import KeptAttributes
from refluid.fluid.dygraph.parts.activated import Activated, Following, FormerNames, several
from refluid.fluid.dygraph.parts.former import channels, scoped
from refluid.fluid.initializer import Normal
from refluid.ir.variable import Variable

Sizes = int | Sequence[int]
_CONVOLVED = (
    "num_filters filter_size stride padding dilation groups param_attr bias_attr use_cudnn act "
    "dtype"
)
_TRANSPOSED = (
    "num_filters output_size filter_size padding stride dilation groups param_attr bias_attr "
    "use_cudnn act"
)


class _Convolution(FormerNames, Activated):
    """A convolution over `rank` dimensions."""

    rank = 2
    _former: ClassVar[dict[str, str]] = {"_filter_param": "weight", "_bias_param": "bias"}
    _followed: ClassVar[dict[str, str]] = {
        "_stride": "strides",
        "_padding": "paddings",
        "_dilation": "dilations",
        "_groups": "groups",
        "_use_cudnn": "use_cudnn",
    }

    def __init__(
        self,
        num_channels: int,
        num_filters: int,
        filter_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int | None = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        use_cudnn: bool = True,
        act: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        assert param_attr is not False, "param_attr should not be False here."
        if not isinstance(use_cudnn, bool):
            raise ValueError("use_cudnn should be True or False")
        super().__init__(dtype, act)
        self._groups = 1 if groups is None else groups
        if num_channels % self._groups:
            raise ValueError("num_channels must be divisible by groups.")
        sizes = several(filter_size, self.rank, "filter_size")
        # Fluid's names, which layers made of these read.
        self._num_channels, self._num_filters = num_channels, num_filters
        self._filter_size, self._use_cudnn = filter_size, use_cudnn
        self._param_attr, self._bias_attr = param_attr, bias_attr
        self._stride = several(stride, self.rank, "stride")
        self._padding = several(padding, self.rank, "padding")
        self._dilation = several(dilation, self.rank, "dilation")
        options = {
            "strides": self._stride,
            "paddings": self._padding,
            "dilations": self._dilation,
            "groups": self._groups,
            "use_cudnn": use_cudnn,
        }
        self._options = KeptAttributes(options)
        self._alone = not use_cudnn and num_channels == self._groups
        self.weight = self._kernel(num_channels, num_filters, sizes, param_attr, dtype)
        self.bias = self.create_parameter([num_filters], bias_attr, dtype, is_bias=True)

    def _kernel(self, channels: int, filters: int, sizes: list[int], attr: Any, dtype: Any) -> Any:
        self._alone = self._alone and filters % channels == 0
        spread = math.sqrt(2.0 / (math.prod(sizes) * channels))
        shape = [filters, channels // self._groups, *sizes]
        return self.create_parameter(shape, attr, dtype, default_initializer=Normal(0.0, spread))

    def _convolved(self, type: str, input: Any, **more: Any) -> Any:
        slots = {"Input": input, "Filter": self.weight}
        out = op(type, slots, self._options | more if more else self._options)
        return self._finished(out, self.bias, 1)


class _Transposed(_Convolution):
    """The gradient of a convolution as a layer."""

    def _kernel(self, channels: int, filters: int, sizes: list[int], attr: Any, dtype: Any) -> Any:
        self._alone = self._alone and filters == channels
        shape = [channels, filters // self._groups, *sizes]
        return self.create_parameter(shape, attr, dtype)


@scoped(_CONVOLVED, num_channels=channels)
class Conv2D(_Convolution):
    """2-D convolution of (N, C, H, W), as `fluid.layers.conv2d` with parameters of its own."""

    @property
    def _l_type(self) -> str:
        """Its operator, by the name that layers derived from this one read."""
        return "depthwise_conv2d" if self._alone else "conv2d"

    def forward(self, input: Variable) -> Any:
        """The convolution of (N, C, H, W)."""
        return self._convolved(self._l_type, input)


@scoped(_CONVOLVED, num_channels=channels)
class Conv3D(_Convolution):
    """3-D convolution of (N, C, D, H, W), as `fluid.layers.conv3d` with parameters of its own."""

    rank = 3

    def forward(self, input: Variable) -> Any:
        """The convolution of (N, C, D, H, W)."""
        return self._convolved("conv3d", input)


@scoped(_TRANSPOSED, num_channels=channels)
class Conv2DTranspose(_Transposed):
    """Transposed convolution of (N, C, H, W), as `fluid.layers.conv2d_transpose`."""

    def __init__(
        self,
        num_channels: int,
        num_filters: int,
        filter_size: Sizes,
        output_size: Sizes | None = None,
        padding: Sizes = 0,
        stride: Sizes = 1,
        dilation: Sizes = 1,
        groups: int | None = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        use_cudnn: bool = True,
        act: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(
            *(num_channels, num_filters, filter_size, stride, padding, dilation, groups),
            *(param_attr, bias_attr, use_cudnn, act, dtype),
        )
        self._output_size = [] if output_size is None else several(output_size, 2, "output_size")

    @property
    def _op_type(self) -> str:
        """Its operator, by the name that layers derived from this one read."""
        return "depthwise_conv2d_transpose" if self._alone else "conv2d_transpose"

    def forward(self, input: Variable) -> Any:
        """The transposed convolution of (N, C, H, W)."""
        return self._convolved(self._op_type, input, output_size=self._output_size)


@scoped(_TRANSPOSED, num_channels=channels)
class Conv3DTranspose(_Transposed):
    """Transposed convolution of (N, C, D, H, W), as `fluid.layers.conv3d_transpose`."""

    rank = 3

    def __init__(
        self,
        num_channels: int,
        num_filters: int,
        filter_size: Sizes,
        padding: Sizes = 0,
        stride: Sizes = 1,
        dilation: Sizes = 1,
        groups: int | None = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        use_cudnn: bool = True,
        act: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(
            *(num_channels, num_filters, filter_size, stride, padding, dilation, groups),
            *(param_attr, bias_attr, use_cudnn, act, dtype),
        )

    def forward(self, input: Variable) -> Any:
        """The transposed convolution of (N, C, D, H, W)."""
        return self._convolved("conv3d_transpose", input)


@scoped("pool_size pool_type pool_stride pool_padding global_pooling use_cudnn ceil_mode exclusive")
class Pool2D(Following):
    """Maximum or mean over windows of (N, C, H, W), as `fluid.layers.pool2d`."""

    _followed: ClassVar[dict[str, str]] = {
        "_pool_type": "pooling_type",
        "_pool_size": "ksize",
        "_global_pooling": "global_pooling",
        "_pool_stride": "strides",
        "_pool_padding": "paddings",
        "_use_cudnn": "use_cudnn",
        "_ceil_mode": "ceil_mode",
        "_exclusive": "exclusive",
    }

    def __init__(
        self,
        pool_size: Sizes = -1,
        pool_type: str = "max",
        pool_stride: Sizes = 1,
        pool_padding: Sizes = 0,
        global_pooling: bool = False,
        use_cudnn: bool = True,
        ceil_mode: bool = False,
        exclusive: bool = True,
    ) -> None:
        if pool_type not in ("max", "avg"):
            raise ValueError(f"Unknown pool_type: '{pool_type}'. It can only be 'max' or 'avg'.")
        if not global_pooling and pool_size == -1:
            raise ValueError("When the global_pooling is False, pool_size must be passed")
        if not isinstance(use_cudnn, bool):
            raise ValueError("use_cudnn should be True or False")
        super().__init__()
        self._pool_type, self._pool_size = pool_type, several(pool_size, 2, "pool_size")
        self._pool_stride = several(pool_stride, 2, "pool_stride")
        self._pool_padding = several(pool_padding, 2, "pool_padding")
        self._global_pooling, self._ceil_mode = global_pooling, ceil_mode
        self._use_cudnn, self._exclusive = use_cudnn, exclusive
        options = {kept: getattr(self, name) for name, kept in self._followed.items()}
        self._options = KeptAttributes(options)

    def forward(self, input: Variable) -> Any:
        """The pooled maps."""
        return op("pool2d", {"X": input}, self._options)
