"""Which kernels one statement of a plan calls: watched while it runs for real."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode

from refluid.ir.operator import Operator
from refluid.kernels.holders import memory_of
from refluid.kernels.watching import DispatchMode, Unseen, written_by
from refluid.runtime.recorded.graph import Kernel, Layout, Value
from refluid.runtime.trees import mapped

# Through these an operator's Python code learns what a tensor holds, or lends its memory: what
# it does then may differ from step to step.
_READERS = frozenset({"numpy", "tolist", "item", "data_ptr", "untyped_storage", "storage", "equal"})
_READERS |= {"__array__", "__bool__", "__int__", "__float__", "__index__", "__complex__"}
_READERS |= {"__dlpack__", "is_nonzero", "share_memory_", "set_", "resize_"}
_SEEDED = (torch.Tag.nondeterministic_seeded,)
_UNKNOWN_SHAPE = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)

Geometry = tuple[int, int, torch.Size, tuple[int, ...], torch.dtype]


class Values:
    """The tensors of a step, known by their memory and geometry rather than as Python objects.

    A detached tensor, or one that autograd kept, is thus the value it was made from.
    """

    def __init__(self) -> None:
        self._known: dict[Geometry, Value] = {}
        # A storage that is only weakly held is freed, but its number is not given to another.
        self._storages: dict[int, StorageWeakRef] = {}
        self._certain: dict[int | None, list[Value]] = {}
        self._kept: set[int | None] = set()
        self._count = 0

    def find(self, tensor: Tensor) -> Value | None:
        """The value a tensor is, if it has been seen."""
        return self._known.get(_geometry(tensor))

    def seen(self, tensor: Tensor) -> bool:
        """Whether the tensor lies in memory of a value that has been seen."""
        return _geometry(tensor)[0] in self._storages

    def add(self, tensor: Tensor) -> Value:
        """The value of a tensor; a new one if it has not been seen."""
        key = _geometry(tensor)
        return self._known[key] if key in self._known else self._register(tensor, key)

    def made_anew(self, tensor: Tensor) -> Value:
        """The value of a tensor that a line makes in every step, even if it was kept before."""
        key = _geometry(tensor)
        certain = key in self._known and self._known[key].certain
        value = self._register(tensor, key)
        if certain:
            self.trust(value)
        return value

    def _register(self, tensor: Tensor, key: Geometry) -> Value:
        value = self._known[key] = self._new(self._held(tensor))
        value.layout = Layout(key[2], key[3], key[4], tensor.device)
        return value

    def apart(self, tensor: Tensor) -> Value:
        """A value of its own for a tensor that may be another, or of another shape, next time."""
        value = self._new(self._held(tensor))
        value.settled = False
        return value

    def _held(self, tensor: Tensor) -> int:
        """The number of a tensor's memory, which stays its own from now on."""
        weak = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        self._storages.setdefault(weak.cdata, weak)
        return int(weak.cdata)

    def keep(self, tensor: Tensor) -> Value:
        """The value of a tensor that the recording keeps: a constant that no kernel made."""
        value = self.add(tensor)
        value.constant = tensor
        self._kept.add(value.storage)
        self.trust(value)
        return value

    def is_kept(self, tensor: Tensor) -> bool:
        """Whether a tensor lies in the memory of a constant."""
        return memory_of(tensor) in self._kept

    def doubt(self, places: Set[int | None]) -> None:
        """What lies in that memory may hold other elements in another step."""
        for place in self._certain.keys() & places:
            for value in self._certain.pop(place):
                value.certain = False

    def trust(self, value: Value) -> None:
        """Shapes decide the elements of this value."""
        value.certain = True
        self._certain.setdefault(value.storage, []).append(value)

    def other(self, thing: Any) -> Value:
        """A value for anything but a tensor."""
        value = self._new(None)
        value.plain = thing is None or isinstance(thing, bool | int | float | str)
        return value

    def _new(self, storage: int | None) -> Value:
        self._count += 1
        return Value(f"z{self._count}", storage)


