"""Inputs whose sizes don't belong together are refused, as by paddle 2.6.2, not computed with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet

L = fluid.layers
Array = Any


def _floats(*shape: int) -> Array:
    return np.linspace(0.1, 0.9, int(np.prod(shape))).reshape(shape).astype("float32")


def _whole(*shape: int, kind: str = "int64") -> Array:
    return (np.arange(int(np.prod(shape))) % 2).reshape(shape).astype(kind)


# What is called, its inputs, and what is said.
WRONG: dict[str, tuple[Callable[..., Any], list[Array], str]] = {
    "huber_loss": (
        lambda x, y: L.huber_loss(x, y, 1.0),
        [_floats(4, 1, 1), _floats(4, 1)],
        r"Y has shape \[4, 1\], but X has shape \[4, 1, 1\]",
    ),
    "kldiv_loss": (
        L.kldiv_loss,
        [_floats(4, 3), _floats(1, 4, 3)],
        r"Target has shape \[1, 4, 3\], but X has shape \[4, 3\]",
    ),
    "kldiv_loss of a row": (
        L.kldiv_loss,
        [_floats(4, 3), _floats(1, 3)],
        r"Target has shape \[1, 3\], but X has shape \[4, 3\]",
    ),
    "scatter_nd_add, updates": (
        L.scatter_nd_add,
        [_floats(4, 3), _whole(3, 1), _floats(3, 3, 1)],
        r"Updates has shape \[3, 3, 1\], but what Index names has shape \[3, 3\]",
    ),
    "scatter_nd_add, index": (
        L.scatter_nd_add,
        [_floats(4, 3), _whole(3, 1, 1), _floats(3, 3)],
        r"what Index names has shape \[3, 1, 3\]",
    ),
    "scatter": (
        L.scatter,
        [_floats(4, 3), _whole(1, 2), _floats(2, 3)],
        r"The last dim of index should be 1 when it is 2D, but Ids is \[1, 2\]",
    ),
    "multiplex": (
        lambda ids, x, y: L.multiplex([x, y], ids),
        [_whole(4, 1, kind="int32"), _floats(4, 3), _floats(5, 3)],
        r"X\[1\] has shape \[5, 3\], but X\[0\] has shape \[4, 3\]",
    ),
    "sequence_unpad, rows": (
        L.sequence_unpad,
        [_floats(4, 4, 2), _whole(3) + 1],
        r"Length has shape \[3\], but what counts the rows of X has shape \[4\]",
    ),
    "sequence_unpad, lengths": (
        L.sequence_unpad,
        [_floats(3, 4, 2), _whole(3, 1) + 1],
        r"Length has shape \[3, 1\], but",
    ),
    "sum": (
        lambda x, y: L.sums([x, y]),
        [_floats(4, 3), _floats(1, 3)],
        r"term 1 has shape \[1, 3\], but the first has shape \[4, 3\]",
    ),
    "nce": (
        lambda x, y: L.nce(x, y, 6),
        [_floats(4, 3), _whole(1, 4, 1)],
        r"Label has shape \[1, 4, 1\], but Input has 4 rows",
    ),
    "hsigmoid": (
        lambda x, y: L.hsigmoid(x, y, 6),
        [_floats(4, 3), _whole(1, 4, 1)],
        r"Label has shape \[1, 4, 1\], but X has 4 rows",
    ),
    "data_norm": (
        L.data_norm,
        [_floats(4, 3, 1)],
        r"shape of input X .* has to be of 2 dimensions, but it is \[4, 3, 1\]",
    ),
}
# Of sequences.
ROWS: dict[str, tuple[Callable[..., Any], list[Array], str]] = {
    "sequence_enumerate": (
        lambda x: L.sequence_enumerate(x, 2),
        [_whole(4, 2)],
        r"X has shape \[4, 2\], but each of its rows has to hold one number",
    ),
    "sequence_erase": (
        lambda x: _erased(x),
        [_whole(4, 2)],
        r"X has shape \[4, 2\], but each of its rows has to hold one number",
    ),
    "edit_distance": (
        lambda x, y: L.edit_distance(x, y, False)[0],
        [_whole(4, 2), _whole(4, 1)],
        r"Hyps has shape \[4, 2\], but each of its rows has to hold one number",
    ),
    "warpctc": (
        L.warpctc,
        [_floats(4, 3), _whole(4, 2) + 1],
        r"Label has shape \[4, 2\], but each of its rows has to hold one number",
    ),
}


def _erased(x: Any) -> Any:
    block = fluid.default_main_program().current_block()
    out = block.create_var(name="erased", dtype="int64")
    attrs = {"tokens": [5]}
    block.append_op(type="sequence_erase", inputs={"X": x}, outputs={"Out": out}, attrs=attrs)
    return out


@pytest.mark.parametrize("case", WRONG)
def test_at_once(case: str) -> None:
    call, arrays, says = WRONG[case]
    with fluid.dygraph.guard(), pytest.raises(EnforceNotMet, match=says):
        call(*(fluid.dygraph.to_variable(array) for array in arrays))


@pytest.mark.parametrize("case", [*WRONG, *ROWS])
def test_in_programs(case: str) -> None:
    rows = case in ROWS
    call, arrays, says = (WRONG | ROWS)[case]
    main, startup = fluid.Program(), fluid.Program()
    feed: dict[str, Any] = {f"x{number}": array for number, array in enumerate(arrays)}
    if rows:
        feed = {
            name: fluid.create_lod_tensor(array, [[1, len(array) - 1]], fluid.CPUPlace())
            for name, array in feed.items()
        }
    exe = fluid.Executor()

    def run() -> None:
        with fluid.program_guard(main, startup):
            vars = [
                fluid.data(name, [*array.shape], str(array.dtype), lod_level=int(rows))
                for name, array in zip(feed, arrays, strict=True)
            ]
            out = call(*vars)
        exe.run(startup)
        exe.run(main, feed, [out], return_numpy=False)

    with (
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
        pytest.raises(EnforceNotMet, match=says),
    ):
        run()


def test_predictions_of_other_rows_than_labels() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        scores, label = fluid.data("scores", [4, 2]), fluid.data("label", [1, 4, 1], "int64")
        area = L.auc(scores, label)[0]
    exe = fluid.Executor()
    says = r"Label has shape \[1, 4, 1\], but Predict has 4 rows"
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        with pytest.raises(EnforceNotMet, match=says):
            exe.run(main, {"scores": _floats(4, 2), "label": _whole(1, 4, 1)}, [area])


def test_gradients_of_no_images_have_their_shape() -> None:
    with fluid.dygraph.guard():
        x = fluid.dygraph.to_variable(np.zeros((0, 8, 2, 3), "float32"))
        x.stop_gradient = False
        L.reduce_sum(L.pixel_shuffle(x, 2)).backward()
        assert x.gradient().shape == (0, 8, 2, 3)


def test_what_a_written_gradient_refuses_is_said_each_time() -> None:
    """The second call goes without a plan."""
    with fluid.dygraph.guard():
        for _ in range(3):
            x = fluid.dygraph.to_variable(_floats(4, 1).astype("float16"))
            y = fluid.dygraph.to_variable(_floats(4, 1))
            x.stop_gradient = False
            loss = L.reduce_sum(L.huber_loss(x, y, 1.0))
            says = r"operator huber_loss_grad failed: it can't compute with these types"
            with pytest.raises(EnforceNotMet, match=says):
                loss.backward()
