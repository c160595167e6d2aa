"""Inputs of which each row belongs to a row of another one are refused where rows are missing.

torch spreads what has one row and gathers as many as there are labels: losses of part of a batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from tests.ops.running import Array, run_op
from tests.ops.sequences import definition

ROWS = 5


def _floats(*shape: int) -> Array:
    return np.random.RandomState(3).rand(*shape).astype("float32") / 9.0


def _classes(*shape: int, dtype: str = "int64") -> Array:
    return np.zeros(shape, dtype)


X, COLUMN = _floats(ROWS, 4), _floats(ROWS, 1)
FEW = {"FgNum": _classes(1, dtype="int32")}
CENTERS = {"Centers": _floats(3, 4), "CenterUpdateRate": _floats(1)}
SAMPLING = {"num_samples": 2, "seed": 1}
# The operator, what it has besides, the slot and the columns of what has other rows, attributes.
CASES: list[tuple[str, dict[str, Any], str, Array, dict[str, Any]]] = [
    ("cross_entropy", {"X": X}, "Label", _classes(9, 1), {}),
    ("cross_entropy", {"X": X}, "Label", _classes(9), {}),
    ("cross_entropy", {"X": X}, "Label", _floats(9, 4), {"soft_label": True}),
    ("cross_entropy2", {"X": X}, "Label", _classes(9, 1), {}),
    ("softmax_with_cross_entropy", {"Logits": X}, "Label", _classes(9, 1), {}),
    ("softmax_with_cross_entropy", {"Logits": X}, "Label", _floats(9, 4), {"soft_label": True}),
    ("softmax_loss", {"Logits": X}, "Label", _classes(9, 1), {}),
    ("bpr_loss", {"X": X}, "Label", _classes(9, 1), {}),
    ("sigmoid_cross_entropy_with_logits", {"X": X}, "Label", _floats(9, 4), {}),
    ("bce_loss", {"X": COLUMN}, "Label", _floats(9, 1), {}),
    ("log_loss", {"Predicted": COLUMN}, "Labels", _floats(9, 1), {"epsilon": 1e-4}),
    ("rank_loss", {"Label": COLUMN, "Left": COLUMN}, "Right", _floats(9, 1), {}),
    ("rank_loss", {"Right": COLUMN, "Left": COLUMN}, "Label", _floats(9, 1), {}),
    ("margin_rank_loss", {"Label": COLUMN, "X1": COLUMN}, "X2", _floats(9, 1), {}),
    ("margin_rank_loss", {"X2": COLUMN, "X1": COLUMN}, "Label", _floats(9, 1), {}),
    ("hinge_loss", {"Logits": COLUMN}, "Labels", _floats(9, 1), {}),
    ("modified_huber_loss", {"X": COLUMN}, "Y", _floats(9, 1), {}),
    ("smooth_l1_loss", {"X": X}, "Y", _floats(9, 4), {}),
    ("teacher_student_sigmoid_loss", {"X": COLUMN}, "Label", _floats(9, 1), {}),
    ("sigmoid_focal_loss", {"X": X} | FEW, "Label", _classes(9, 1, dtype="int32"), {}),
    ("center_loss", {"X": X} | CENTERS, "Label", _classes(9, 1), {"cluster_num": 3}),
    ("sample_logits", {"Logits": X}, "Labels", _classes(9, 1), SAMPLING),
    ("lstm_unit", {"X": _floats(ROWS, 16)}, "C_prev", _floats(9, 4), {}),
    ("conv_shift", {"X": X}, "Y", _floats(9, 3), {}),
    ("multiplex", {"X": [X, X]}, "Ids", _classes(9, 1, dtype="int32"), {}),
    ("dot", {"X": X}, "Y", _floats(9, 4), {}),
    ("minus", {"X": X}, "Y", _floats(9, 4), {}),
]


def run(type: str, inputs: dict[str, Any], attrs: dict[str, Any]) -> None:
    """The operator in a program that knows no numbers of rows."""
    main, feeds, given = fluid.Program(), dict[str, Array](), dict[str, list[Any]]()
    with fluid.program_guard(main, fluid.Program()):
        for slot, value in inputs.items():
            arrays = value if isinstance(value, list) else [value]
            names = [f"{slot}{place}" for place in range(len(arrays))]
            feeds |= dict(zip(names, arrays, strict=True))
            given[slot] = [
                fluid.data(name, [None, *one.shape[1:]], str(one.dtype))
                for name, one in zip(names, arrays, strict=True)
            ]
        block, known = main.global_block(), definition(type)
        made = {slot.name: block.create_var(name=slot.name) for slot in known.outputs}
        block.append_op(type=type, inputs=given, outputs=made, attrs=attrs)
        exe = fluid.Executor()
        exe.run(main, feed=feeds, fetch_list=[*made.values()], scope=fluid.Scope())


@pytest.mark.parametrize("way", [run_op, run])
@pytest.mark.parametrize(("type", "inputs", "slot", "given", "attrs"), CASES)
def test_other_rows_are_refused(
    type: str, inputs: dict[str, Any], slot: str, given: Array, attrs: dict[str, Any], way: Any
) -> None:
    attrs = attrs | ({"need_update": False} if type == "center_loss" else {})
    way(type, inputs | {slot: given[:ROWS]}, attrs)
    title = definition(type).called or type
    for rows in (1, ROWS - 1, ROWS + 1):
        with pytest.raises(EnforceNotMet, match=f"(?s){title}.*{slot}"):
            way(type, inputs | {slot: given[:rows]}, attrs)


LSTM = {"Input": (_floats(6, 12), [[2, 4]]), "Weight": _floats(3, 12), "Bias": _floats(1, 12)}
GRU = {"Input": (_floats(6, 9), [[2, 4]]), "Weight": _floats(3, 9), "Bias": _floats(1, 9)}


def test_states_of_other_sequences_are_refused() -> None:
    plain = {"use_peepholes": False}
    for rows in (1, 3):
        states = {"H0": _floats(rows, 3), "C0": _floats(rows, 3)}
        with pytest.raises(EnforceNotMet, match=r"operator lstm .*2 rows"):
            run_op("lstm", LSTM | states, plain)
        with pytest.raises(EnforceNotMet, match=r"operator gru .*2 rows"):
            run_op("gru", GRU | {"H0": states["H0"]}, {})
    run_op("lstm", LSTM | {"H0": _floats(2, 3), "C0": _floats(2, 3)}, plain)
    for alone in ("H0", "C0"):
        with pytest.raises(EnforceNotMet, match="only at the same time"):
            run_op("lstm", LSTM | {alone: _floats(2, 3)}, plain)


def test_labels_of_several_columns_are_refused() -> None:
    for type, scores in (("cross_entropy", "X"), ("softmax_with_cross_entropy", "Logits")):
        with pytest.raises(EnforceNotMet, match="should be 1"):
            run_op(type, {scores: X, "Label": _classes(ROWS, 4)}, {})


@pytest.mark.parametrize("tier", ["interpreted", "recorded", "auto"])
def test_labels_that_are_missing_after_many_steps(tier: str) -> None:
    """What was recorded for other sizes isn't run: nothing is learned of them."""
    layers, draws = fluid.layers, np.random.RandomState(0)
    flag = {"FLAGS_refluid_tier": tier}
    with fluid.program_guard(fluid.Program(), fluid.Program()), flags.override(flag):
        x, label = fluid.data("x", [None, 4]), fluid.data("label", [None, 1], "int64")
        predicted = layers.fc(x, 3, act="softmax", param_attr="weights")
        loss = layers.mean(layers.cross_entropy(predicted, label))
        fluid.optimizer.SGD(0.1).minimize(loss)
        exe, scope = fluid.Executor(), fluid.Scope()
        with fluid.scope_guard(scope):
            exe.run(fluid.default_startup_program())

            def step(rows: int, labels: int) -> None:
                feed = {"x": draws.rand(rows, 4).astype("float32")}
                feed["label"] = draws.randint(0, 3, (labels, 1))
                exe.run(feed=feed, fetch_list=[loss])

            for _ in range(25):
                rows = int(draws.randint(1, 20))
                step(rows, rows)
            before = np.array(scope.find_var("weights").get_tensor())
            for rows, labels in ((8, 6), (6, 8), (8, 1), (1, 8), (20, 10)):
                with pytest.raises(EnforceNotMet, match="cross_entropy"):
                    step(rows, labels)
            np.testing.assert_array_equal(np.array(scope.find_var("weights").get_tensor()), before)


def test_where_operators_run_at_once() -> None:
    with fluid.dygraph.guard():
        x = fluid.dygraph.to_variable(X)
        for labels in (1, ROWS - 1, ROWS + 1):
            given = fluid.dygraph.to_variable(_classes(labels, 1))
            for loss in (fluid.layers.cross_entropy, fluid.layers.softmax_with_cross_entropy):
                with pytest.raises(EnforceNotMet, match=r"cross_entropy|softmax_loss"):
                    loss(x, given)
