"""Pages of the public names: one for each module of Fluid's and Paddle 2's, from docstrings."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

# Modules that only gather what others have, and internal ones.
_LEFT_OUT = {"core", "core_avx", "public", "op", "log_helper", "wrapped_decorator", "graphviz"}
_HEAD = """# {module}

"""
_PADDLE_2 = (
    *("static", "static.nn", "static.amp", "tensor", "linalg", "nn", "nn.functional"),
    *("nn.initializer", "optimizer", "optimizer.lr", "regularizer", "metric", "io", "vision"),
    *("vision.models", "incubate.nn", "incubate.nn.functional", "device"),
)
_ENTRY = """::: {path}
    options:
      heading: {name}
      heading_level: 2

"""
_OTHER_NAME = """## {name}

Another name of `{first}`.

"""


def modules() -> Iterator[tuple[str, ModuleType]]:
    """Fluid's and Paddle 2's public modules, with their names below `paddle`."""
    import refluid.fluid as fluid

    for found in pkgutil.iter_modules(fluid.__path__):
        if found.name not in _LEFT_OUT:
            module = importlib.import_module(f"refluid.fluid.{found.name}")
            if getattr(module, "__all__", None):
                yield f"paddle.fluid.{found.name}", module
    for name in _PADDLE_2:
        yield f"paddle.{name}", importlib.import_module(f"refluid.paddle.{name}")


def entries(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Public name -> where it is defined, of those that have a docstring."""
    for name in sorted(module.__all__):
        one = getattr(module, name, None)
        home, path = getattr(one, "__module__", None), getattr(one, "__qualname__", None)
        if home and path and home.startswith("refluid.") and "<" not in path and "." not in path:
            documented = inspect.isclass(one) or inspect.isfunction(one)
            if documented and one.__doc__ and _is_in_source(home, path):
                yield name, f"{home}.{path}"


def _is_in_source(home: str, name: str) -> bool:
    """Whether the definition stands in the module's text; others are made when asked for."""
    file = importlib.import_module(home).__file__
    text = Path(file).read_text(encoding="utf-8") if file else ""
    return f"\ndef {name}(" in text or f"\nclass {name}(" in text or f"\nclass {name}:" in text


def write_api(out: Path) -> int:
    """Writes the pages and their index; how many names they have."""
    out.mkdir(parents=True, exist_ok=True)
    index, count = ["# Public names", "", "| module | names |", "|---|---|"], 0
    for name, module in modules():
        found = list(entries(module))
        if not found:
            continue
        file = f"{name.removeprefix('paddle.fluid.')}.md"
        (out / file).write_text(_page(name, found), encoding="utf-8")
        index.append(f"| [{name}]({file}) | {len(found)} |")
        count += len(found)
    (out / "index.md").write_text("\n".join(index) + "\n", encoding="utf-8")
    return count


def _page(module: str, found: list[tuple[str, str]]) -> str:
    first: dict[str, str] = {}
    parts = [_HEAD.format(module=module)]
    for name, path in found:
        if first.setdefault(path, name) == name:
            parts.append(_ENTRY.format(name=name, path=path))
        else:
            parts.append(_OTHER_NAME.format(name=name, first=first[path]))
    return "".join(parts)
