"""`fluid.dygraph.container`: layers and parameters in lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from refluid.fluid.dygraph.layers import Layer

__all__ = ["LayerList", "ParameterList", "Sequential"]


class Sequential(Layer):
    """Layers one after another: given as such, or as (name, layer)."""

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        for number, one in enumerate(layers):
            name, layer = one if isinstance(one, tuple) else (str(number), one)
            self.add_sublayer(name, layer)

    def __getitem__(self, name: Any) -> Any:
        return self._sub_layers[str(name)]

    def __setitem__(self, name: Any, layer: Any) -> None:
        assert isinstance(layer, Layer)
        self.add_sublayer(str(name), layer)

    def __delitem__(self, name: Any) -> None:
        del self._sub_layers[str(name)]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def forward(self, input: Any) -> Any:
        """What the last layer gives."""
        for layer in self._sub_layers.values():
            input = layer(input)
        return input


class ParameterList(Layer):
    """Parameters by number."""

    def __init__(self, parameters: Iterable[Any] | None = None) -> None:
        super().__init__()
        for number, one in enumerate(parameters or ()):
            self.add_parameter(str(number), one)

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


class LayerList(Layer):
    """Layers by number."""

    def __init__(self, sublayers: Iterable[Any] | None = None) -> None:
        super().__init__()
        for number, one in enumerate(sublayers or ()):
            self.add_sublayer(str(number), one)

    def _set(self, layers: Iterable[Any]) -> None:
        self._sub_layers.clear()
        for number, one in enumerate(layers):
            self.add_sublayer(str(number), one)

    def __getitem__(self, idx: Any) -> Any:
        found = [*self._sub_layers.values()][idx]
        return LayerList(found) if isinstance(idx, slice) else found

    def __setitem__(self, idx: int, sublayer: Any) -> None:
        layers = [*self._sub_layers.values()]
        layers[idx] = sublayer
        self._set(layers)

    def __delitem__(self, idx: Any) -> None:
        layers = [*self._sub_layers.values()]
        del layers[idx]
        self._set(layers)

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._sub_layers.values())

    def append(self, sublayer: Any) -> LayerList:
        """Adds one at the end."""
        self.add_sublayer(str(len(self)), sublayer)
        return self

    def insert(self, index: int, sublayer: Any) -> None:
        """Puts one before the one at `index`."""
        assert isinstance(index, int) and 0 <= index < len(self), (
            f"index should be an integer in range [0, {len(self)})"
        )
        layers = [*self._sub_layers.values()]
        layers.insert(index, sublayer)
        self._set(layers)

    def extend(self, sublayers: Iterable[Any]) -> LayerList:
        """Adds several at the end."""
        for one in sublayers:
            self.append(one)
        return self
