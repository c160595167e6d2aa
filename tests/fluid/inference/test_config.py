"""Each option of `AnalysisConfig` works, is said to have no effect, or is refused."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from refluid.core import notices
from refluid.core.errors import EnforceNotMet
from refluid.fluid import core
from refluid.fluid.core import AnalysisConfig, PaddleTensor, create_paddle_predictor
from tests.fluid.inference.saved import images, save
from tests.golden import GOLDEN, needs_golden

# Option -> how it is set, and what of the log says so; each is followed by a run.
SAID: dict[str, Callable[[AnalysisConfig], None]] = {
    "enable_memory_optim": lambda config: config.enable_memory_optim(),
    "set_mkldnn_cache_capacity": lambda config: config.set_mkldnn_cache_capacity(10),
    "enable_tensorrt_engine": lambda config: config.enable_tensorrt_engine(1 << 30, 1, 3),
    "set_trt_dynamic_shape_info": lambda config: config.set_trt_dynamic_shape_info({}),
    "enable_lite_engine": lambda config: config.enable_lite_engine(),
    "set_optim_cache_dir": lambda config: config.set_optim_cache_dir("cache"),
    "delete_pass": lambda config: config.delete_pass("embedding_eltwise_layernorm_fuse_pass"),
}


def run(config: AnalysisConfig) -> np.ndarray:
    image = np.ones((2, 3, 8, 8), "float32")
    return create_paddle_predictor(config).run([PaddleTensor(image)])[0].as_ndarray()


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AnalysisConfig:
    monkeypatch.setattr(notices, "_told", set())
    monkeypatch.chdir(tmp_path)
    return AnalysisConfig(str(save(tmp_path / "model", images)))


@pytest.mark.parametrize("option", SAID)
def test_what_has_no_effect_is_said_once(
    option: str, config: AnalysisConfig, caplog: pytest.LogCaptureFixture
) -> None:
    expected = run(config)
    SAID[option](config)
    SAID[option](config)
    said = [one.getMessage() for one in caplog.records if option in one.getMessage()]
    assert len(said) == 1
    np.testing.assert_array_equal(run(config), expected)


def test_half_precision_is_said_to_be_float32(
    config: AnalysisConfig, caplog: pytest.LogCaptureFixture
) -> None:
    config.enable_tensorrt_engine(precision_mode=AnalysisConfig.Precision.Half)
    assert "in float32 and not in Precision.Half" in caplog.text
    assert config.tensorrt_engine_enabled()


def test_int8_is_refused(config: AnalysisConfig) -> None:
    for ask in (config.enable_quantizer, lambda: config.quantizer_config().set_quant_data([])):
        with pytest.raises(EnforceNotMet, match="no int8"):
            ask()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused(config: AnalysisConfig) -> None:
    config.enable_use_gpu(100, 0)
    assert config.use_gpu() and config.memory_pool_init_size_mb() == 100
    with pytest.raises(EnforceNotMet, match="no CUDA device"):
        create_paddle_predictor(config)
    config.disable_gpu()
    run(config)


@pytest.mark.gpu
def test_a_gpu_computes_the_same(config: AnalysisConfig) -> None:
    expected = run(config)
    config.enable_use_gpu(100, 0)
    np.testing.assert_allclose(run(config), expected, rtol=1e-4, atol=1e-5)


def test_threads_are_those_of_each_operator(
    config: AnalysisConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    from refluid.runtime.plan import Plan

    seen = []
    real = Plan.run

    def watched(self: Plan, *given: Any) -> Any:
        seen.append(torch.get_num_threads())
        return real(self, *given)

    monkeypatch.setattr(Plan, "run", watched)
    before = torch.get_num_threads()
    config.set_cpu_math_library_num_threads(before + 1)
    run(config)
    assert seen == [before + 1] and torch.get_num_threads() == before


def test_onednn_for_some_operators_only(config: AnalysisConfig) -> None:
    config.enable_mkldnn()
    config.set_mkldnn_op({"conv2d"})
    predictor = create_paddle_predictor(config)
    assert predictor._strategy.mkldnn_enabled_op_types == {"conv2d"}
    run(config)


def test_passes_can_be_left_out_and_put_back(config: AnalysisConfig) -> None:
    def kinds() -> list[str]:
        program = create_paddle_predictor(config).program()
        return [op.type for op in program.global_block().ops]

    folded = kinds()
    config.delete_pass("conv_bn_fuse_pass")
    assert kinds().count("batch_norm") == folded.count("batch_norm") + 3
    config.pass_builder().append_pass("conv_bn_fuse_pass")
    assert kinds() == folded
    with pytest.raises(EnforceNotMet, match="no pass 'mine' here"):
        config.pass_builder().append_pass("mine")


def test_graphs_are_drawn(config: AnalysisConfig, tmp_path: Path) -> None:
    run(config)
    assert not list(tmp_path.glob("inference_*"))
    config.switch_ir_debug(True)
    run(config)
    assert {one.name for one in tmp_path.glob("inference_*")} >= {
        "inference_original_graph",
        "inference_fused_graph",
    }


def test_a_profile_is_printed_when_the_predictor_is_gone(
    config: AnalysisConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    config.enable_profile()
    run(config)
    assert "conv2d" in capsys.readouterr().out


def test_quiet_predictors_say_nothing(
    config: AnalysisConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "refluid")
    run(config)
    assert "3 batch normalisations" in caplog.text
    caplog.clear()
    config.disable_glog_info()
    run(config)
    assert not caplog.text


def test_copies_of_a_configuration_are_its_own(config: AnalysisConfig) -> None:
    other = AnalysisConfig(config)
    other.disable_glog_info()
    other.delete_pass("conv_bn_fuse_pass")
    assert not config.glog_info_disabled()
    assert "conv_bn_fuse_pass" in config.pass_builder().all_passes()


@needs_golden
def test_all_members_of_fluid_are_there() -> None:
    members = json.loads((GOLDEN / "class_members.json").read_text())
    wanted = ("Analysis", "Predictor", "PaddleTensor", "ZeroCopy", "PaddleBuf", "Native")
    classes = [
        name
        for name in members
        if name.startswith("fluid.core.") and any(one in name for one in wanted)
    ]
    assert len(classes) == 8
    for name in classes:
        found = getattr(core, name.rsplit(".", 1)[1])
        instance = found("") if found is AnalysisConfig else found
        if name.endswith("NativeConfig"):
            instance = found()
        lacking = [one for one in members[name] if not hasattr(instance, one)]
        instance = PaddleTensor() if lacking else instance
        assert not [one for one in lacking if not hasattr(instance, one)], name
