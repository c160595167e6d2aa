"""Operators of click-through models against their definitions in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from refluid import fluid
from refluid.fluid.contrib import layers as contrib
from tests.ops.running import check_gradient, run_op

RANDOM = np.random.RandomState(5)


def test_cvm_takes_logarithms_and_gives_counts_back() -> None:
    x, counts = RANDOM.uniform(0, 9, (4, 5)), RANDOM.uniform(0, 9, (4, 2))
    show = np.log(x[:, :1] + 1)
    expected = np.concatenate([show, np.log(x[:, 1:2] + 1) - show, x[:, 2:]], 1)
    found = run_op("cvm", {"X": x, "CVM": counts}, gradients=["X"])
    np.testing.assert_allclose(found["Y"], expected)
    flow = np.cos(expected[:, 2:])
    np.testing.assert_allclose(found["X@GRAD"], np.concatenate([counts, flow], 1))
    found = run_op("cvm", {"X": x, "CVM": counts}, {"use_cvm": False}, gradients=["X"])
    np.testing.assert_allclose(found["Y"], x[:, 2:])
    np.testing.assert_allclose(found["X@GRAD"][:, :2], counts)


def test_cvm_of_sequences_repeats_the_counts() -> None:
    x, counts = RANDOM.uniform(0, 9, (5, 4)), np.array([[3.0, 1.0], [7.0, 2.0]])
    found = run_op("cvm", {"X": (x, [[2, 3]]), "CVM": counts}, gradients=["X"])
    np.testing.assert_allclose(found["X@GRAD"][:, :2], counts[[0, 0, 1, 1, 1]])


def _sums(width: int) -> dict[str, np.ndarray]:
    return {
        "BatchSize": np.full(width, 10.0),
        "BatchSum": RANDOM.standard_normal(width),
        "BatchSquareSum": RANDOM.uniform(5, 20, width),
    }


def test_data_norm() -> None:
    x, sums = RANDOM.standard_normal((6, 4)), _sums(4)
    found = run_op("data_norm", {"X": x, **sums}, gradients=["X", *sums])
    mean = sums["BatchSum"] / sums["BatchSize"]
    scale = np.sqrt(sums["BatchSize"] / sums["BatchSquareSum"])
    np.testing.assert_allclose(found["Y"], (x - mean) * scale)
    np.testing.assert_allclose(found["X@GRAD"], np.cos((x - mean) * scale) * scale)
    np.testing.assert_allclose(found["BatchSize@GRAD"], 6.0)
    np.testing.assert_allclose(found["BatchSum@GRAD"], x.sum(0))
    squares = ((x - mean) ** 2).sum(0) + 6 * np.float32(1e-4)
    np.testing.assert_allclose(found["BatchSquareSum@GRAD"], squares, rtol=1e-6)


def test_data_norm_scales_and_shifts() -> None:
    inputs = {
        "X": RANDOM.standard_normal((6, 4)),
        "scale_w": RANDOM.standard_normal(4),
        "bias": RANDOM.standard_normal(4),
        **_sums(4),
    }
    attrs = {"enable_scale_and_shift": True}
    check_gradient("data_norm", inputs, attrs, wrt=["X", "scale_w", "bias"], of="Y")


def test_data_norm_leaves_out_slots_never_shown() -> None:
    x, sums = RANDOM.uniform(1, 2, (3, 4)), _sums(4)
    x[1, 2] = 0.0
    found = run_op("data_norm", {"X": x, **sums}, {"slot_dim": 2}, gradients=["X", *sums])
    assert (found["Y"][1, 2:] == 0).all()
    assert (found["Y"][1, :2] != 0).all()
    shown = x[[0, 2], 2:]
    np.testing.assert_array_equal(found["BatchSize@GRAD"], [1, 1, 1, 1])
    np.testing.assert_allclose(found["BatchSum@GRAD"][2:], shown.mean(0), rtol=1e-6)
    squares = ((shown - (sums["BatchSum"] / sums["BatchSize"])[2:]) ** 2).mean(0)
    np.testing.assert_allclose(found["BatchSquareSum@GRAD"][2:], squares + 2 * 1e-4, rtol=1e-5)


@pytest.mark.parametrize(("start", "length"), [(0, -1), (1, 2), (-2, 2), (-3, -1)])
def test_partial_columns(start: int, length: int) -> None:
    one, other = RANDOM.standard_normal((3, 4)), RANDOM.standard_normal((3, 4))
    attrs = {"start_index": start, "length": length}
    begin = start % 4
    cut = slice(begin, 4 if length < 0 else begin + length)
    joined = run_op("partial_concat", {"X": [one, other]}, attrs, gradients=["X"])
    expected = np.concatenate([one[:, cut], other[:, cut]], 1)
    np.testing.assert_array_equal(joined["Out"], expected)
    flow = np.zeros((3, 4))
    flow[:, cut] = np.cos(one[:, cut])
    np.testing.assert_allclose(joined["X@GRAD"], flow)
    added = run_op("partial_sum", {"X": [one, other]}, attrs, gradients=["X"])
    np.testing.assert_allclose(added["Out"], one[:, cut] + other[:, cut])
    flow[:, cut] = np.cos(one[:, cut] + other[:, cut])
    np.testing.assert_allclose(added["X@GRAD"], flow)


def test_filter_by_instag_of_sequences() -> None:
    ins = RANDOM.standard_normal((5, 2))
    tags = np.array([[1], [4], [2], [1], [3]], "int64")
    inputs = {
        "Ins": (ins, [[2, 1, 2]]),
        "Ins_tag": (tags, [[2, 1, 2]]),
        "Filter_tag": np.array([4, 3], "int64"),
    }
    found = run_op("filter_by_instag", inputs, {"is_lod": True}, gradients=["Ins"])
    np.testing.assert_array_equal(found["Out"], ins[[0, 1, 3, 4]])
    assert found["Out.lod"] == [[2, 2]]
    np.testing.assert_array_equal(found["IndexMap"], [[0, 0], [2, 3]])
    expected = np.cos(ins)
    expected[2] = 0
    np.testing.assert_allclose(found["Ins@GRAD"], expected)


def test_filter_by_instag_with_nothing_left() -> None:
    inputs = {
        "Ins": RANDOM.standard_normal((3, 2)),
        "Ins_tag": np.array([[1], [4], [2]], "int64"),
        "Filter_tag": np.array([9], "int64"),
    }
    attrs = {"is_lod": False, "out_val_if_empty": 7}
    found = run_op("filter_by_instag", inputs, attrs, gradients=["Ins"])
    np.testing.assert_array_equal(found["Out"], [[7.0, 7.0]])
    np.testing.assert_array_equal(found["LossWeight"], [[0.0]])
    assert not found["Ins@GRAD"].any()


def test_center_loss_moves_centres_by_what_their_samples_say() -> None:
    x, centers = RANDOM.standard_normal((5, 3)), RANDOM.standard_normal((4, 3))
    label = np.array([[0], [2], [2], [0], [2]], "int64")
    inputs = {
        "X": x,
        "Label": label,
        "Centers": centers,
        "CenterUpdateRate": np.array([0.5]),
    }
    attrs = {"cluster_num": 4, "need_update": True}
    found = run_op("center_loss", inputs, attrs, gradients=["X"], of="Loss")
    gap = x - centers[label[:, 0]]
    loss = 0.5 * (gap**2).sum(1, keepdims=True)
    np.testing.assert_allclose(found["Loss"], loss)
    np.testing.assert_allclose(found["X@GRAD"], np.cos(loss) * gap)
    moved = centers.copy()
    moved[0] += 0.5 * gap[[0, 3]].sum(0) / 3
    moved[2] += 0.5 * gap[[1, 2, 4]].sum(0) / 4
    np.testing.assert_allclose(found["CentersOut"], moved)
    still = run_op("center_loss", inputs, attrs | {"need_update": False})
    np.testing.assert_array_equal(still["CentersOut"], centers)


def test_rank_attention() -> None:
    x = RANDOM.standard_normal((3, 2))
    param = RANDOM.standard_normal((2 * 2 * 2, 5))
    offset = np.array([[1, 1, 0, 2, 1], [2, 1, 0, 0, 0], [0, 1, 1, 2, 0]], "int32")
    inputs = {"X": x, "RankOffset": offset, "RankParam": param}
    blocks = param.reshape(2, 2, 2, 5)
    expected = np.stack(
        [x[0] @ blocks[0, 0] + x[1] @ blocks[0, 1], x[0] @ blocks[1, 0], np.zeros(5)]
    )
    found = run_op("rank_attention", inputs, {"MaxRank": 2})
    np.testing.assert_allclose(found["Out"], expected)
    check_gradient("rank_attention", inputs, {"MaxRank": 2}, wrt=["RankParam"])


def _pyramid(**changes: object) -> tuple[fluid.Variable, fluid.Program]:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        words = fluid.layers.data("words", [1], dtype="int32", lod_level=1)
        options = {"drop_out_percent": 0.0, "use_filter": False, "white_list_len": 0} | changes
        out = contrib.search_pyramid_hash(
            words,
            num_emb=8,
            space_len=50,
            pyramid_layer=3,
            rand_len=4,
            is_training=True,
            black_list_len=0,
            seed=1,
            lr=0.1,
            **options,
        )
    return out, main


def test_pyramid_hash_gives_equal_runs_equal_vectors() -> None:
    words = (np.array([[1], [2], [3], [9], [1], [2]], "int32"), [[3, 1, 2]])
    table = RANDOM.standard_normal((54, 1)).astype("float32")
    attrs = {"num_emb": 8, "space_len": 50, "pyramid_layer": 3, "rand_len": 4, "use_filter": False}
    found = run_op("pyramid_hash", {"X": words, "W": table}, attrs)
    assert found["Out.lod"] == [[3, 0, 1]]  # 12 23 123 | nothing | 12
    np.testing.assert_array_equal(found["Out"][0], found["Out"][3])
    first = int(found["DropPos"][0, 0])
    np.testing.assert_array_equal(found["Out"][0, :4], table[first : first + 4, 0])


def test_pyramid_hash_layer() -> None:
    out, main = _pyramid()
    assert tuple(out.shape) == (-1, 8)
    assert [op.type for op in main.global_block().ops] == ["pyramid_hash"]
