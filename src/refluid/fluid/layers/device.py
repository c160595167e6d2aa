"""get_places: the machine's devices, as a variable."""

from __future__ import annotations

from typing import Any

from refluid.build import apply
from refluid.core import names
from refluid.core.dtypes import VarType
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

__all__: list[str] = []


def get_places(device_count: int | None = None, device_type: str | None = None) -> Variable:
    """A variable that holds a list of places.

    device_count: how many, all where None. device_type: "CPU", "CUDA", or "AUTO" where None.
    """
    helper = LayerHelper("get_places")
    out = helper.create_variable(name=names.generate(helper.name + ".out"), type=VarType.PLACE_LIST)
    attrs: dict[str, Any] = {}
    if device_count is not None:
        attrs["device_count"] = int(device_count)
    if device_type is not None:
        attrs["device_type"] = str(device_type)
    apply("get_places", None, {"Out": out}, attrs)
    return out
