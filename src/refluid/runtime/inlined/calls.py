"""torch's functions as they are called by a body that is given sizes to be followed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from refluid.runtime.inlined.lengths import Unfollowed, negated, number_of
from refluid.runtime.inlined.shapes import FollowedShape
from refluid.runtime.inlined.trace import Trace
from refluid.runtime.trees import mapped, method

# What is the same of all tensors of one element type, rank and device.
_STATIC = frozenset({"dtype", "device", "ndim", "dim", "is_cpu", "is_cuda", "is_sparse", "layout"})
_STATIC |= {"requires_grad", "is_leaf", "is_floating_point", "is_complex", "is_quantized"}
_STATIC |= {"is_meta", "is_mkldnn", "itemsize", "element_size", "result_type", "can_cast"}
# These look at elements, or sizes or elements decide how many tensors they give or of which rank.
_REFUSED = frozenset({"unbind", "chunk", "tensor_split", "hsplit", "vsplit", "dsplit"})
_REFUSED |= {"unsafe_chunk", "unsafe_split"}
_REFUSED |= {"squeeze_", "nonzero", "unique", "unique_consecutive", "masked_select", "one_hot"}
_REFUSED |= {"bincount", "repeat_interleave", "resize_", "set_", "numpy", "tolist", "item"}
_REFUSED |= {"data_ptr", "untyped_storage", "storage", "equal", "allclose", "is_nonzero"}
_REFUSED |= {"__iter__", "__bool__", "__int__", "__float__", "__index__", "__complex__"}
_REFUSED |= {"__array__", "__dlpack__", "share_memory_", "requires_grad_", "data", "grad"}
# These do so unless they are told: sizes of the parts, which dimensions, and what to choose from.
_TOLD: Mapping[str, Callable[..., bool]] = {
    "split": lambda _x, parts, *_dim, **_more: isinstance(parts, list),
    "squeeze": lambda _x, *dims, **more: bool(dims or more),
    "where": lambda _condition, *values, **more: bool(values or more),
}
# These give the tensor itself where that is as asked: its type, its rank, or its layout.
_ITSELF = frozenset({"to", "long", "int", "float", "double", "flatten", "contiguous", "type_as"})


class TracedCalls(TorchFunctionMode):
    """Notes in a trace what is called while it is active, and gives each its real arguments."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.trace = trace
        self.refused = ""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "__get__":
            name = func.__self__.__name__
        try:
            return self._result(func, name, args, kwargs)
        except Unfollowed as reason:
            self.refused = str(reason)  # a body may go on from there
            raise

    def _result(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name in _ASKED:
            return _ASKED[name](self.trace, *args, **kwargs)
        told = _TOLD.get(name)
        if name in _REFUSED or (told is not None and not told(*args, **kwargs)):
            raise Unfollowed(f"calls {name.strip('_')}")
        real = func(*mapped(args, _real), **mapped(kwargs, _real))
        if name in _STATIC:
            return real
        if name in _ITSELF and args and real is args[0]:
            if name == "contiguous":
                _is_contiguous(self.trace, real)
            return real
        self.trace.called(func, name, args, kwargs, real)
        return real


def _real(leaf: Any) -> Any:
    if isinstance(leaf, slice):
        return slice(*map(number_of, (leaf.start, leaf.stop, leaf.step)))
    return number_of(leaf)


def _shape(trace: Trace, tensor: Tensor) -> Any:
    return FollowedShape(trace.sizes_of(tensor))


def _size(trace: Trace, tensor: Tensor, dim: int | None = None) -> Any:
    found = _shape(trace, tensor)
    return found if dim is None else found[dim]


def _numel(trace: Trace, tensor: Tensor) -> Any:
    return _shape(trace, tensor).numel()


def _stride(trace: Trace, tensor: Tensor, dim: int | None = None) -> Any:
    steps = FollowedShape(
        trace.asked(tensor, f"{{}}.stride({place})", int(step))
        for place, step in enumerate(tensor.stride())
    )
    return steps if dim is None else steps[dim]


def _storage_offset(trace: Trace, tensor: Tensor) -> Any:
    return trace.asked(tensor, "{}.storage_offset()", int(tensor.storage_offset()))


def _is_contiguous(trace: Trace, tensor: Tensor, **layout: Any) -> bool:
    if layout:
        raise Unfollowed("asks for a layout")
    holds = tensor.is_contiguous()
    condition = method(trace.spelled(tensor), "is_contiguous")
    trace.met(condition if holds else negated(condition))
    return holds


def _len(_trace: Trace, _tensor: Tensor) -> Any:
    raise Unfollowed("uses a size as a number of Python")


_ASKED: Mapping[str, Callable[..., Any]] = {
    "shape": _shape,
    "size": _size,
    "numel": _numel,
    "nelement": _numel,
    "stride": _stride,
    "storage_offset": _storage_offset,
    "is_contiguous": _is_contiguous,
    "__len__": _len,
}
