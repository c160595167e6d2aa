"""Recurrent operators refuse widths that don't belong together, in Fluid's error type and words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import flags
from refluid.core.errors import EnforceNotMet

layers: Any = fluid.layers
LAYERS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "lstm": (lambda x: layers.dynamic_lstm(x, 32)[0], 32),
    "lstm without peepholes": (lambda x: layers.dynamic_lstm(x, 32, use_peepholes=False)[0], 32),
    "lstmp": (lambda x: layers.dynamic_lstmp(x, 32, 4)[0], 32),
    "gru": (lambda x: layers.dynamic_gru(x, 8), 24),
    "unit": (lambda x: layers.gru_unit(x, layers.fill_constant([5, 8], "float32", 0), 24)[0], 24),
}
WRONG = r"Input has shape \[-?\d+, 12\], but Weight .* Input needs {} columns"


def train(layer: Callable[[Any], Any], declared: int | None, width: int) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, declared], lod_level=1)
        found = layer(x)
    rows = np.ones((5, width), np.float32)
    fed = {"x": fluid.create_lod_tensor(rows, [[2, 3]], fluid.CPUPlace())}
    with fluid.scope_guard(fluid.Scope()):
        exe: Any = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        exe.run(main, feed=fed, fetch_list=[found], return_numpy=False)


@pytest.mark.parametrize("declared", [12, None])
@pytest.mark.parametrize("tier", ["interpreted", "recorded"])
@pytest.mark.parametrize("name", LAYERS)
def test_input_of_another_width(name: str, tier: str, declared: int | None) -> None:
    layer, width = LAYERS[name]
    with flags.override({"FLAGS_refluid_tier": tier}):
        train(layer, declared and width, width)
        with pytest.raises(EnforceNotMet, match=WRONG.format(width)) as refused:
            train(layer, declared, 12)
    assert __file__ in str(refused.value)


def test_declared_widths_are_refused_where_the_layer_is_made() -> None:
    for layer, width in LAYERS.values():
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            x = fluid.data("x", [None, 12], lod_level=1)
            with pytest.raises(EnforceNotMet, match=WRONG.format(width)):
                layer(x)


WEIGHTS = [
    ({"Weight": (8, 30)}, r"Weight has shape \[8, 30\], but a matrix for 4 gates"),
    ({"Weight": (7, 32)}, r"Weight has shape \[7, 32\], but a matrix for 4 gates"),
    ({"Bias": (1, 31)}, r"Bias has shape \[1, 31\], but 32 numbers are needed"),
    ({"Bias": (1, 32), "peepholes": True}, "32 numbers are needed, and 24 more for peepholes"),
    ({"Weight": (4, 32), "ProjWeight": (7, 4)}, r"ProjWeight has shape \[7, 4\], but .* 8 units"),
    ({"Weight": (5, 32), "ProjWeight": (8, 4)}, "times as many columns as ProjWeight has rows"),
]


@pytest.mark.parametrize("wrong, words", WEIGHTS)
def test_weights_that_do_not_belong_together(wrong: dict[str, Any], words: str) -> None:
    given = {"Input": (5, 32), "Weight": (8, 32), "Bias": (1, 32)} | wrong
    peepholes = given.pop("peepholes", False)
    main, slots = fluid.Program(), dict[str, Any]()
    kind = "lstmp" if "ProjWeight" in given else "lstm"
    with fluid.program_guard(main):
        for slot, shape in given.items():
            slots[slot] = [fluid.data(slot, shape, lod_level=int(slot == "Input"))]
        block = main.global_block()
        names = ("Hidden", "Projection")[kind == "lstmp"], "Cell", "BatchGate", "BatchCellPreAct"
        names += ("BatchHidden",) * (kind == "lstmp")
        made = {name: block.create_var(name=name) for name in names}
        with pytest.raises(EnforceNotMet, match=words):
            block.append_op(
                type=kind, inputs=slots, outputs=made, attrs={"use_peepholes": peepholes}
            )


@pytest.mark.parametrize("state", ["h", "c"])
def test_states_of_cudnn_lstm_of_another_width(state: str) -> None:
    shapes = {"h": [1, 5, 6], "c": [1, 5, 6]} | {state: [1, 5, 7]}
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.data("x", [3, 5, 8])
        h, c = (fluid.data(name, shapes[name]) for name in "hc")
        found = layers.lstm(x, h, c, 3, 6, 1)[0]
    fed = {"x": np.ones((3, 5, 8), np.float32)}
    fed |= {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    with fluid.scope_guard(fluid.Scope()):
        exe: Any = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        with pytest.raises(EnforceNotMet, match=f"Init{state.upper()} has shape"):
            exe.run(main, feed=fed, fetch_list=[found])
