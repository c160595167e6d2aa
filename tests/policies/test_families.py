"""A layer stands in the family of its operator: both in `nn/pooling.py`, say."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

from refluid import fluid
from refluid.ops.registry import find
from scripts.operator_layers import layers_by_operator

SOURCE = Path(fluid.__file__).parents[1]
FUNCTIONS = "refluid.fluid.functions."
# What layers need besides the operator that they are for.
MEANS = {"tensor.assignment", "tensor.creation"}
COMPOSED = {"log_softmax"}  # of other layers


def of_functions() -> dict[str, tuple[str, set[str]]]:
    """Function -> its module below the families, and those of the operators that it appends."""
    found: dict[str, tuple[str, set[str]]] = {}
    for op_type, layers in layers_by_operator().items():
        definition = find(op_type)
        assert definition is not None, op_type
        home = getattr(definition.body, "__module__", "").removeprefix("refluid.ops.")
        for layer in layers:
            module = reduce(getattr, layer.split("."), fluid).__module__
            name = layer.rpartition(".")[2]
            known = module.startswith(FUNCTIONS) and "." in home
            if known and name.islower() and name not in COMPOSED:
                found.setdefault(name, (module.removeprefix(FUNCTIONS), set()))[1].add(home)
    return found


def family(module: str) -> str:
    return module.partition(".")[0]


def test_layers_stand_in_the_family_of_an_operator_of_theirs() -> None:
    layers = of_functions()
    of_one_operator = {
        name: (module, home)
        for name, (module, homes) in layers.items()
        for home in [*(homes - MEANS or homes)]
        if len(homes - MEANS or homes) == 1
    }
    assert len(of_one_operator) > 200
    assert not {one for one in of_one_operator.items() if len({*map(family, one[1])}) > 1}


def test_families_of_layers_are_families_of_operators() -> None:
    operators, layers = (
        {one.name for one in (SOURCE / room).iterdir() if (one / "__init__.py").exists()}
        for room in ("ops", "fluid/functions")
    )
    assert layers <= operators
