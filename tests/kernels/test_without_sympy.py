"""torch infers shapes without sympy until somebody imports it; its answers stay the same."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import pytest
import torch

from refluid.kernels.parts import SHAPE_RULES
from refluid.kernels.without_sympy import ANSWERS
from tests.choices import often
from tests.started import run

TRUTHS = [(True,), (False,)]
NUMBERS = [(0,), (3,)]
TENSOR = torch.empty(2, 3)
QUESTIONS: dict[str, list[tuple[Any, ...]]] = {
    **dict.fromkeys(ANSWERS, TRUTHS),
    "guard_int": NUMBERS,
    "guarding_hint_or_throw": NUMBERS,
    "has_guarding_hint": NUMBERS,
    "is_nested_int": NUMBERS,
    "_advise_is_size": NUMBERS,
    "_advise_is_bounded": [(1, 2)],
    "sym_and": [(True,), (True, False, True), (True, True)],
    "sym_or": [(False,), (False, True), (False, False)],
    "sym_eq": [(2, 2), (2, 3), ([1, 2], (1, 2)), ([1], [1, 2]), (TENSOR.shape, TENSOR.shape)],
    "free_unbacked_symbols": [(TENSOR,), ([TENSOR, TENSOR],), ([1, 2],)],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_torchs(name: str) -> None:
    real = getattr(importlib.import_module(SHAPE_RULES), name)
    for question in QUESTIONS[name]:
        found, asked = ANSWERS[name](*question), real(*question)
        assert set(found) == set(asked) if isinstance(found, set) else found is asked


def _said(code: str) -> list[str]:
    start = "import sys, torch, refluid.ops.infer\nmeta = torch.empty(2, 3, device='meta')\n"
    ran = run("-c", start + code)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


def test_shapes_without_sympy() -> None:
    """Rules of torch's that ask about sizes, and gradients that are given."""
    assert _said("""
torch.relu(meta), torch.mm(meta, meta.t()), meta.normal_(), meta + 1, torch.cat([meta, meta])
torch.nn.functional.conv2d(meta.expand(1, 1, 2, 3), meta.expand(1, 1, 2, 3))
try:
    torch.mm(meta, meta)
except RuntimeError as error:
    print(len(str(error)) > 10)
x = torch.ones(2, requires_grad=True)
print(*torch.autograd.grad([x * 3], [x], [torch.ones(2)])[0].tolist())
print(*(name in sys.modules for name in ("sympy", "torch._dynamo")))
""") == ["True", "3.0", "3.0", "False", "False"]


SYMBOLIC = """
import sympy
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv, guard_or_false, sym_eq
fake = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(torch.ones(5, 3))
size = fake.shape[0]
print(type(size).__name__, type(sym_eq(size, 7)).__name__, guard_or_false(sym_eq(size, 5)))
print(torch.relu(fake).shape[0] is not None, torch._prims_common.elementwise_dtypes(
    fake, type_promotion_kind=torch._prims_common.ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)[0])
"""


BEFORE = "torch.relu(meta)\nheld = sym_eq = None\n"


@pytest.mark.parametrize("before", often(["", BEFORE], [BEFORE]), ids=["first", "later"])
def test_symbolic_sizes_are_asked_of_torch(before: str) -> None:
    """By names that were taken from the stand-in, too."""
    early = "from torch.fx.experimental.symbolic_shapes import sym_eq as early\n"
    said = _said(f"{before}{early}{SYMBOLIC}print(type(early(size, 7)).__name__)")
    assert said == ["SymInt", "SymBool", "True", "True", "torch.float32", "SymBool"]


def test_the_module_takes_its_place() -> None:
    assert _said(f"""
import torch.fx.experimental.symbolic_shapes
held = torch.fx.experimental.symbolic_shapes
torch.relu(meta)
print("sympy" in sys.modules, held.sym_and(True, False), held.ShapeEnv.__name__)
real = sys.modules[{SHAPE_RULES!r}]
print(real is not held, torch.fx.experimental.symbolic_shapes is real)
print(held.ShapeEnv is real.ShapeEnv)
""") == ["False", "False", "ShapeEnv", "True", "True", "True"]


def test_who_has_sympy_keeps_torchs_own() -> None:
    code = (
        "import sys, torch, sympy, torch.fx.experimental.symbolic_shapes as own, refluid.ops.infer"
    )
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}; print(own is sys.modules[{SHAPE_RULES!r}], own.__file__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith("True ") and "symbolic_shapes.py" in ran.stdout
