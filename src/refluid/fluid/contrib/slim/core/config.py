"""`ConfigFactory`: a YAML file's strategies, and what they are made of."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["ConfigFactory"]

PLUGINS = ["pruners", "quantizers", "distillers", "strategies", "controllers"]
_HOMES = (
    "prune",
    "distillation",
    "quantization",
    "searcher",
    "nas",
)
_ROOT = "refluid.fluid.contrib.slim"


class ConfigFactory:
    """Makes what a configuration file of `Compressor` describes, each object once, by its name.

    config: path of a YAML file whose sections `pruners`, `distillers`, `controllers`, `strategies`
    name objects with their `class` and arguments; an argument that is the name of another object
    means that object. Section `compressor` (or `compress_pass`) has `epoch`, `checkpoint_path`,
    `init_model`, `eval_epoch` and the names of `strategies`. ValueError for what is not understood.
    """

    def __init__(self, config: str) -> None:
        self._described: dict[str, dict[str, Any]] = {}
        self._made: dict[str, Any] = {}
        self.compressor: dict[str, Any] = {}
        self.version: Any = None
        self._read(config)

    def instance(self, name: str) -> Any:
        """The object of that name."""
        if name not in self._made:
            if name not in self._described:
                known = ", ".join(sorted(self._described)) or "nothing"
                raise ValueError(f"{name!r} is not described in the configuration; it has {known}")
            self._made[name] = self._make(name, dict(self._described[name]))
        return self._made[name]

    def _make(self, name: str, given: dict[str, Any]) -> Any:
        kind = _class(name, given.pop("class", None))
        known = inspect.signature(kind).parameters
        unknown = sorted(given.keys() - known.keys())
        if unknown:
            title, there = kind.__name__, ", ".join(known)
            raise ValueError(f"{name}: {title} takes no {', '.join(unknown)}; it takes {there}")
        return kind(**{key: self._resolved(value) for key, value in given.items()})

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, str) and value in self._described:
            return self.instance(value)
        if isinstance(value, list):
            return [self._resolved(one) for one in value]
        return None if value == "None" else value

    def _read(self, path: str) -> None:
        yaml: Any = importlib.import_module("yaml")  # of the extra compat

        try:
            found = yaml.safe_load(Path(path).read_text())
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is no YAML: {error}") from None
        if not isinstance(found, Mapping):
            raise ValueError(f"{path} describes nothing: it has no sections")
        for section, content in found.items():
            if section == "version":
                self.version = content
            elif section in ("compressor", "compress_pass"):
                self.compressor = dict(content or {})
            elif section in PLUGINS:
                self._described |= {str(name): dict(one) for name, one in (content or {}).items()}
            else:
                known = ", ".join([*PLUGINS, "compressor"])
                raise ValueError(f"{path}: section {section!r} is none of {known}")
        names = self.compressor.get("strategies") or []
        self.compressor["strategies"] = [self.instance(name) for name in names]


def _class(name: str, title: Any) -> Any:
    """The class of that name in any of slim's packages."""
    for home in _HOMES:
        package = importlib.import_module(f"{_ROOT}.{home}")
        if title in getattr(package, "__all__", ()):
            return getattr(package, title)
    raise ValueError(f"{name}: slim has no class {title!r}")
