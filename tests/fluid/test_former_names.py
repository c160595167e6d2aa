"""Parameters of dygraph's layers by the names of Fluid 1.5 and 1.6, as public networks use them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid import fluid

D = fluid.dygraph
NAMES = {
    "Embedding": (lambda: D.Embedding("s", [7, 3]), np.array([[1], [2]]), {"_w": "weight"}),
    "FC": (lambda: D.FC("s", 4), np.ones((2, 3), "float32"), {"_w": "weight", "_b": "bias"}),
    "Conv2D": (
        lambda: D.Conv2D("s", 2, 3),
        np.ones((1, 3, 5, 5), "float32"),
        {"_filter_param": "weight", "_bias_param": "bias"},
    ),
}


@pytest.mark.parametrize("kind", NAMES)
def test_former_names_are_the_parameters(kind: str) -> None:
    make, given, names = NAMES[kind]
    with D.guard():
        layer: Any = make()
        with pytest.raises(AttributeError, match="no attribute '_wrong'"):
            _ = layer._wrong
        layer(D.to_variable(given)).backward()
        for former, today in names.items():
            assert getattr(layer, former) is getattr(layer, today)
            assert getattr(layer, former).gradient().any()
        assert set(layer.state_dict()) == set(names.values())


def test_one_weight_for_two_layers() -> None:
    ids, out = np.array([[1], [3]]), []
    with D.guard():
        first, second = D.Embedding("a", [5, 3]), D.Embedding("b", [5, 3])
        second._w = first._w
        assert second.parameters() == first.parameters()
        out = [one(D.to_variable(ids)).numpy() for one in (first, second)]
    np.testing.assert_array_equal(*out)


def test_a_table_that_is_no_parameter() -> None:
    """Positions' encodings are put in the place of the weight before the first step, or later."""
    ids, tables = np.array([[1], [3]]), np.random.default_rng(2).random((3, 5, 3), np.float32)
    with D.guard():
        layer = D.Embedding("a", [5, 3])
        for table in tables:
            layer._w = D.to_variable(table)
            for _ in range(3):
                np.testing.assert_array_equal(layer(D.to_variable(ids)).numpy(), table[ids[:, 0]])


def test_checkpoints_given_to_backward() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        hidden = fluid.layers.fc(fluid.data("x", [None, 4]), 3)
        loss = fluid.layers.mean(fluid.layers.fc(hidden, 1))
        optimizer = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.SGD(0.1))
        with pytest.raises(AssertionError, match="_set_checkpoints"):
            optimizer.backward(loss)
        pairs = optimizer.backward(loss, checkpoints=[hidden])
        optimizer.apply_gradients(pairs)
    assert [op.type for op in main.global_block().ops].count("mul") > 2


def test_sizes_that_fluid_1_4_was_told() -> None:
    image = np.ones((1, 3, 5, 5), "float32")
    with D.guard():
        layer = D.Conv2D("s", num_channels=3, num_filters=2, filter_size=3)
        assert layer(D.to_variable(image)).shape == [1, 2, 3, 3]
        wrong = D.Conv2D("s", num_channels=4, num_filters=2, filter_size=3)
        with pytest.raises(fluid.core.EnforceNotMet, match="channels"):
            wrong(D.to_variable(image))


def test_an_optimizer_goes_on_by_load() -> None:
    weights: list[Any] = []
    state: dict[str, Any] = {}
    for steps, load in ((3, False), (1, True)):
        with D.guard(), fluid.unique_name.guard():
            layer = D.Linear(2, 1)
            layer.weight.set_value(np.ones((2, 1), "float32") if not load else weights[1])
            adam = fluid.optimizer.Adam(0.1, parameter_list=layer.parameters())
            if load:
                adam.load(stat_dict=dict(state))
            for step in range(steps):
                layer(D.to_variable(np.full((1, 2), 1.5, "float32"))).backward()
                adam.minimize(layer.weight)
                layer.clear_gradients()
                weights += [layer.weight.numpy()]
                if step == 1:
                    state |= {name: one.numpy() for name, one in adam.state_dict().items()}
    np.testing.assert_allclose(weights[3], weights[2], rtol=1e-6)


def test_arguments_that_had_other_names() -> None:
    sizes: Any = {"anchors": [10, 13], "anchor_mask": [0], "class_num": 2}
    sizes |= {"ignore_thresh": 0.5, "downsample_ratio": 32}
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x, boxes = fluid.data("x", [1, 7, 4, 4]), fluid.data("boxes", [1, 3, 4])
        labels = fluid.data("labels", [1, 3], "int32")
        loss = fluid.layers.yolov3_loss(x, gtbox=boxes, gtlabel=labels, **sizes)
        assert loss.shape == (1,)
        with pytest.raises(TypeError, match="gt_bok"):
            fluid.layers.yolov3_loss(x, gt_bok=boxes, gtlabel=labels, **sizes)
        with pytest.raises(TypeError, match="gt_box"):
            fluid.layers.yolov3_loss(x, gt_box=boxes, gtbox=boxes, gtlabel=labels, **sizes)


def test_names_that_moved() -> None:
    assert fluid.layers.tree_conv is fluid.contrib.layers.tree_conv
    assert fluid.layers.detection_map is fluid.layers.detection.detection_map
    assert fluid.dygraph.dygraph_to_static_output is fluid.dygraph.declarative
    with pytest.raises(NotImplementedError, match="recordio"):
        fluid.recordio_writer.convert_reader_to_recordio_file("a", lambda: iter([]), None)


@pytest.mark.parametrize("clip", ["local_grad_clip_norm", "grad_clip"])
def test_the_norm_of_one_trainer(clip: str) -> None:
    norm: Any = 4.0 if clip == "local_grad_clip_norm" else fluid.clip.GradientClipByNorm(4.0)
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 200]), 100))
        fluid.optimizer.DGCMomentumOptimizer(
            0.1, 0.9, rampup_begin_step=0, num_trainers=4, **{clip: norm}
        ).minimize(loss)
    norms = {op.attr("max_norm") for op in main.global_block().ops if "clip" in op.type}
    assert norms == {2.0}
