"""`paddle.inference`: predictors of what static programs and dygraph layers saved."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import paddle
from refluid.core.errors import EnforceNotMet
from refluid.fluid import dygraph
from refluid.paddle import inference


class Net(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = paddle.nn.Linear(4, 5), paddle.nn.Linear(5, 3)

    def forward(self, x: Any) -> Any:
        return self.outer(paddle.nn.functional.relu(self.inner(x)))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Net]:
    """A layer's model, the prefix of its files."""
    prefix = str(tmp_path_factory.mktemp("model") / "net")
    with dygraph.guard():
        net = Net()
        net.eval()
        spec = paddle.static.InputSpec([None, 4], "float32", name="x")
        paddle.jit.save(net, prefix, input_spec=[spec])
    return prefix, net


def config_of(prefix: str) -> inference.Config:
    return inference.Config(f"{prefix}.pdmodel", f"{prefix}.pdiparams")


@pytest.mark.parametrize("seed", range(4))
def test_handles_and_tensors_give_the_layers_results(saved: tuple[str, Net], seed: int) -> None:
    prefix, net = saved
    source = random.Random(seed)
    predictor = inference.create_predictor(config_of(prefix))
    (given,), (made,) = predictor.get_input_names(), predictor.get_output_names()
    for _ in range(3):
        x = np.random.RandomState(seed).randn(source.randint(1, 7), 4).astype("float32")
        with dygraph.guard():
            wanted = net(paddle.to_tensor(x)).numpy()
            (found,) = predictor.run([paddle.to_tensor(x)])
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-7)
        handle = predictor.get_input_handle(given)
        handle.reshape(x.shape)
        handle.copy_from_cpu(x)
        assert predictor.run() is True
        output = predictor.get_output_handle(made)
        np.testing.assert_allclose(output.copy_to_cpu(), wanted, rtol=1e-5, atol=1e-7)
        assert output.shape() == list(wanted.shape)
        assert output.type() is inference.DataType.FLOAT32


def test_a_static_program(tmp_path: Path) -> None:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        flags = paddle.static.data("flags", [None, 2], "bool")
        small = paddle.static.data("small", [None, 2], "uint8")
        chosen = paddle.where(flags, small.astype("float64"), paddle.zeros([2, 2], "float64"))
    exe = paddle.static.Executor()
    exe.run(startup)
    prefix = str(tmp_path / "kept")
    paddle.static.save_inference_model(prefix, [flags, small], [chosen], exe, program=main)
    predictor = inference.create_predictor(config_of(prefix))
    predictor.get_input_handle("flags").copy_from_cpu(np.array([[True, False]] * 2))
    predictor.get_input_handle("small").copy_from_cpu(np.full([2, 2], 7, "uint8"))
    predictor.run()
    output = predictor.get_output_handle(predictor.get_output_names()[0])
    np.testing.assert_array_equal(output.copy_to_cpu(), [[7, 0], [7, 0]])
    assert output.type() is inference.DataType.FLOAT64
    with pytest.raises(EnforceNotMet, match="not complex64; convert it by `astype`"):
        predictor.get_input_handle("small").copy_from_cpu(np.zeros(2, "complex64"))
    with pytest.raises(TypeError, match="only support numpy ndarray"):
        predictor.get_input_handle("small").copy_from_cpu([1, 2])
    with pytest.raises(TypeError, match="only support Tensor and LoDTensor, not ndarray"):
        predictor.get_input_handle("small").share_external_data(np.zeros(2))
    with pytest.raises(EnforceNotMet, match="2 inputs"):
        predictor.run([])


def test_a_pool_for_threads(saved: tuple[str, Net]) -> None:
    pool = inference.PredictorPool(config_of(saved[0]), 3)
    name = pool.retrive(0).get_input_names()[0]

    def predict(number: int) -> Any:
        mine, found = pool.retrive(number), []
        for turn in range(20):
            mine.get_input_handle(name).copy_from_cpu(np.full([number + 1, 4], turn, "float32"))
            mine.run()
            found.append(mine.get_output_handle(mine.get_output_names()[0]).copy_to_cpu())
        return found

    with ThreadPoolExecutor(3) as threads:
        together = [*threads.map(predict, range(3))]
    for number, found in enumerate(together):
        for one, other in zip(found, predict(number), strict=True):
            np.testing.assert_array_equal(one, other)
    for bad in (-1, 3):
        with pytest.raises(EnforceNotMet, match=f"there are 3, none {bad}"):
            pool.retrive(bad)


def test_options(saved: tuple[str, Net], caplog: pytest.LogCaptureFixture) -> None:
    config = config_of(saved[0])
    config.enable_memory_optim()
    config.enable_mkldnn_bfloat16()
    config.enable_tensorrt_engine(precision_mode=inference.PrecisionType.Half)
    told = [one.getMessage() for one in caplog.records]
    assert any("enable_mkldnn_bfloat16 has no effect here" in one for one in told)
    assert not config.use_xpu() and not config.tensorrt_dla_enabled()
    config.enable_mkldnn()
    config.disable_mkldnn()
    assert not config.mkldnn_enabled()
    assert f"params_file      {saved[0]}.pdiparams\n" in config.summary()
    with pytest.raises(EnforceNotMet, match="there is no XPU here"):
        config.enable_xpu(1 << 20)
    with pytest.raises(TypeError, match=r"takes a paddle\.inference\.Config"):
        inference.create_predictor("net")  # type: ignore[arg-type]
    with pytest.raises(EnforceNotMet, match="missing"):
        inference.create_predictor(inference.Config("missing.pdmodel", "missing.pdiparams"))
    assert inference.get_num_bytes_of_data_type(inference.DataType.FLOAT16) == 2
    assert inference.get_trt_runtime_version() == (0, 0, 0)
