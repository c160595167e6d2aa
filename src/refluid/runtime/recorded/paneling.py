"""Products of recorded steps by panels, where those are faster.

A right factor that several products take, as those of a loop over time steps do, or those of the
parts of a large one, is laid once, before the first of them, and freed after the last one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from refluid.kernels.panels.choice import pays, pays_shared
from refluid.kernels.panels.product import lies_as_factor
from refluid.kernels.watching import name_of
from refluid.runtime.recorded.graph import Kernel, Layout, Part, Value, Versions

_NAMES = """
    mm addmm mkldnn::_linear_pointwise
"""
_MM, _WITH_BIAS, _TURNED = _NAMES.split()
# Numbers of memory of its own: no other one's are so small.
_OWN = -(1 << 32)
_ours: Any = torch.ops.refluid


@dataclass(frozen=True)
class _Product:
    """a · other + bias, or of the transpose of `other` where that is turned; with its step."""

    step: Kernel
    a: Value
    other: Value
    turned: bool
    bias: Value | None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, inner size and columns."""
        (rows, inner), shape = _layout(self.a).shape, _layout(self.other).shape
        return rows, inner, shape[0 if self.turned else 1]

    @property
    def lying(self) -> tuple[int, int]:
        """As `pays` takes it: which factors' columns lie side by side."""
        along = _layout(self.a).stride[1], _layout(self.other).stride[0 if self.turned else 1]
        return int(along[0] != 1), int(along[1] != 1)

    def right(self, number: int) -> tuple[list[Part], Value]:
        """The right factor (inner, columns), and the step that makes it where it is turned."""
        if not self.turned:
            return [], self.other
        old = _layout(self.other)
        layout = Layout(torch.Size(old.shape[::-1]), old.stride[::-1], old.dtype, old.device)
        made = Value(f"r{number}", self.other.storage, layout)
        return [self.kernel(torch.ops.aten.t.default, (self.other,), made)], made

    def kernel(self, func: Any, given: tuple[Any, ...], out: Value | None) -> Kernel:
        """One that belongs to the product's operator."""
        return Kernel(func, given, {}, [out], frozenset(), self.step.op)

    def alone(self, place: int) -> list[Part]:
        """Its steps, if it lays both factors."""
        before, right = self.right(place)
        given = self.a, right, self.bias
        return [*before, self.kernel(_ours.panel_product.default, given, self.step.outs[0])]

    def by(self, right: Value, panels: Value) -> Kernel:
        """Its step, if the right factor was laid."""
        given = self.a, right, panels, self.bias
        return self.kernel(_ours.laid_product.default, given, self.step.outs[0])


def paneled(steps: Sequence[Part]) -> list[Part]:
    """The steps, with such products in the place of torch's that are slower.

    Their numbers may differ from the former ones by rounding.
    """
    versions, found = Versions(), dict[int, _Product]()
    groups: defaultdict[Any, list[int]] = defaultdict(list)
    for place, step in enumerate(steps):
        versions.note(step)
        if (product := _product(step)) is not None:
            found[place] = product
            groups[product.other, product.turned, versions.of(product.other)].append(place)
    changed: dict[int, list[Part]] = {}
    for places in groups.values():
        first = found[places[0]]
        if pays_shared(*first.sizes, len(places), *first.lying):
            before, right = first.right(places[0])
            panels = Value(f"l{places[0]}", _OWN - places[0])
            laying = first.kernel(_ours.lay_panels.default, (right,), panels)
            changed |= {place: [found[place].by(right, panels)] for place in places}
            changed[places[0]][:0] = [*before, laying]
    for place, product in found.items():
        if place not in changed and pays(*product.sizes, *product.lying):
            changed[place] = product.alone(place)
    return [one for place, step in enumerate(steps) for one in changed.get(place, (step,))]


def _product(step: Part) -> _Product | None:
    """The product that a step is, if its factors, bias and result are as panels need them."""
    if not isinstance(step, Kernel) or step.kwargs or len(step.outs) != 1:
        return None
    name, given = name_of(step.func), step.args
    if name == _MM:
        made = _Product(step, given[0], given[1], False, None)
    elif name == _WITH_BIAS:
        made = _Product(step, given[1], given[2], False, given[0])
    elif name == _TURNED and given[3] == "none":
        made = _Product(step, given[0], given[1], True, given[2])
    else:
        return None
    return made if _fits(made) else None


def _fits(product: _Product) -> bool:
    factors, out = (product.a, product.other), product.step.outs[0]
    known = [one.layout for one in (*factors, out) if one is not None]
    if len(known) < 3 or not all(map(_is_matrix, known)):
        return False
    bias = product.bias
    if bias is not None and not (isinstance(bias, Value) and _is_row(bias, product.sizes[2])):
        return False
    return all(lies_as_factor(*one.shape, *one.stride) for one in map(_layout, factors))


def _is_matrix(layout: Layout | None) -> bool:
    if layout is None or len(layout.shape) != 2 or 0 in layout.shape:
        return False
    return layout.dtype is torch.float32 and layout.device.type == "cpu"


def _is_row(bias: Value, columns: int) -> bool:
    layout = bias.layout
    if layout is None or layout.shape != (columns,) or layout.dtype is not torch.float32:
        return False
    return layout.device.type == "cpu" and layout.stride == (1,)


def _layout(value: Value) -> Layout:
    assert value.layout is not None
    return value.layout
