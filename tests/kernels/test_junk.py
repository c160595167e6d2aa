"""FLAGS_init_allocated_mem: reads of what nobody wrote show, and nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid import fluid
from refluid.build import op
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.kernels.junk import Junk
from refluid.ops import registry
from refluid.ops.registry import operator
from tests.fluid.small_net import Net

FLAG = "FLAGS_init_allocated_mem"


@pytest.fixture
def careless() -> Iterator[str]:
    """An operator whose first row nobody writes."""

    @operator("careless", outputs="Out", uses=None)
    def body(X: Tensor) -> Tensor:
        made = torch.empty_like(X)
        made[1:] = X[1:]
        return made

    yield "careless"
    registry.forget("careless")


def test_reads_of_unset_memory_show(careless: str) -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [None, 3])
        out = op(careless, {"X": x})
    feed = {"x": np.ones((2, 3), "float32")}
    with flags.override({FLAG: True}):
        (found,) = fluid.Executor().run(main, feed, [out])
        assert np.isnan(found[0]).all()
        assert (found[1] == 1).all()
        with flags.override({"FLAGS_check_nan_inf": True}), pytest.raises(EnforceNotMet) as caught:
            fluid.Executor().run(main, feed, [out])
    assert f"operator careless failed: its output {out.name} contains NaN" in str(caught.value)


@pytest.mark.parametrize("places", [1, 2])
def test_where_all_is_written_nothing_changes(places: int) -> None:
    net, other = Net(), Net()
    plain, watched = net.compiled(places), other.compiled(places)
    expected = [net.run(program=plain) for _ in range(2)]
    with flags.override({FLAG: True}):
        assert [other.run(program=watched) for _ in range(2)] == expected


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.int64, torch.uint8])
def test_junk_is_a_value_that_shows(kind: torch.dtype) -> None:
    with Junk():
        made = [torch.empty(3, dtype=kind), torch.ones(3, dtype=kind).new_empty(2)]
    for one in made:
        assert (one.isnan() if kind.is_floating_point else one == torch.iinfo(kind).max).all()
    with Junk():
        assert torch.empty(3, dtype=torch.bool).all()
        assert torch.zeros(3).eq(0).all()
