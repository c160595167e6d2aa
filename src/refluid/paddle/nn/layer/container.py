"""Layers and parameters in order, by number or by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from refluid.paddle.nn.layer.layers import Layer


class Sequential(Layer):
    """Layers one after another: given as such, or as (name, layer)."""

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        for number, one in enumerate(layers):
            name, layer = one if isinstance(one, tuple | list) else (str(number), one)
            self.add_sublayer(name, layer)

    def __getitem__(self, name: Any) -> Any:
        if isinstance(name, slice):
            return Sequential(*[*self._sub_layers.values()][name])
        if isinstance(name, str):
            return self._sub_layers[name]
        return [*self._sub_layers.values()][name]

    def __setitem__(self, name: Any, layer: Any) -> None:
        self.add_sublayer(str(name), layer)

    def __delitem__(self, name: Any) -> None:
        del self._sub_layers[str(name)]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._sub_layers.values())

    def forward(self, input: Any) -> Any:
        """What the last layer gives."""
        for layer in self._sub_layers.values():
            input = layer(input)
        return input


class LayerList(Layer):
    """Layers by number."""

    def __init__(self, sublayers: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.extend(sublayers or ())

    def _set(self, layers: Iterable[Any]) -> None:
        self._sub_layers.clear()
        self.extend(layers)

    def __setitem__(self, idx: int, sublayer: Any) -> None:
        layers = [*self]
        layers[idx] = sublayer
        self._set(layers)

    def __delitem__(self, idx: Any) -> None:
        layers = [*self]
        del layers[idx]
        self._set(layers)

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._sub_layers.values())

    def __getitem__(self, idx: Any) -> Any:
        found = [*self._sub_layers.values()][idx]
        return LayerList(found) if isinstance(idx, slice) else found

    def append(self, sublayer: Any) -> LayerList:
        """Adds one at the end."""
        self.add_sublayer(str(len(self)), sublayer)
        return self

    def insert(self, index: int, sublayer: Any) -> None:
        """Puts one before the one at `index`."""
        assert isinstance(index, int) and 0 <= index <= len(self), (
            f"index should be an integer in range [0, {len(self)}]"
        )
        layers = [*self]
        layers.insert(index, sublayer)
        self._set(layers)

    def extend(self, sublayers: Iterable[Any]) -> LayerList:
        """Adds several at the end."""
        for one in sublayers:
            self.append(one)
        return self


class LayerDict(Layer):
    """Layers by name."""

    def __init__(self, sublayers: Any = None) -> None:
        super().__init__()
        if sublayers is not None:
            self.update(sublayers)

    def __getitem__(self, key: str) -> Any:
        return self._sub_layers[key]

    def __setitem__(self, key: str, sublayer: Any) -> None:
        self.add_sublayer(key, sublayer)

    def __delitem__(self, key: str) -> None:
        del self._sub_layers[key]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._sub_layers)

    def __contains__(self, key: str) -> bool:
        return key in self._sub_layers

    def clear(self) -> None:
        """Takes all out."""
        self._sub_layers.clear()

    def pop(self, key: str) -> Any:
        """Takes one out, which is returned."""
        return self._sub_layers.pop(key)

    def keys(self) -> Any:
        """Their names."""
        return self._sub_layers.keys()

    def items(self) -> Any:
        """Names and layers."""
        return self._sub_layers.items()

    def values(self) -> Any:
        """The layers."""
        return self._sub_layers.values()

    def update(self, sublayers: Any) -> None:
        """Adds several: a mapping, or (name, layer) pairs."""
        pairs = sublayers.items() if isinstance(sublayers, Mapping | LayerDict) else sublayers
        for name, one in pairs:
            self.add_sublayer(name, one)


class ParameterList(Layer):
    """Parameters by number."""

    def __init__(self, parameters: Iterable[Any] | None = None) -> None:
        super().__init__()
        for one in parameters or ():
            self.append(one)

    def __getitem__(self, idx: int) -> Any:
        return self._parameters[str(idx)]

    def __setitem__(self, idx: int, param: Any) -> None:
        self.add_parameter(str(idx), param)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parameters.values())

    def append(self, parameter: Any) -> ParameterList:
        """Adds one at the end."""
        self.add_parameter(str(len(self)), parameter)
        return self
