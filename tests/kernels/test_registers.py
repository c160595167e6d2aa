"""Loops of refluid's own use the registers that torch is told to use, and no wider ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from refluid.kernels import machine_code, processor
from refluid.kernels.panels import loops, tiles


@pytest.fixture
def capability(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes torch say that it uses others."""
    kept = processor.vector_bits, tiles.tile_sizes, machine_code._machine

    def say(name: str) -> None:
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: name)
        for one in kept:
            one.cache_clear()

    yield say
    monkeypatch.undo()
    for one in kept:
        one.cache_clear()


@pytest.mark.parametrize(
    ("name", "bits", "height"), [("AVX512", 512, 12), ("AVX2", 256, 6), ("DEFAULT", 0, 6)]
)
def test_tiles_are_for_them(name: str, bits: int, height: int, capability: Any) -> None:
    capability(name)
    assert processor.vector_bits() == bits
    assert tiles.tile_sizes().height == height


def test_code_is_for_them(capability: Any) -> None:
    llvm = pytest.importorskip("llvmlite.binding")
    digests = set()
    for name, wide in (("AVX512", True), ("AVX2", False)):
        capability(name)
        known = llvm.get_host_cpu_features()
        known.update({"avx2": True, "avx512f": True, "avx512bf16": True, "avx10.1": True})
        found = machine_code._features(known).split(",")
        assert "+avx2" in found
        for one in ("avx512f", "avx512bf16", "avx10.1"):
            assert ("+" if wide else "-") + one in found
        digests.add(machine_code._digest(loops.lay_panel, (4, 4)))  # type: ignore[arg-type]
    assert len(digests) == 2
