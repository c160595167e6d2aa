"""torch's private names stand in one room, `kernels/`: others don't name them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "refluid"
ROOM = SOURCE / "kernels"
# Modules without an underscore that torch promises nothing of.
UNSURE = re.compile(r"\btorch\.(\w+\.)*(experimental|mkldnn\b(?=\._))")
PRIVATE_TEXT = re.compile(r"\btorch(\.\w+)*\._[a-zA-Z]")
OVERLOAD = torch.ops.aten.add.Tensor
# What torch's objects have privately, whatever they are called here.
OF_OBJECTS = {
    name
    for thing in (torch.Tensor, torch.UntypedStorage, OVERLOAD, OVERLOAD.overloadpacket)
    for name in dir(thing)
    if re.match("_[a-zA-Z]", name)
} | {"_schema", "_cdata"}


def other_files() -> list[Path]:
    return [path for path in sorted(SOURCE.rglob("*.py")) if ROOM not in path.parents]


def private_names(source: str) -> Iterator[str]:
    """Each private name of torch in a file, with its line."""
    nodes = list(ast.walk(ast.parse(source)))
    ours = set(_aliases(nodes))
    documented = {
        node.body[0].value
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes:
        if isinstance(node, ast.Import):
            text = " ".join(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            text = " ".join(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute):
            text = _dotted(node, ours)
        elif isinstance(node, ast.Constant) and node not in documented:
            text = str(node.value)
        else:
            continue
        if PRIVATE_TEXT.search(text) or UNSURE.search(text):
            yield f"{getattr(node, 'lineno', 0)}: {text}"


def _dotted(node: ast.Attribute, ours: set[str]) -> str:
    """The name of an attribute, of torch's where the object is, or may be, torch's."""
    names: list[str] = [node.attr]
    root = node.value
    while isinstance(root, ast.Attribute):
        names.append(root.attr)
        root = root.value
    own = isinstance(root, ast.Name) and root.id in ("self", "cls") and len(names) == 1
    if isinstance(root, ast.Name) and root.id in ours:
        return ".".join(["torch", *reversed(names)])
    if node.attr in OF_OBJECTS and not own and not _is_super(root):
        return f"torch.Tensor.{node.attr}"
    return ""


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "super"


def _is_of_torch(node: ast.expr) -> bool:
    """Whether it is `torch.` and something."""
    inner = node
    while isinstance(inner, ast.Attribute | ast.Subscript | ast.Call):
        inner = inner.func if isinstance(inner, ast.Call) else inner.value
    return inner is not node and isinstance(inner, ast.Name) and inner.id == "torch"


def _aliases(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names of a file that stand for torch or something in it."""
    for node in nodes:
        if isinstance(node, ast.Import):
            names = (one for one in node.names if one.name.partition(".")[0] == "torch")
            yield from (one.asname or "torch" for one in names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch":
            yield from (one.asname or one.name for one in node.names)
        elif isinstance(node, ast.Assign) and _is_of_torch(node.value):
            yield from (one.id for one in node.targets if isinstance(one, ast.Name))


def test_private_names_of_torch_stand_in_kernels_only() -> None:
    """Whoever needs another gives it a row in kernels/parts.py, with what is done without it."""
    found = {
        path.relative_to(SOURCE).as_posix(): names
        for path in other_files()
        if (names := list(private_names(path.read_text(encoding="utf-8"))))
    }
    assert not found


@pytest.mark.parametrize(
    "line",
    [
        "import torch; torch._foreach_add_([], [])",
        "import torch as t; t._C.x",
        "from torch import ops; ops.aten._softmax(x)",
        "import torch\naten = torch.ops.aten\naten._add_relu(x, y)",
        "from torch._ops import OpOverload",
        "from torch.utils import _pytree",
        "import torch._dynamo",
        "import torch.fx.experimental.proxy_tensor",
        "import_module('torch.fx.experimental.symbolic_shapes')",
        "find('torch._inductor.compile_fx')",
        "storage._cdata",
        "kernel.func._schema.name",
        "tensor._version",
    ],
)
def test_what_is_found(line: str) -> None:
    assert list(private_names(line))


@pytest.mark.parametrize(
    "line",
    [
        "import torch; torch.ops.aten.convolution(x, y)",
        "self._schema = 1",
        "from torch.nn import functional",
        "block._insert_op(0)",
        "torch.backends.mkldnn.enabled",
    ],
)
def test_what_is_not(line: str) -> None:
    assert not list(private_names(line))
