"""The units of `fluid.contrib`: layers of dygraph too, from which users derive their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid import fluid
from tests.fluid.once import own_programs

L = fluid.layers
UNITS = {"BasicGRUUnit": ["_candidate_bias", "_candidate_weight", "_gate_bias", "_gate_weight"]}
UNITS["BasicLSTMUnit"] = ["_bias", "_weight"]


class Leaky(fluid.contrib.BasicGRUUnit):  # type: ignore[misc]
    """Its own parameters and step, by what Fluid's unit keeps of its arguments."""

    def _build_once(self, input: Any, pre_hidden: Any) -> None:
        size = self._hiden_size
        self._w = self.create_parameter([input.shape[-1] + size, size], self._param_attr)
        self._b = self.create_parameter([size], self._bias_attr, self._dtype, is_bias=True)

    def forward(self, input: Any, pre_hidden: Any) -> Any:
        """Half of what was, half of what is new."""
        new = L.matmul(L.concat([input, pre_hidden], 1), self._w) + self._b
        return 0.5 * pre_hidden + 0.5 * self._activation(new) * self._gate_activation(new)


@pytest.mark.parametrize("kind", UNITS)
def test_units_are_layers_of_dygraph(kind: str) -> None:
    inputs = [np.full((2, 4), number, "float32") for number in (1, 2, 3)]
    with fluid.dygraph.guard():
        unit = getattr(fluid.contrib.layers, kind)("own", 4)
        assert unit.state_dict() == {} and isinstance(unit, fluid.dygraph.Layer)
        given = [fluid.dygraph.to_variable(one) for one in inputs[: 2 + (kind == "BasicLSTMUnit")]]
        made = unit(*given)
        hidden = made[0] if isinstance(made, tuple) else made
        hidden.backward()
        assert sorted(unit.state_dict()) == UNITS[kind] and hidden.shape == [2, 4]
        assert all(np.abs(one.gradient()).max() > 0 for one in unit.parameters())
        assert unit.parameters()[0].name == f"{unit.full_name()}.w_0"


def test_a_unit_derived_from_fluids() -> None:
    with own_programs():
        x, h = fluid.data("x", [3, 2]), fluid.data("h", [3, 4])
        Leaky("leaky", 4, param_attr=fluid.ParamAttr(name="own_w"))(x, h)
        names = [one.name for one in fluid.default_main_program().all_parameters()]
    assert names == ["own_w", "leaky/Leaky_0.b_0"]


def test_gru_unit_of_dygraph_ignores_its_origin_mode() -> None:
    ones = fluid.initializer.Constant(1.0)
    with fluid.dygraph.guard():
        x, h = (fluid.dygraph.to_variable(np.ones((2, n), "float32")) for n in (3, 1))
        attrs = {"param_attr": ones, "bias_attr": ones, "origin_mode": True}
        unit = fluid.dygraph.GRUUnit(3, activation="relu", gate_activation="relu", **attrs)
        hidden, reset, gates = unit(x, h)
    assert (hidden.numpy() == 13).all()  # (1 - 3) * 1 + 3 * 5
    assert (reset.numpy() == 3).all() and (gates.numpy() == [3, 3, 5]).all()
