"""Converters, in a file per family; each registers itself when it is imported."""

from importlib import import_module

_FAMILIES = (
    "layers",
    "arithmetic",
    "shaping",
    "creation",
    "reductions",
    "losses",
    "pooling",
    "images",
    "sequences",
    "recurrent",
    "labelling",
    "detection",
    "control",
)


def load() -> None:
    """Imports all families."""
    for name in _FAMILIES:
        import_module(f"{__name__}.{name}")
