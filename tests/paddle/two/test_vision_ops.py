"""`paddle.vision.ops` in programs as at once, and what reads files."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.paddle as paddle
from refluid import fluid

ops = paddle.vision.ops
RANDOM = np.random.RandomState(2)
CORNERS = RANDOM.uniform(0, 5, (5, 2))
BOXES = np.concatenate([CORNERS, CORNERS + RANDOM.uniform(0.5, 4, (5, 2))], 1).astype("float32")
IMAGES = RANDOM.uniform(-1, 1, (2, 8, 6, 6)).astype("float32")
COUNTS = np.array([2, 3], "int32")
SCORES = RANDOM.permutation(5).astype("float32")

CALLS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "roi_align": (lambda x, r, n: ops.roi_align(x, r, n, 2), [IMAGES, BOXES, COUNTS]),
    "roi_pool": (lambda x, r, n: ops.roi_pool(x, r, n, [2, 3]), [IMAGES, BOXES, COUNTS]),
    "psroi_pool": (lambda x, r, n: ops.psroi_pool(x, r, n, 2), [IMAGES, BOXES, COUNTS]),
    "nms": (lambda r, s: ops.nms(r, 0.2, s, top_k=3), [BOXES, SCORES]),
    "levels": (
        lambda r, n: [
            one
            for part in ops.distribute_fpn_proposals(r, 2, 3, 2, 3, rois_num=n)
            for one in (part if isinstance(part, list | tuple) else [part])
        ],
        [BOXES, COUNTS],
    ),
    "matrix_nms": (
        lambda b, s: ops.matrix_nms(b, s, 0.1, 0.0, 5, 5, background_label=-1)[:2],
        [BOXES[None], (SCORES / 5).reshape(1, 1, 5)],
    ),
}


def _listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, list | tuple) else [made]


@pytest.mark.parametrize("name", CALLS)
def test_programs_give_what_is_given_at_once(name: str) -> None:
    call, arrays = CALLS[name]
    paddle.disable_static()
    try:
        expected = [one.numpy() for one in _listed(call(*map(paddle.to_tensor, arrays)))]
    finally:
        paddle.enable_static()
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        given = [
            paddle.static.data(f"x{n}", [None, *one.shape[1:]], str(one.dtype))
            for n, one in enumerate(arrays)
        ]
        made = _listed(call(*given))
        feed = {f"x{n}": one for n, one in enumerate(arrays)}
        found = paddle.static.Executor().run(feed=feed, fetch_list=made)
    assert len(found) == len(expected)
    for own, other, declared in zip(found, expected, made, strict=True):
        np.testing.assert_array_equal(own, other)
        pairs = zip(declared.shape, other.shape, strict=True)
        assert all(size in (-1, true) for size, true in pairs), name


def test_images_are_decoded(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    made = io.BytesIO()
    image.fromarray(np.full((4, 6, 3), 120, "uint8")).save(made, "jpeg")
    (tmp_path / "one.jpg").write_bytes(made.getvalue())
    with pytest.raises(NotImplementedError, match="at once"):
        ops.read_file(str(tmp_path / "one.jpg"))
    paddle.disable_static()
    try:
        data = ops.read_file(str(tmp_path / "one.jpg"))
        assert (data.numpy().tobytes(), data.numpy().dtype) == (made.getvalue(), np.uint8)
        assert ops.decode_jpeg(data).numpy().tolist() == np.full((3, 4, 6), 120).tolist()
        assert ops.decode_jpeg(data, "gray").shape in ([1, 4, 6], (1, 4, 6))
        with pytest.raises(ValueError, match="mode"):
            ops.decode_jpeg(data, "cmyk")
    finally:
        paddle.enable_static()


def test_what_is_refused() -> None:
    paddle.disable_static()
    try:
        boxes = paddle.to_tensor(BOXES)
        with pytest.raises(ValueError, match="categories"):
            ops.nms(boxes, 0.3, category_idxs=paddle.to_tensor(np.zeros(5, "int64")))
        with pytest.raises(NotImplementedError, match="iou_aware"):
            ops.yolo_box(boxes, boxes, [1, 2], 1, 0.1, 8, iou_aware=True)
    finally:
        paddle.enable_static()
