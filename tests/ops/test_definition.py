"""Definitions are built once, of all decorators, and don't change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from torch import Tensor

from refluid.ops import registry
from refluid.ops.registry import defined, find, gradient, in_place, many, operator, operators

OWN = "threefold"


@pytest.fixture
def threefold() -> Iterator[None]:
    """An operator of this test's own."""

    @operator(OWN, outputs="Out", without_lod="Out", views={"Out": "X"})
    def body(X: Tensor) -> Tensor:
        return 3 * X

    yield
    registry.forget(OWN)
    registry.forget(f"{OWN}_grad")


@pytest.mark.usefixtures("threefold")
def test_a_definition_is_made_of_all_decorators() -> None:
    @gradient(OWN, shape_only="X", views={"d_X": "d_Out"})
    def backward(X: Tensor, d_Out: Tensor) -> Tensor:
        return 3 * d_Out

    @in_place(OWN, "X")
    def over(X: Tensor) -> Tensor:
        return X.mul_(3)

    @many(OWN)
    def all_of(X: list[Tensor]) -> None: ...

    made, derived = defined(OWN), defined(f"{OWN}_grad")
    assert (made.many, made.reusing, made.uses) == (all_of, {"X": over}, ("X",))
    assert (made.without_lod, made.views) == (("Out",), {"Out": "X"})
    assert (derived.body, derived.shape_only) == (backward, ("X",))
    assert derived.views == {"X@GRAD": "Out@GRAD"}
    assert find(OWN) is made


@pytest.mark.usefixtures("threefold")
def test_nothing_is_added_to_what_is_in_use() -> None:
    made = defined(OWN)
    with pytest.raises(ValueError, match="in use already"):
        many(OWN)(lambda X: None)
    with pytest.raises(FrozenInstanceError):
        made.many = print  # type: ignore[misc]


def test_an_unknown_flag_is_refused() -> None:
    with pytest.raises(TypeError, match="mutate"):

        @operator("misspelled", outputs="Out", mutate={"Out": "X"})
        def body(X: Tensor) -> Tensor:
            return X

    assert find("misspelled") is None


def test_facts_name_slots_that_exist() -> None:
    for one in operators():
        slots = {slot.name for slot in one.inputs + one.outputs}
        inputs = {slot.name for slot in one.inputs}
        named = {*one.mutates, *one.views, *one.without_lod, *one.makes_lod, *one.untouched}
        read = {*one.mutates.values(), *one.starts_without, *one.shape_only, *one.reusing}
        assert named <= slots, one.type
        assert read <= inputs, one.type


def test_facts_of_slots_and_operators_exist() -> None:
    for one in operators():
        inputs = {slot.name for slot in one.inputs}
        assert {*one.full_precision, *one.recomputable} <= inputs, one.type
        assert not one.activation or one.recomputable, one.type
        slots = {*inputs, *(slot.name for slot in one.outputs)}
        assert set(one.working) <= slots, one.type
        assert {*one.rows, *one.rows.values()} <= inputs, one.type
        assert {"W", "Ids"} - inputs or one.rows or "W" in one.shape_only, one.type
        assert set(one.matrix_product) <= one.attributes.keys(), one.type
        assert not one.synchronised or find(one.synchronised) is not None, one.type
        assert not one.gives_rows or {"is_sparse", "as_dense"} <= one.attributes.keys(), one.type


def test_others_and_settings_stand_for_those_of_another_operator() -> None:
    @operator("sixfold", outputs="Out", uses=None, like="scale")
    def body(X: Tensor, Y: Tensor, *others: Any, bias: float = 1.0, **settings: Any) -> Tensor:
        return X

    made, scale = defined("sixfold"), defined("scale")
    registry.forget("sixfold")
    assert [slot.name for slot in made.inputs] == ["X", "Y", "ScaleTensor"]
    assert made.attributes.keys() == {"bias", "scale", "bias_after_scale"}
    assert made.attributes["scale"] == scale.attributes["scale"]
    assert made.attributes["bias"].default == 1.0
