"""Modules that old `protoc` generated, made anew of the description that they hold.

Protobuf 4 refuses the descriptors that code generated before its 3.19 makes one by one. The same
file holds all of them serialized, and that is all that present generated code has:

DESCRIPTOR = _descriptor.FileDescriptor(name=.., serialized_pb=_b('..'), ..)
-> DESCRIPTOR, and the names that its messages, enumerations and extensions have in the module
"""

from __future__ import annotations

import ast
from types import CodeType
from typing import Any

_MAKES = "FileDescriptor"
_BYTES = "serialized_pb"
_WORKING = "_refluid_generated"


def compile_generated(source: str, file: str) -> CodeType | None:
    """The code of a module that an old `protoc` generated; None for any other file.

    Imports stay as they are: what the file depends on must be there before it. Raises SyntaxError
    where the file is no Python.
    """
    if _BYTES not in source or f".{_MAKES}(" not in source:
        return None
    tree = compile(source, file, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, ast.Module)
    made = next((n for n, one in enumerate(tree.body) if _serialized(one) is not None), None)
    if made is None:
        return None
    value = _serialized(tree.body[made])
    imports = [one for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom)]
    call = ast.parse(
        f"from refluid.porting.old_protobuf import build as {_WORKING}\n"
        f"{_WORKING}(globals(), {value!r})"
    ).body
    tree.body = [*(one for one in imports if not _of_protobuf(one)), *call]
    code: CodeType = compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)
    return code


def build(namespace: dict[str, Any], serialized: bytes) -> None:
    """Adds to a module's names what the file that these bytes describe defines."""
    from google.protobuf import descriptor_pool
    from google.protobuf.internal import builder

    described = descriptor_pool.Default().AddSerializedFile(serialized)
    namespace["DESCRIPTOR"] = described
    builder.BuildMessageAndEnumDescriptors(described, namespace)
    builder.BuildTopDescriptorsAndMessages(described, namespace["__name__"], namespace)


def _of_protobuf(statement: ast.stmt) -> bool:
    """Whether it imports what made the descriptors: of that some is gone, too."""
    return (
        isinstance(statement, ast.ImportFrom)
        and (statement.module or "").startswith("google.protobuf")
        and not any(one.name.endswith("_pb2") for one in statement.names)
    )


def _serialized(statement: ast.stmt) -> bytes | None:
    """The bytes of `DESCRIPTOR = _descriptor.FileDescriptor(.., serialized_pb=.., ..)`."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    if not isinstance(call.func, ast.Attribute) or call.func.attr != _MAKES:
        return None
    for word in call.keywords:
        if word.arg == _BYTES:
            return _as_bytes(word.value)
    return None


def _as_bytes(node: ast.expr) -> bytes | None:
    """`b'..'` and `_b('..')`, whose text stands for bytes letter by letter."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, str):
        return value.encode("latin1")
    return value if isinstance(value, bytes) else None
