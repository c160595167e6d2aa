"""Values an optimizer keeps per parameter, such as velocities and moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.core import names
from refluid.fluid.initializer import Constant
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.ambient import device_guard
from refluid.ir.variable import Parameter, Variable


class Accumulators:
    """Persistable variables `PARAMETER_KIND_0` in the program, by kind and parameter."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self.helper: LayerHelper
        self._accumulators: dict[str, dict[str, Variable]] = {}
        self._opti_name_list: list[str] = []
        # How those were made that had no program yet, by kind and parameter.
        self._early: dict[tuple[str, str], dict[str, Any]] = {}

    def get_opti_var_name_list(self) -> list[str]:
        """Names of all accumulators made so far."""
        return self._opti_name_list

    def state_dict(self) -> dict[str, Variable]:
        """The accumulators' variables by name."""
        return {var.name: var for kind in self._accumulators.values() for var in kind.values()}

    def _add_accumulator(
        self,
        name: str,
        param: Parameter,
        dtype: Any = None,
        fill_value: float = 0.0,
        shape: Sequence[int] | None = None,
        type: Any = None,
        device: str | None = None,
    ) -> Variable:
        """Makes an accumulator that the startup program fills with `fill_value`.

        name: its kind. dtype, shape, type: as the parameter's unless given. device: where
        it is kept, with the parameter unless given. Raises ValueError for a second one of a
        kind.
        """
        kind = self._kind(name)
        existing = self._accumulators.setdefault(kind, {}).get(param.name)
        if existing is not None and _belongs(existing, param):
            raise ValueError(
                f"Accumulator {kind} already exists for parameter {param.name}: this optimizer "
                "has been applied to it before. Make another optimizer for another loss"
            )
        var = self.helper.create_global_variable(
            name=names.generate(f"{param.name}_{kind}"),
            persistable=True,
            dtype=param.dtype if dtype is None else dtype,
            type=param.type if type is None else type,
            shape=param.shape if shape is None else shape,
            belong_to_optimizer=True,
        )
        self._opti_name_list.append(var.name)
        with device_guard(device):
            self.helper.set_variable_initializer(var, Constant(float(fill_value)))
        self._accumulators[kind][param.name] = var
        block: Any = var.block
        if block is None:
            how = {"dtype": dtype, "fill_value": fill_value, "shape": shape, "type": type}
            self._early[kind, param.name] = how | {"device": device}
        return var

    def _get_accumulator(self, name: str, param: Parameter) -> Variable:
        """The accumulator of that kind; ValueError where none was made.

        Where operators run at once, a user's optimizer may make it before there is a program of
        updates: it is made anew in each.
        """
        kind = self._kind(name)
        if param.name not in self._accumulators.get(kind, {}):
            raise ValueError(f"Accumulator {kind} does not exist for parameter {param.name}")
        found, early = self._accumulators[kind][param.name], self._early.get((kind, param.name))
        if early is not None and not _belongs(found, param):
            return self._add_accumulator(name, param, **early)
        return found

    def _kind(self, name: str) -> str:
        return name if self._name is None else f"{self._name}_{name}"


def _belongs(accumulator: Variable, param: Parameter) -> bool:
    """Whether both are of one program, or both of none."""
    own: Any = accumulator.block
    block: Any = param.block
    if own is None or block is None:
        return own is block
    return bool(own.program is block.program)