def _geometry(tensor: Tensor) -> Geometry:
    offset = int(tensor.storage_offset())
    return memory_of(tensor), offset, tensor.shape, tensor.stride(), tensor.dtype


class TracedKernels(DispatchMode):
    """Lists the kernels that are called while it is active.

    `refused` says why a statement cannot be replaced by its kernels, "" while it can. `unsettled`:
    what the statement makes may be of another shape where the same shapes are fed. `within`: tells
    the operator of a loop's body that is running.
    """

    def __init__(self, values: Values, refused: str = "") -> None:
        super().__init__()
        self.values = values
        self.kernels: list[Kernel] = []
        self.refused = refused
        self.unsettled = False
        self.within: Callable[[], Operator | None] = lambda: None

    def depends(self, why: str, on: Sequence[Any] = ()) -> None:
        """Notes that what the statement does may follow from elements of tensors, of those if any.

        Elements that shapes decide may be read, while it is known what the statement does to them.
        """
        read = [self.values.find(one) for one in on if isinstance(one, Tensor)]
        if not (read and not self.refused and all(one and one.certain for one in read)):
            self.refused, self.unsettled = self.refused or why, True

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        with Unseen():
            if not self.refused:
                written = self._written(func, args, kwargs)
                given = mapped((args, kwargs), self._given)
            result = self._called(func, args, kwargs)
            self._look(func, args, result)
            if not self.refused:
                self._note(func, given, result, written)
            return result

    def _called(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Calls a kernel as a recorded step will: some do more where gradients are wanted."""
        if self.refused or not torch.is_grad_enabled():
            return func(*args, **kwargs)
        with torch.no_grad():
            result = func(*args, **kwargs)
        if isinstance(result, list | tuple) and any(one is None for one in result):
            self.refused = "does something else where gradients are wanted"
            return func(*args, **kwargs)
        return result

    def _look(self, func: Any, args: tuple[Any, ...], result: Any) -> None:
        if any(tag in func.tags for tag in _UNKNOWN_SHAPE):
            self.depends("makes shapes that depend on values", args)
        made = result if isinstance(result, list | tuple) else [result]
        if not all(one is None or isinstance(one, Tensor) for one in made):
            self.depends("reads values", args)

    def _given(self, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        value = self.values.find(leaf)
        if value is None:
            if self.values.seen(leaf):
                self.refused = "uses a view that no kernel made"
            value = self.values.keep(leaf)
        return value

    def _written(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Tensor]:
        """The tensors this call writes to; refuses where they are the operator's constants."""
        written = []
        for position, name in written_by(func):
            given = args[position] if position < len(args) else kwargs.get(name)
            for tensor in given if isinstance(given, list | tuple) else [given]:
                if not isinstance(tensor, Tensor):
                    continue
                if self.values.find(tensor) is None or self.values.is_kept(tensor):
                    self.refused = "writes to a constant"
                written.append(tensor)
        return written

    def _note(self, func: Any, given: Any, result: Any, written: list[Tensor]) -> None:
        if any(tag in func.tags for tag in _SEEDED) and given[1].get("generator") is None:
            self.refused = "draws from torch's own generator"
        if self.refused:
            return
        made = result if isinstance(result, list | tuple) else [result]
        if not all(one is None or isinstance(one, Tensor) for one in made):
            return  # elements that shapes decide
        outs = [None if one is None else self.values.add(one) for one in made]
        places = frozenset(memory_of(tensor) for tensor in written)
        kernel = Kernel(func, given[0], given[1], outs, places, self.within())
        self.kernels.append(kernel)
        if kernel.draws or not all(value.certain for value in kernel.uses):
            self.values.doubt(places)
        else:
            for value in outs:
                if value is not None:
                    self.values.trust(value)


class Reads(TorchFunctionMode):
    """Refuses statements whose Python code looks at the elements of a tensor."""

    def __init__(self, kernels: TracedKernels) -> None:
        super().__init__()
        self.kernels = kernels

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if getattr(func, "__name__", "") in _READERS:
            self.kernels.depends("reads values", args[:1])
        return func(*args, **(kwargs or {}))
