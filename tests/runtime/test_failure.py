"""What is said of an error in a plan's source."""

from __future__ import annotations

from typing import Any

import pytest

from refluid import fluid
from refluid.analysis.liveness import key_of
from refluid.core.errors import EnforceNotMet
from refluid.runtime.failure import explain

NAME = "<a plan of this test>"


def _explained(*lines: str) -> Exception:
    """Of an error that the last line of a step raises, which is that of relu of x, as v0."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [2], "float32")
        fluid.layers.relu(x)
    (op,) = main.global_block().ops
    source = "\n    ".join(["def step():", *lines])
    namespace: dict[str, Any] = {}
    exec(compile(source, NAME, "exec"), namespace)
    with pytest.raises(Exception) as raised:
        namespace["step"]()
    return explain(raised.value, NAME, {len(lines) + 1: op}, {key_of(op.block, "x"): "v0"})


def test_what_was_never_set_is_not_initialized() -> None:
    for lines in (["v0 = None", "v0.relu()"], ["del_ = 1", "v0 += 1"]):
        error = _explained(*lines)
        assert isinstance(error, EnforceNotMet)
        assert "X(x) is not initialized" in str(error)


def test_what_is_no_longer_held_was_not_missing() -> None:
    error = _explained("v0 = 1", "del v0", "raise RuntimeError('a kernel refuses')")
    assert "operator relu failed: a kernel refuses" in str(error)
    assert "X(x): no longer held" in str(error)
    assert "not initialized" not in str(error)
