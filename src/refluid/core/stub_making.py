"""What the entries of `stub_tables` become: functions and classes whose use is one clear error."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from refluid.core.stub_tables import entries, is_stub

_ROOT = "refluid."


def stub(module: str, name: str) -> Any:
    """What the tables have for a name of a module, or a submodule; else AttributeError."""
    own = _own(module)
    full = f"{own}.{name}"
    entry = entries(own).get(name)
    if entry is not None:
        return _made(module, name, entry.spelled, entry.reason)
    if is_stub(full):
        return importlib.import_module(_ROOT + full)
    raise AttributeError(
        f"refluid does not have {full} yet; docs/architecture.md says what it covers"
    )


def public_names(module: str) -> list[str]:
    """The names that the tables have for a module, without private ones."""
    return [name for name in entries(_own(module)) if not name.startswith("_")]


def _own(module: str) -> str:
    return module.removeprefix(_ROOT)


def _made(module: str, name: str, spelled: ast.stmt, reason: str) -> Any:
    match spelled:
        case ast.ImportFrom(module=str(home), names=names):
            original = next(one.name for one in names if name in (one.asname, one.name))
            return _imported(_ROOT + home, original)
        case ast.FunctionDef():
            return _function(spelled, module, f"{_own(module)}.{name}", reason)
        case ast.ClassDef():
            return _class(spelled, module, reason)
        case ast.Import():
            return importlib.import_module(_ROOT + name)
        case ast.Assign(value=ast.Call(func=ast.Name(id=kind), args=[])) if kind != "set":
            return object.__new__(getattr(sys.modules[module], kind))
        case ast.Assign(value=(ast.Name() | ast.Attribute()) as value):
            return _looked_up(module, value)
        case ast.Assign(value=value):
            return ast.literal_eval(value)
    raise TypeError(f"{_own(module)}: a table has {ast.unparse(spelled)!r}")


def _imported(home: str, name: str) -> Any:
    """What `from home import name` gives."""
    try:
        return getattr(importlib.import_module(home), name)
    except AttributeError:
        if importlib.util.find_spec(f"{home}.{name}") is None:
            raise
        return importlib.import_module(f"{home}.{name}")


def _looked_up(module: str, spelled: ast.expr) -> Any:
    """What an expression of names and dots means in a module."""
    found: Any = sys.modules[module]
    for part in ast.unparse(spelled).split("."):
        found = getattr(found, part)
    return found


def refuse(name: str, reason: str) -> NoReturn:
    """Says that a name of Fluid's is not there, and why."""
    raise NotImplementedError(f"refluid does not have {name} yet: {reason}")


def _absent(name: str, reason: str) -> Callable[..., Any]:
    def absent(*args: Any, **settings: Any) -> NoReturn:  # noqa: ARG001
        refuse(name, reason)

    return absent


def _function(entry: ast.FunctionDef, module: str, name: str, reason: str) -> Callable[..., Any]:
    absent = _absent(name, reason)
    absent.__name__ = entry.name
    absent.__qualname__ = name.removeprefix(f"{_own(module)}.")
    absent.__module__ = module
    absent.__doc__ = f"Not there yet: {reason}."
    absent.__signature__ = _signature(entry.args)  # type: ignore[attr-defined]
    return absent


def _signature(spelled: ast.arguments) -> inspect.Signature:
    """The signature that a table spells. A default that is no literal stands for itself."""
    kind = inspect.Parameter
    positional = [*spelled.posonlyargs, *spelled.args]
    without = len(positional) - len(spelled.defaults)
    defaults = [kind.empty] * without + [_value(one) for one in spelled.defaults]
    found = [
        kind(one.arg, kind.POSITIONAL_OR_KEYWORD, default=default)
        for one, default in zip(positional, defaults, strict=True)
    ]
    if spelled.vararg:
        found.append(kind(spelled.vararg.arg, kind.VAR_POSITIONAL))
    for one, spelled_default in zip(spelled.kwonlyargs, spelled.kw_defaults, strict=True):
        default = kind.empty if spelled_default is None else _value(spelled_default)
        found.append(kind(one.arg, kind.KEYWORD_ONLY, default=default))
    if spelled.kwarg:
        found.append(kind(spelled.kwarg.arg, kind.VAR_KEYWORD))
    return inspect.Signature(found)


def _value(spelled: ast.expr) -> Any:
    try:
        return ast.literal_eval(spelled)
    except ValueError:
        return _Spelled(ast.unparse(spelled))


class _Spelled(str):
    """A default that only Fluid can make: `VarType.FP32`. It shows as it is spelled."""

    __repr__ = str.__str__


def _class(entry: ast.ClassDef, module: str, reason: str) -> type:
    bases = tuple(_looked_up(module, base) for base in entry.bases)
    name = f"{_own(module)}.{entry.name}"
    members: dict[str, Any] = {"__module__": module, "__doc__": f"Not there yet: {reason}."}
    for one in entry.body:
        match one:
            case ast.FunctionDef(decorator_list=[ast.Name(id="property")]):
                getter = _function(one, module, f"{name}.{one.name}", reason)
                members[one.name] = property(getter)
            case ast.FunctionDef(decorator_list=[ast.Name(id=("staticmethod" | "classmethod"))]):
                members[one.name] = staticmethod(
                    _function(one, module, f"{name}.{one.name}", reason)
                )
            case ast.FunctionDef():
                shown = name if one.name == "__init__" else f"{name}.{one.name}"
                members[one.name] = _function(one, module, shown, reason)
            case ast.Assign(targets=[ast.Name(id=target)], value=value):
                members[target] = _value(value)
    members |= {
        inherited: _absent(f"{name}.{inherited}", reason)
        for base in bases
        for inherited, _ in inspect.getmembers(base, inspect.isfunction)
        if not inherited.startswith("_") and inherited not in members
    }
    members.setdefault("__getattr__", _missed(name, reason))
    return type(entry.name, bases, members)


def _missed(owner: str, reason: str) -> Callable[[Any, str], NoReturn]:
    """What asking an object for an attribute that nobody set is answered."""

    def missed(_: Any, name: str) -> NoReturn:
        raise AttributeError(f"refluid does not have {owner}.{name} yet: {reason}")

    return missed
