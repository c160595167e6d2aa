"""Converters, in a file per family; each registers itself when it is imported."""

from importlib import import_module

_FAMILIES = ("layers", "arithmetic", "shaping", "reductions", "losses", "pooling", "sequences")


def load() -> None:
    """Imports all families."""
    for name in _FAMILIES:
        import_module(f"{__name__}.{name}")
