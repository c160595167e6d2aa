"""Attributes and shapes that Fluid refuses are refused, by its error and the operator's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from tests.ops.running import Array, refusal, run_op
from tests.ops.sequences import call, levels, random


def _floats(*shape: int) -> Array:
    return np.random.RandomState(3).rand(*shape).astype("float32")


def _ints(*shape: int) -> Array:
    return np.zeros(shape, "int64")


X = {"X": _floats(4, 10)}
GRU = {"Input": _floats(9, 15), "HiddenPrev": _floats(9, 5), "Weight": _floats(5, 15)}
PRIORS = {"aspect_ratios": [1.0], "variances": [0.1, 0.1, 0.2, 0.2]}
PLANES = {"Input": _floats(1, 3, 4, 4), "Image": _floats(1, 3, 16, 16)}
MINING = {"ClsLoss": _floats(2, 5), "MatchIndices": _ints(2, 5).astype("int32")}
YOLO = {"X": _floats(2, 14, 3, 3), "ImgSize": _ints(1, 2).astype("int32")}
SPECTRAL = {"Weight": _floats(3, 4, 2), "U": _floats(3)}
CASES: list[tuple[str, Mapping[str, Array], Mapping[str, Any], str]] = [
    ("elementwise_add", X | {"Y": _floats(10)}, {"axis": 2}, "axis=2"),
    ("elementwise_mul", X | {"Y": _floats(10)}, {"axis": -2}, "axis=-2"),
    ("mul", X | {"Y": _floats(10, 3)}, {"x_num_col_dims": 2}, "x_num_col_dims is 2"),
    ("mul", X | {"Y": _floats(10, 3)}, {"y_num_col_dims": 0}, "y_num_col_dims is 0"),
    ("matmul", X | {"Y": _floats(10, 3)}, {"head_number": 2}, "head_number 2"),
    ("reduce_sum", X, {"dim": [2]}, r"dim is \[2\]"),
    ("reduce_mean", X, {"dim": [-3]}, r"dim is \[-3\]"),
    ("flatten2", X, {"axis": 3}, "axis is 3"),
    ("pad", X, {"paddings": [0, -1, 0, 0]}, "paddings is"),
    ("pad", X, {"paddings": [0, 1]}, "paddings is"),
    ("clip", X, {"min": 2.0, "max": 1.0}, "min is 2.0 and max 1.0"),
    ("clip_by_norm", X, {"max_norm": 0.0}, "max_norm"),
    ("top_k", X, {"k": 0}, "k has to be at least 1"),
    ("index_sample", X | {"Index": _ints(3, 2)}, {}, "differ in rows"),
    ("nll_loss", X | {"Label": _ints(5)}, {}, "Label"),
    (
        "shard_index",
        {"X": _ints(4, 1)},
        {"index_num": 20, "nshards": 2, "shard_id": 2},
        "there are 2 shards",
    ),
    ("spectral_norm", SPECTRAL | {"V": _floats(7)}, {}, "they have 3 and 7"),
    ("gru_unit", GRU | {"Bias": _floats(1, 1)}, {}, "Bias has shape"),
    ("gru_unit", GRU | {"HiddenPrev": _floats(8, 5)}, {}, "HiddenPrev"),
    ("add_position_encoding", {"X": _floats(2, 3, 4)}, {"beta": -1.0}, "alpha and beta"),
    ("polygon_box_transform", {"Input": _floats(1, 7, 2, 2)}, {}, "even number of channels"),
    ("spp", {"X": _floats(2, 3, 5)}, {"pyramid_height": 1, "pooling_type": "max"}, "4 dimensions"),
    (
        "conv2d_transpose",
        {"Input": _floats(2, 3, 5), "Filter": _floats(3, 4, 2, 2)},
        {},
        "has to be of 4 dim",
    ),
    ("maxout", {"X": _floats(2, 6, 3, 4)}, {"groups": 2, "axis": 0}, "one of 1, -1, 3"),
    ("prelu", {"X": _floats(2, 3, 4), "Alpha": _floats(3)}, {"mode": "all"}, "takes 1"),
    ("crop", {"X": _floats(4, 5)}, {"offsets": [3, 0], "shape": [2, 3]}, "not inside of X"),
    (
        "affine_channel",
        {"X": _floats(2, 3, 4, 4), "Scale": _floats(1), "Bias": _floats(3)},
        {"data_layout": "NCHW"},
        "one number for each of the 3 channels",
    ),
    ("max_pool2d_with_index", {"X": _floats(2, 3, 5)}, {"ksize": [2, 2]}, "have 4 dimensions"),
    ("nearest_interp", {"X": _floats(2, 3, 4, 5, 6)}, {"out_h": 2, "out_w": 2}, "have 4 dim"),
    (
        "anchor_generator",
        {"Input": _floats(1, 3, 4, 4)},
        PRIORS | {"variances": [0.1], "anchor_sizes": [4.0], "stride": [4.0, 4.0]},
        "4 numbers, each greater than 0",
    ),
    ("prior_box", PLANES, PRIORS | {"min_sizes": [4.0], "max_sizes": [8.0, 9.0]}, "as many max_"),
    ("yolo_box", YOLO, {"class_num": 2, "anchors": [10, 13, 16, 30]}, "ImgSize has 1 rows"),
    ("yolo_box", YOLO, {"class_num": 2, "anchors": [10, 13, 16]}, "even number of values"),
    ("mine_hard_examples", MINING | {"MatchDist": _floats(2, 4)}, {}, "of one shape"),
    ("mine_hard_examples", MINING | {"MatchDist": _floats(2, 5)}, {"neg_pos_ratio": 0.0}, "than 0"),
    ("pad_constant_like", {"X": _floats(2, 3), "Y": _floats(3, 3)}, {}, "as large or larger"),
    ("layer_norm", {"X": _floats(2, 3)}, {"begin_norm_axis": 2}, "less than the dimensions"),
    ("group_norm", {"X": _floats(2, 4, 3)}, {"groups": 0}, "greater than 0"),
    ("iou_similarity", {"X": _floats(2, 3, 4), "Y": _floats(2, 4)}, {}, "of 2 dimensions"),
    ("space_to_depth", {"X": _floats(1, 6, 4, 4)}, {"blocksize": 2}, "its square the channels"),
    ("space_to_depth", {"X": _floats(1, 4, 3, 4)}, {"blocksize": 2}, "height and width"),
    ("top_k", X, {"k": 11}, "at most the size of the last dimension"),
    ("dropout", X, {"dropout_prob": 2.0}, "dropout_prob"),
    ("dropout", X, {"dropout_implementation": "both"}, "dropout_implementation"),
    ("kldiv_loss", X | {"Target": _floats(4, 10)}, {"reduction": "all"}, "reduction"),
    ("prelu", X | {"Alpha": _floats(1)}, {"mode": "some"}, "mode"),
    ("maxout", {"X": _floats(1, 4, 2, 2)}, {"groups": 1}, "groups"),
    ("maxout", X, {"groups": 2}, "of 4 dimensions"),
    ("temporal_shift", {"X": _floats(4, 4, 2, 2)}, {"seg_num": 2, "shift_ratio": 0.5}, "ratio"),
    ("softmax", X, {"axis": 2}, "axis is 2"),
    ("argsort", X, {"axis": -3}, "axis is -3"),
    ("squeeze2", X, {"axes": [0]}, "squeezed should be equal to 1"),
    ("squeeze2", X, {"axes": [2]}, "in the range of"),
    ("reshape2", X, {"shape": [3, 13]}, "capacity of 'shape'"),
    ("reshape2", {"X": _floats(0, 1)}, {"shape": [0, -1, 1]}, "leave out batches"),
    ("reshape2", X | {"Shape": np.array([8, 5])}, {}, "desires to be int"),
    ("expand", X, {"expand_times": [1, 0]}, "expand_times"),
    ("expand_as", X | {"target_tensor": _floats(6, 10)}, {}, "multiples"),
    ("concat", X, {"axis": 2}, r"range of \[-2, 2\)"),
    ("gather", X | {"Index": _ints(2, 2)}, {}, "last dim of index"),
    ("slice", {"Input": _floats(3)}, {"axes": [0], "starts": [5], "ends": [7]}, "takes nothing"),
    (
        "strided_slice",
        {"Input": _floats(3)},
        {"axes": [0], "starts": [0], "ends": [2], "strides": [-1]},
        "takes nothing",
    ),
    ("crop_tensor", X, {"shape": [4, 4], "offsets": [0, 7]}, "have to lie within X"),
    ("increment", X, {}, "number of elements"),
    ("log_loss", {"Predicted": _floats(4, 2), "Labels": _floats(4, 2)}, {"epsilon": 0.1}, "2nd"),
    ("hinge_loss", {"Logits": _floats(4, 2), "Labels": _floats(4, 1)}, {}, "Logits"),
    ("softmax_with_cross_entropy", {"Logits": _floats(4, 3), "Label": _ints(4)}, {}, "axis dim"),
    ("unique", {"X": _ints(2, 2)}, {"dtype": 3}, "of 1 dimensions"),
    ("reduce_sum", {"X": _floats(2, 3, 4)}, {"dim": [0, -3]}, "twice"),
]


@pytest.mark.parametrize("op_type, inputs, attrs, says", CASES)
def test_is_refused(
    op_type: str, inputs: Mapping[str, Array], attrs: Mapping[str, Any], says: str
) -> None:
    assert op_type in refusal(op_type, inputs, attrs, says)


def test_candidates_are_counted_from_0() -> None:
    inputs = {"X": [_floats(2, 3), _floats(2, 3)], "Ids": np.array([[0], [-1]], "int32")}
    with pytest.raises(EnforceNotMet, match="multiplex failed: index must be nonnegative"):
        run_op("multiplex", inputs)
    with pytest.raises(EnforceNotMet, match="candidate 2, counted from 0, of 2"):
        run_op("multiplex", inputs | {"Ids": np.array([[0], [2]], "int32")})
    with pytest.raises(EnforceNotMet, match="more than one candidate"):
        run_op("multiplex", inputs | {"X": [_floats(2, 3)]})


@pytest.mark.parametrize("start, end, step", [(0, 5, -1), (5, 0, 1), (0, 5, 0)])
def test_steps_lead_from_start_to_end(start: int, end: int, step: int) -> None:
    inputs = {"Start": np.array([start]), "End": np.array([end]), "Step": np.array([step])}
    with pytest.raises(EnforceNotMet, match="range failed: The step should lead"):
        run_op("range", inputs)


def test_parts_take_all_of_what_is_split() -> None:
    with pytest.raises(EnforceNotMet, match=r"split.*Sum of Attr"):
        run_op("split", X, {"axis": 1, "sections": [2, 3]}, counts={"Out": 2})


def test_another_number_of_matching_matrices_is_refused() -> None:
    inputs = {"X": random(3, 4), "Y": random(2, 5), "W": random(4, 3, 5)}
    lods = {"X": levels([1, 2]), "Y": levels([1, 1])}
    with pytest.raises(EnforceNotMet, match="dim_t is 2"):
        call("match_matrix_tensor", inputs, lods, dim_t=2)


def test_regions_of_no_scale_are_refused() -> None:
    inputs = {"X": random(1, 8, 5, 5), "ROIs": random(2, 4)}
    sizes = {"output_channels": 2, "pooled_height": 2, "pooled_width": 2}
    with pytest.raises(EnforceNotMet, match="spatial_scale"):
        call("psroi_pool", inputs, {"ROIs": levels([2])}, spatial_scale=0.0, **sizes)


@pytest.mark.parametrize("append", [False, True])
def test_the_sequences_of_another_value_replace(append: bool) -> None:
    inputs, lods = {"X": random(6, 1), "Y": random(6, 2)}, {"X": levels([1, 5])}
    _, lod = call("lod_reset", inputs, lods | {"Y": levels([2, 4])}, append=append)
    assert lod == levels([2, 4])


def test_sizes_that_are_known_only_at_run_time_are_checked_then() -> None:
    inputs = {"X": random(4, 10), "Y": random(10)}
    with pytest.raises(EnforceNotMet, match="axis is 2 but has to be -1, or from 0 to below 2"):
        call("elementwise_add", inputs, {}, axis=2)


def test_sequences_are_pooled_by_what_there_is() -> None:
    """It is refused where the layer is called."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [None, 3], lod_level=1)
        with pytest.raises(EnforceNotMet, match=r"'pooltype' has to be one of ") as no:
            fluid.layers.sequence_pool(x, "min")
    assert "operator sequence_pool" in str(no.value) and "test_refused.py" in str(no.value)
