"""Products by panels, for tests: of any size, whatever this processor's speed, and counted."""

from __future__ import annotations

from collections import Counter

import pytest

from refluid.kernels import products
from refluid.kernels.panels import choice, filters, loops, windows
from refluid.ops.nn import convolution
from refluid.runtime.recorded import simplify

FLAG = "FLAGS_refluid_panel_products"


def always_by_panels(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Products of any size, those by one matrix that repeat, and gradients of filters are by
    panels.

    Gives how often each loop is entered from now on.
    """
    for speed in (choice.of_one, choice.of_repeated):
        monkeypatch.setattr(speed, "told", 9.0)
    for module in (choice, products):
        monkeypatch.setattr(module, "LARGE_PRODUCT", 1)
        monkeypatch.setattr(module, "LARGE_FACTOR", 1)
    for name in ("ROWS", "COLUMNS"):
        monkeypatch.setattr(choice, name, 1)
    monkeypatch.setattr(choice, "USES", 2)
    monkeypatch.setattr(products, "_ENOUGH", 1)
    monkeypatch.setattr(simplify, "_LARGE", 1)
    monkeypatch.setattr(convolution, "LARGE_FILTERS", 1)
    monkeypatch.setattr(filters.faster_way, "told", True)
    # As flags say that nobody has set; the last program's may have been others.
    monkeypatch.setattr(products.limits, "panels", True)
    monkeypatch.setattr(products.limits, "repeatable", False)
    monkeypatch.setattr(filters, "vector_bits", lambda: 256)
    monkeypatch.setattr(products, "FEW", 0)  # those have loops of their own
    entered: Counter[str] = Counter()
    for module, kind in ((loops, "left right"), (windows, "windows groups")):
        for one in kind.split():
            _count(monkeypatch, module, f"multiply_{one}", entered)
    return entered


def _count(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, entered: Counter[str]
) -> None:
    loop = getattr(module, name)

    def counted(*given: object) -> object:
        entered[name] += 1
        return loop(*given)

    monkeypatch.setattr(module, name, counted)
