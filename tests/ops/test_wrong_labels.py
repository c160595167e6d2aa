"""Labels that are no class, predictions that are no chances, boxes that are none: in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.fluid import dygraph

L = fluid.layers


def _chances() -> Any:
    return L.softmax(fluid.data("x", [4, 3]))


LAYERS: dict[str, Callable[[Any], Any]] = {
    "cross_entropy": lambda label: L.cross_entropy(_chances(), label),
    "softmax_with_cross_entropy": lambda label: L.softmax_with_cross_entropy(_chances(), label),
    "linear_chain_crf": lambda label: L.linear_chain_crf(
        L.lod_reset(_chances(), target_lod=[0, 4]), label
    ),
    "bpr_loss": lambda label: L.bpr_loss(_chances(), label),
    "nce": lambda label: L.nce(_chances(), label, 3),
    "hsigmoid": lambda label: L.hsigmoid(_chances(), label, 3),
}
NUMBERS = {"cross_entropy", "softmax_with_cross_entropy", "bpr_loss"}


@pytest.mark.parametrize("wrong", [3, 70])
@pytest.mark.parametrize("name", LAYERS)
def test_labels_that_are_no_class(name: str, wrong: int) -> None:
    """As Fluid says it, in the first run and in those that were recorded."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        out = LAYERS[name](fluid.data("label", [4, 1], "int64"))
    executor = fluid.Executor()
    executor.run(startup)
    labels = np.array([[0], [1], [2], [0]])
    x = np.random.default_rng(3).random((4, 3), "float32")
    said = rf"OP\(fluid\.layers\.{name}\).* check label value"
    if name in NUMBERS:
        said = rf"OP\(fluid\.layers\.{name}\) expected >= 0 and < 3, but got {wrong}\. Please"
    for _ in range(3):
        for _ in range(4):
            executor.run(main, {"x": x, "label": labels}, [out], return_numpy=False)
        bad = np.where(labels == 1, wrong, labels)
        with pytest.raises(EnforceNotMet, match=said) as error:
            executor.run(main, {"x": x, "label": bad}, [out], return_numpy=False)
        assert "'label' holds" in str(error.value) and "Fix: labels are from 0" in str(error.value)


@pytest.mark.parametrize("shape, axis", [((4, 3), -1), ((2, 3, 4), 1), ((2, 4, 3), -1)])
@pytest.mark.parametrize("wrong", [3, 255, -2])
def test_labels_that_are_no_class_in_dygraph(shape: tuple[int, ...], axis: int, wrong: int) -> None:
    x = np.random.default_rng(3).random(shape, "float32")
    labels = np.zeros([1 if size == 3 else size for size in shape], "int64")
    labels.reshape(-1)[:2] = -1, wrong
    said = (
        r"OP\(fluid\.layers\.softmax_with_cross_entropy\) expected >= 0 and < 3, "
        rf"but got {wrong}\. Please(.|\n)*Fix: labels are from 0"
    )
    with dygraph.guard():
        chances, label = dygraph.to_variable(x), dygraph.to_variable(labels)
        chances.stop_gradient = False
        for _ in range(4):
            with pytest.raises(EnforceNotMet, match=said):
                L.softmax_with_cross_entropy(chances, label, ignore_index=-1, axis=axis)


def _run(out: Any, **feed: Any) -> Any:
    return fluid.Executor().run(feed=feed, fetch_list=[out])


def test_predictions_of_auc_are_chances() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x, y = fluid.data("x", [None, 1]), fluid.data("y", [None, 1], "int64")
        out = L.auc(x, y, slide_steps=3)[0]
        fluid.Executor().run(startup)
        labels = np.array([[0], [1]])
        assert _run(out, x=np.array([[0.0], [1.0]], "float32"), y=labels)[0] == 1.0
        for wrong in (1.5, -0.1, np.nan):
            with pytest.raises(EnforceNotMet, match="numbers from 0 to 1"):
                _run(out, x=np.array([[0.5], [wrong]], "float32"), y=labels)


def test_sizes_are_said() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        x, boxes = fluid.data("x", [2, 3]), fluid.data("boxes", [2, 4])
        with pytest.raises(EnforceNotMet, match="one number for each of 2 rows"):
            L.accuracy(x, fluid.data("label", [3, 1], "int64"))
        with pytest.raises(EnforceNotMet, match="a box has four numbers"):
            L.iou_similarity(boxes, x)
        with pytest.raises(IndexError, match="no channels"):
            L.batch_norm(fluid.data("row", [2]))


def test_ids_of_dygraph_are_integers() -> None:
    with dygraph.guard():
        ids = dygraph.to_variable(np.ones((2, 1), "float32"))
        with pytest.raises(EnforceNotMet, match="Fix: labels and ids are integers"):
            dygraph.Embedding([5, 3])(ids)
