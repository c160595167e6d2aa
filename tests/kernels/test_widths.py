"""Code compiled for vectors of one width isn't taken where they have another.

torch.compile keeps graphs without saying for which width it wrote their loops, and takes them for
any: its results are garbage then, or memory is overwritten.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.started import run

COMPILED = """
import torch
from refluid.kernels.inductor import compile_graph

class Chain(torch.nn.Module):
    def forward(self, x, y):
        for step in range({steps}):
            x = torch.relu(x) * y + step
        return (x,)

chain = torch.fx.symbolic_trace(Chain())
x, y = torch.rand(33, 7), torch.rand(33, 7)
torch.testing.assert_close(compile_graph(chain, [x, y])(x, y), chain(x, y))
print(torch.backends.cpu.get_cpu_capability())
"""


@pytest.mark.slow
@pytest.mark.parametrize("steps", [3, 20], ids=["by Python", "by C++"])
@pytest.mark.parametrize("first", ["avx2", ""], ids=["narrow first", "wide first"])
def test_each_width_has_its_own_code(tmp_path: Path, steps: int, first: str) -> None:
    widths = [first, "" if first else "avx2"]
    for width in (*widths, first):
        told = {"ATEN_CPU_CAPABILITY": width} if width else {}
        kept = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
        plain = {name: one for name, one in os.environ.items() if name != "ATEN_CPU_CAPABILITY"}
        ran = run("-c", COMPILED.format(steps=steps), environment=plain | kept | told)
        assert ran.returncode == 0, ran.stderr
        assert not width or "512" not in ran.stdout
