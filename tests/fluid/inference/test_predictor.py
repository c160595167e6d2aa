"""Predictors compute what `Executor.run` computes with the saved model."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
from refluid.fluid.core import (
    AnalysisConfig,
    NativeConfig,
    PaddlePredictor,
    PaddleTensor,
    create_paddle_predictor,
)
from tests.fluid.inference.saved import by_executor, images, save, words
from tests.golden import GOLDEN, needs_golden

LOD = [[0, 2, 5]]


def an_image(rows: int = 2, seed: int = 3) -> np.ndarray:
    return np.random.RandomState(seed).rand(rows, 3, 8, 8).astype("float32")


def zero_copy(predictor: PaddlePredictor, feed: dict[str, Any], lods: Any = ()) -> list[Any]:
    for name, array in feed.items():
        tensor = predictor.get_input_tensor(name)
        tensor.reshape(array.shape)
        tensor.copy_from_cpu(array)
        tensor.set_lod(dict(lods).get(name, []))
    assert predictor.zero_copy_run() is True
    names = predictor.get_output_names()
    return [predictor.get_output_tensor(name).copy_to_cpu() for name in names]


def close(found: list[Any], expected: list[Any], tolerance: float = 2e-6) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_batch_norms_are_folded_and_the_outputs_stay(tmp_path: Path, layout: str) -> None:
    folder = save(tmp_path, lambda: images(layout))
    predictor = create_paddle_predictor(AnalysisConfig(str(folder)))
    kinds = [op.type for op in predictor.program().global_block().ops]
    assert kinds.count("batch_norm") == 1, "the last convolution is read by two"
    image = an_image() if layout == "NCHW" else an_image().transpose(0, 2, 3, 1).copy()
    found = predictor.run([PaddleTensor(image)])
    close([one.as_ndarray() for one in found], by_executor(folder, {"image": image}))
    assert [one.name for one in found] == predictor.get_output_names()


def test_without_optimisation_the_bits_are_those_of_the_executor(tmp_path: Path) -> None:
    folder = save(tmp_path, images)
    config = AnalysisConfig(str(folder))
    config.switch_ir_optim(False)
    native = config.to_native_config()
    expected = by_executor(folder, {"image": an_image()})
    for one in (config, native):
        close(zero_copy(create_paddle_predictor(one), {"image": an_image()}), expected, 0.0)


def test_output_tensors_hold_what_run_gave(tmp_path: Path) -> None:
    folder = save(tmp_path, words)
    predictor = create_paddle_predictor(AnalysisConfig(str(folder)))
    outputs = [predictor.get_output_tensor(name) for name in predictor.get_output_names()]
    for seed in (1, 2):
        word = np.random.RandomState(seed).randint(0, 5, (5, 1)).astype("int64")
        side = np.full((2, 4), seed, "float32")
        found = predictor.run([PaddleTensor(word, lod=LOD), PaddleTensor(side)])
        close([one.copy_to_cpu() for one in outputs], [one.as_ndarray() for one in found], 0.0)
        assert [one.lod() for one in outputs] == [[], LOD]


def test_sequences_go_in_and_out_with_their_offsets(tmp_path: Path) -> None:
    folder = save(tmp_path, words)
    word = np.array([[1], [2], [3], [4], [5]], "int64")
    side = np.ones((2, 4), "float32")
    fed = fluid.create_lod_tensor(word, [[2, 3]], fluid.CPUPlace())
    expected = by_executor(folder, {"word": fed, "side": side})
    predictor = create_paddle_predictor(AnalysisConfig(str(folder)))
    assert predictor.get_input_names() == ["word", "side"]
    assert predictor.get_input_tensor_shape() == {"word": [-1, 1], "side": [-1, 4]}
    found = predictor.run([PaddleTensor(word, lod=LOD), PaddleTensor(side)])
    close([one.as_ndarray() for one in found], expected)
    assert [one.lod for one in found] == [[], LOD]
    close(zero_copy(predictor, {"word": word, "side": side}, {"word": LOD}), expected)
    assert predictor.get_output_tensor(predictor.get_output_names()[1]).lod() == LOD


def test_inputs_by_name(tmp_path: Path) -> None:
    config = AnalysisConfig(str(save(tmp_path, words)))
    config.switch_specify_input_names(True)
    predictor = create_paddle_predictor(config)
    word = PaddleTensor(np.ones((5, 1), "int64"), name="word", lod=LOD)
    side = PaddleTensor(np.ones((2, 4), "float32"), name="side")
    close(*([one.as_ndarray() for one in predictor.run(pair)]
            for pair in ([word, side], [side, word])))  # fmt: skip
    with pytest.raises(EnforceNotMet, match=r"'word', ''.*'word', 'side'"):
        predictor.run([word, PaddleTensor(np.ones((2, 4), "float32"))])


def test_models_of_two_files_and_from_memory(tmp_path: Path) -> None:
    folder = save(tmp_path / "many", images)
    save(tmp_path / "two", images, combined=True)
    model, params = (tmp_path / "two" / name for name in ("model", "params"))
    config = AnalysisConfig(str(model), str(params))
    memory = AnalysisConfig()
    data, values = model.read_bytes(), params.read_bytes()
    memory.set_model_buffer(data + b"more", len(data), values, len(values))
    assert memory.model_from_memory() and not config.model_from_memory()
    expected = by_executor(folder, {"image": an_image()})
    for one in (config, memory):
        close(zero_copy(create_paddle_predictor(one), {"image": an_image()}), expected)


def test_clones_run_in_threads_of_their_own(tmp_path: Path) -> None:
    folder = save(tmp_path, images)
    first = create_paddle_predictor(AnalysisConfig(str(folder)))
    batches = [an_image(rows, seed) for seed in range(4) for rows in (1, 2, 5)]
    expected = [by_executor(folder, {"image": batch}) for batch in batches]
    wrong: list[BaseException] = []

    def serve(predictor: PaddlePredictor, start: int) -> None:
        try:
            for turn in range(40):
                place = (start + turn) % len(batches)
                close(zero_copy(predictor, {"image": batches[place]}), expected[place])
        except BaseException as error:
            wrong.append(error)

    predictors = [first, first.clone(), first.clone(), first.clone().clone()]
    threads = [
        threading.Thread(target=serve, args=(predictor, 3 * number))
        for number, predictor in enumerate(predictors)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    cells = [one.scope().find_var("conv2d_3.w_0") for one in predictors]
    assert all(cell is not None and cell is cells[0] for cell in cells), "one copy of parameters"


def test_the_folded_model_can_be_saved_and_run(tmp_path: Path) -> None:
    folder = save(tmp_path / "model", images)
    predictor = create_paddle_predictor(AnalysisConfig(str(folder)))
    predictor.SaveOptimModel(str(tmp_path / "folded"))
    again = AnalysisConfig(*(str(tmp_path / "folded" / name) for name in ("model", "params")))
    feed = {"image": an_image()}
    close(zero_copy(create_paddle_predictor(again), feed), zero_copy(predictor, feed))


@needs_golden
@pytest.mark.parametrize("folder", ["infer", "infer_combined"])
def test_models_that_fluid_saved(folder: str) -> None:
    facts = json.loads((GOLDEN / "formats" / "expected.json").read_text())
    path = GOLDEN / "formats" / folder
    files = (path / "model", path / "params") if folder == "infer_combined" else (path,)
    predictor = create_paddle_predictor(AnalysisConfig(*map(str, files)))
    kinds = {"x": "float32", "ids": "int64"}
    fed = {one: np.array(facts["feed"][one], kinds[one]) for one in predictor.get_input_names()}
    close(zero_copy(predictor, fed), [np.array(facts["pred"], "float32")], 1e-6)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(EnforceNotMet, match="names no model"):
        create_paddle_predictor(AnalysisConfig())
    with pytest.raises(EnforceNotMet, match="cannot be opened"):
        create_paddle_predictor(AnalysisConfig(str(tmp_path)))
    with pytest.raises(TypeError, match="AnalysisConfig or NativeConfig"):
        create_paddle_predictor("model")
    with pytest.raises(TypeError, match="create_paddle_predictor"):
        PaddlePredictor()
    predictor = create_paddle_predictor(AnalysisConfig(str(save(tmp_path, images))))
    with pytest.raises(EnforceNotMet, match="1 inputs"):
        predictor.run([])
    with pytest.raises(EnforceNotMet, match="copy_from_cpu"):
        predictor.zero_copy_run()
    with pytest.raises(EnforceNotMet, match="no input 'picture'; there are image"):
        predictor.get_input_tensor("picture")
    with pytest.raises(ValueError, match=r"\[-1, 3, 8, 8\]|dimensions = 4"):
        predictor.run([PaddleTensor(np.ones((2, 3), "float32"))])
    with pytest.raises(EnforceNotMet, match="step of making a predictor"):
        predictor.prepare_argument()


def test_native_configurations_name_folders_and_files(tmp_path: Path) -> None:
    config = NativeConfig()
    config.model_dir = str(save(tmp_path, images))
    config.set_cpu_math_library_num_threads(1)
    found = create_paddle_predictor(config).run([PaddleTensor(an_image())])
    close([one.as_ndarray() for one in found], by_executor(tmp_path, {"image": an_image()}))


def _of_any_size() -> tuple[list[str], list[Any]]:
    image = fluid.data("image", [None, 3, 8, 8])
    kept = fluid.layers.conv2d(image, 2, 3, padding=1, act="relu")
    return ["image"], [fluid.layers.resize_nearest(kept, scale=2.0), fluid.layers.mean(kept, "m")]


@pytest.mark.parametrize("optimised", [True, False])
def test_only_executors_check_sizes(tmp_path: Path, optimised: bool) -> None:
    folder = save(tmp_path, _of_any_size)
    config = AnalysisConfig(str(folder))
    config.switch_ir_optim(optimised)
    predictor, executor = create_paddle_predictor(config), fluid.Executor()
    random = np.random.RandomState(0)
    with fluid.scope_guard(fluid.Scope()):
        program, _, fetches = fluid.io.load_inference_model(str(folder), executor)
        with pytest.raises(ValueError, match="dimensions = 4"):
            executor.run(program, {"image": np.ones((1, 3, 4, 6), "float32")}, fetches)
        program, _, fetches = fluid.io.load_inference_model(str(folder), executor)
        program.global_block().var("image").need_check_feed = False
        for sizes in ((2, 8, 8), (1, 4, 6), (2, 5, 9), (1, 4, 6)):
            image = random.rand(sizes[0], 3, *sizes[1:]).astype("float32")
            expected = executor.run(program, {"image": image}, fetches)
            close([one.as_ndarray() for one in predictor.run([PaddleTensor(image)])], expected)
            close(zero_copy(predictor, {"image": image}), expected)
    assert predictor.get_input_tensor_shape() == {"image": [-1, 3, 8, 8]}
