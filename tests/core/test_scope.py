"""Scopes and the tensors they hand out."""

import numpy as np
import pytest
import torch

from refluid.core.places import CPUPlace
from refluid.core.scope import Scope, global_scope, scope_guard


def test_find_var_looks_in_enclosing_scopes() -> None:
    outer = Scope()
    inner = outer.new_scope()
    outer.var("w").value = torch.ones(2)
    assert inner.find_var("w") is outer.var("w")
    assert inner.find_var("missing") is None
    assert inner.local_var_names() == []


def test_setting_a_tensor_changes_the_variable() -> None:
    scope = Scope()
    tensor = scope.var("w").get_tensor()
    assert tensor.shape() == [0]
    tensor.set(np.arange(6, dtype="float32").reshape(3, 2), CPUPlace())
    tensor.set_recursive_sequence_lengths([[1, 2]])
    assert scope.var("w").value.shape == (3, 2)
    assert scope.var("w").get_tensor().lod() == [[0, 1, 3]]
    np.testing.assert_array_equal(np.array(scope.find_var("w").get_tensor())[2], [4, 5])


def test_scope_guard_restores_the_former_scope_after_an_error() -> None:
    former, scope = global_scope(), Scope()
    try:
        with scope_guard(scope):
            assert global_scope() is scope
            raise RuntimeError
    except RuntimeError:
        pass
    assert global_scope() is former


def test_scope_guard_takes_scopes_alone() -> None:
    former = global_scope()
    with pytest.raises(TypeError, match="and not int"), scope_guard(3):
        raise AssertionError
    assert global_scope() is former
