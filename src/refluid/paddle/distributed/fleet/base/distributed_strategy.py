"""`DistributedStrategy` of Paddle 2: how a fleet trains, field by field.

`fields.py` and `configs.py` list what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from refluid.core.writing import write_whole
from refluid.fluid.compiler import BuildStrategy, ExecutionStrategy
from refluid.paddle.distributed.fleet.base import prototxt
from refluid.paddle.distributed.fleet.base.configs import CONFIGS, switch_of
from refluid.paddle.distributed.fleet.base.fields import (
    FLAGS,
    SWITCHES,
    StrategyField,
    TrainingMode,
)
from refluid.paddle.distributed.fleet.base.overview import overview

__all__ = ["DistributedStrategy"]

_FLAT = {**SWITCHES, **FLAGS}
_OPTIONS = {"build_strategy": BuildStrategy, "execution_strategy": ExecutionStrategy}


class DistributedStrategy:
    """How the workers of a fleet train together.

        strategy = fleet.DistributedStrategy()
        strategy.amp = True
        strategy.amp_configs = {"init_loss_scaling": 32768}

    Each field is an attribute with the default that docs/collective.md lists; `x_configs` takes a
    dict of some of its fields and gives one of all. Raises TypeError for another name and for a
    value of another type, ValueError for a key that a configuration doesn't have.
    """

    def __init__(self) -> None:
        object.__setattr__(self, "_set", {})
        object.__setattr__(self, "_objects", {name: kind() for name, kind in _OPTIONS.items()})

    def __getattr__(self, name: str) -> Any:
        given: dict[str, Any] = object.__getattribute__(self, "_set")
        if name in _FLAT:
            return given.get(name, _FLAT[name].default)
        if name in CONFIGS:
            return {**_defaults(CONFIGS[name]), **given.get(name, {})}
        if name in _OPTIONS:
            return object.__getattribute__(self, "_objects")[name]
        raise AttributeError(f"DistributedStrategy has no field {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FLAT:
            self._set[name] = _checked(_FLAT[name], name, value)
            if name == "a_sync" and value:
                self.a_sync_configs = {"k_steps": 0}
        elif name in CONFIGS:
            self._set[name] = {**self._set.get(name, {}), **_config(name, value)}
        elif name in _OPTIONS:
            self._objects[name] = _copied(name, value)
        else:
            raise TypeError(f"{name} is not a attribute of DistributedStrategy")

    def __repr__(self) -> str:
        shown = {name: getattr(self, f"{name}_configs") for name in self._on()}
        flags = {one.written: getattr(self, name) for name, one in FLAGS.items()}
        flags["mode"] = int(flags["mode"])
        nested = [{**_defaults(NESTED[one]), **changed(self._objects[one])} for one in _OPTIONS]
        return overview(shown, flags, *nested)

    def save_to_prototxt(self, output: str) -> None:
        """Writes what was set to the file `output`, as protobuf's text.

        ValueError for an option of build_strategy that such files don't know.
        """
        options = {name: changed(one) for name, one in self._objects.items()}
        for name, values in options.items():
            unknown = sorted(set(values) - set(NESTED[name]))
            if unknown:
                raise ValueError(f"{name}.{unknown[0]} can't be kept in a prototxt")
        filled = {name: values for name, values in options.items() if values}
        write_whole(output, prototxt.to_text({**self._set, **filled}))

    def load_from_prototxt(self, pb_file: str) -> None:
        """Sets what such a file sets, all else to its default. ValueError where it is none."""
        found = prototxt.from_text(Path(pb_file).read_text(encoding="utf-8"))
        DistributedStrategy.__init__(self)
        for name, value in found.items():
            if name in _OPTIONS:
                for key, one in value.items():
                    setattr(self._objects[name], key, one)
            else:
                setattr(self, name, value)

    def _on(self) -> Iterator[str]:
        """The switches that are on and have a configuration."""
        return (name for name in SWITCHES if getattr(self, name) and f"{name}_configs" in CONFIGS)

    def _asked(self) -> set[str]:
        """The fields that ask for something: switches that are on, options that were changed."""
        options = {name for name, one in self._objects.items() if changed(one)}
        return options | {name for name in _FLAT if getattr(self, name) is True}

    def _given(self) -> Iterator[tuple[str, StrategyField, Any]]:
        """(where, field, value) of all that was set to something else than its default.

        Of a configuration whose switch is off only the configuration itself, as a field.
        """
        for name, value in self._set.items():
            if name in _FLAT and value != _FLAT[name].default:
                yield name, _FLAT[name], value
            if name in CONFIGS:
                yield from self._given_in(name, value)

    def _given_in(
        self, name: str, config: Mapping[str, Any]
    ) -> Iterator[tuple[str, StrategyField, Any]]:
        switch = switch_of(name)
        if switch in _FLAT and not getattr(self, switch):
            if config:
                off = StrategyField(name, {}, idle=f"{switch} is off")
                yield name, off, config
            return
        for key, value in config.items():
            field = CONFIGS[name][key]
            if value != _rounded(field.default):
                yield f"{name}[{key!r}]", field, value


NESTED = prototxt.NESTED


def _defaults(fields: Mapping[str, StrategyField]) -> dict[str, Any]:
    return {name: _rounded(one.default) for name, one in fields.items()}


def _rounded(value: Any) -> Any:
    """As protobuf keeps it: floats are of single precision."""
    if isinstance(value, float):
        return float(np.float32(value))
    return [_rounded(one) for one in value] if isinstance(value, list) else value


def _config(name: str, value: Any) -> dict[str, Any]:
    """What a dict says of a configuration."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict, not {type(value).__name__}")
    fields = CONFIGS[name]
    unknown = sorted(str(one) for one in value if one not in fields)
    if unknown:
        raise ValueError(f"key:{', '.join(unknown)} not in {name}, which has: {', '.join(fields)}")
    return {key: _checked(fields[key], f"{name}[{key!r}]", one) for key, one in value.items()}


def _checked(field: StrategyField, label: str, value: Any) -> Any:
    """The value as the field keeps it; TypeError where it is of another type."""
    default = field.default
    if isinstance(default, list):
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise TypeError(f"{label} must be a list, not {type(value).__name__}")
        return [_element(field.kind, label, one) for one in value]
    if isinstance(default, TrainingMode):
        return TrainingMode(value)
    return _element(type(default), label, value)


def _element(kind: type, label: str, value: Any) -> Any:
    if kind is str and hasattr(value, "block") and hasattr(value, "name"):
        value = value.name  # a variable
    takes: Any = {bool: (bool, np.bool_), int: Integral, float: Real, str: str}[kind]
    wrong = kind is not bool and isinstance(value, bool | np.bool_)
    if wrong or not isinstance(value, takes):
        raise TypeError(f"{label} must be {kind.__name__}, not {type(value).__name__}")
    return _rounded(float(value)) if kind is float else kind(value)


def changed(options: Any) -> dict[str, Any]:
    """What is not as usual in a BuildStrategy or ExecutionStrategy."""
    usual = type(options)()._options()
    return {key: one for key, one in options._options().items() if one != usual[key]}


def _copied(name: str, given: Any) -> Any:
    """The user's object as it is now, which may be changed afterwards."""
    kind = _OPTIONS[name]
    if not isinstance(given, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, not {type(given).__name__}")
    found = kind()
    for key, value in changed(given).items():
        setattr(found, key, value)
    return found
