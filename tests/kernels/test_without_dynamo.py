"""torch's own functions are called plainly until somebody imports TorchDynamo."""

from __future__ import annotations

from torch._compile import _disable_dynamo

from refluid.kernels.without_dynamo import call_plainly
from tests.started import run


def _said(code: str) -> str:
    ran = run("-c", code)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_torch_has_functions_of_that_kind() -> None:
    """Where it has none any more, its way of marking them has changed: see `without_dynamo`."""
    count = "from refluid.kernels.without_dynamo import call_all_plainly as c; print(c())"
    assert int(_said(count)) > 100


def test_others_stay_as_they_are() -> None:
    def plain() -> int:
        return 1

    assert not call_plainly(plain) and not call_plainly(len) and not call_plainly(None)
    assert not hasattr(plain, "__dynamo_disable")


def test_a_marked_function() -> None:
    marked = _disable_dynamo(lambda a, b=1: a + b)
    assert call_plainly(marked) and call_plainly(marked)
    assert marked(1) == 2 and marked(1, b=4) == 5


META = "torch.relu(torch.empty(2, device='meta'))"


def test_shape_rules_import_no_dynamo() -> None:
    prints = "print('torch._dynamo' in sys.modules)"
    assert _said(f"import sys, torch; {META}; {prints}") == "True", "torch needs no help any more"
    assert _said(f"import sys, torch, refluid.ops.infer; {META}; {prints}") == "False"


def test_torch_decides_once_dynamo_is_there() -> None:
    """What a user compiles is traced as without refluid."""
    code = f"""
import sys, torch, refluid.ops.infer
from torch._compile import _disable_dynamo
from refluid.kernels.without_dynamo import call_plainly
calls = []
def inner():
    calls.append(torch.compiler.is_compiling())
marked = _disable_dynamo(inner)
call_plainly(marked)
marked()
kept = getattr(inner, "__dynamo_disable")
import torch._dynamo
marked(), marked(), {META}
print(calls, getattr(inner, "__dynamo_disable") is not kept)
"""
    assert _said(code) == "[False, False, False] True"


def test_dispatch_modes_import_no_dynamo() -> None:
    code = """
import sys, torch
from refluid.kernels.watching import DispatchMode
class Seen(DispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        print(func)
        return func(*args, **(kwargs or {}))
with Seen():
    torch.ones(2) + 1
print("torch._dynamo" in sys.modules)
"""
    assert _said(code).splitlines() == ["aten.ones.default", "aten.add.Tensor", "False"]
