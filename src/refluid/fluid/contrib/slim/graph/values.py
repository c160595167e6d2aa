"""Values of a folder of variables, in whatever shapes they have there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from refluid.core.codec import decode_lod_tensor
from refluid.core.places import Place
from refluid.core.scope import Scope

Shape = tuple[int, ...]


def load_values(folder: str, names: Iterable[str], scope: Scope, place: Place) -> dict[str, Shape]:
    """Puts those variables into the scope that the folder has a file of; their shapes.

    Raises EnforceNotMet for a damaged file; the scope is then as before.
    """
    found = {}
    for name in names:
        file = Path(folder) / name
        if file.is_file():
            found[name], _ = decode_lod_tensor(file.read_bytes(), 0, str(file))
    for name, value in found.items():
        cell = scope.find_var(name) or scope.var(name)
        cell.value, cell.lod = value.tensor.to(place.device), value.lod()
    return {name: tuple(value.tensor.shape) for name, value in found.items()}
