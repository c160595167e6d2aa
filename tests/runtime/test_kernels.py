"""The choice between cuDNN, oneDNN and torch's own kernels, operator by operator."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core import flags
from refluid.kernels.products import limits
from refluid.runtime import kernels
from refluid.runtime.kernels import KernelSettings, settings_for

layers = fluid.layers
CPU, GPU = torch.device("cpu"), torch.device("cuda:0")
ONE_DNN = "aten::mkldnn_convolution"


class Net:
    """A convolution large enough for oneDNN to be worth it, a transposed one, and a product."""

    def __init__(self, place: Any = None, half: bool = False, **options: Any) -> None:
        self.main, startup = fluid.Program(), fluid.Program()
        startup.random_seed = 4
        with fluid.program_guard(self.main, startup), fluid.unique_name.guard():
            image = fluid.data("image", [None, 16, 24, 24])
            hidden = layers.conv2d(image, 16, 3, padding=1, act="relu", **options)
            hidden = layers.conv2d_transpose(hidden, 8, filter_size=3, **options)
            hidden = layers.cast(hidden, "float16") if half else hidden
            weights = layers.create_parameter([26, 8], "float16" if half else "float32")
            self.loss = layers.mean(layers.cast(layers.matmul(hidden, weights), "float32"))
            fluid.optimizer.SGD(0.1).minimize(self.loss)
        self.scope, self.executor = fluid.Scope(), fluid.Executor(place)
        self.executor.run(startup, scope=self.scope)
        random = np.random.RandomState(2)
        self.feed = {"image": random.randn(4, 16, 24, 24).astype("float32")}

    def step(self, program: Any = None) -> float:
        program = program or self.main
        found = self.executor.run(program, self.feed, [self.loss], scope=self.scope)
        return float(found[0][0])

    def used(self, program: Any = None) -> set[str]:
        """Names of the kernels and functions of torch that the second step calls."""
        self.step(program)
        with torch.profiler.profile(acc_events=True) as profile:
            self.step(program)
        return {event.name for event in profile.events()}

    def with_types(self, *types: str) -> fluid.CompiledProgram:
        build = fluid.BuildStrategy()
        build.mkldnn_enabled_op_types = set(types)
        return fluid.CompiledProgram(self.main, build_strategy=build)

    def op(self, kind: str) -> Any:
        return next(op for op in self.main.global_block().ops if op.type == kind)


# -- on the CPU ---------------------------------------------------------------------


def test_torch_chooses_where_nothing_is_asked_for() -> None:
    net = Net()
    for op in net.main.global_block().ops:
        assert settings_for(op, CPU, KernelSettings()) == ()


@pytest.mark.parametrize("types", [("conv2d",), ("conv2d_transpose",), ("matmul",)])
def test_only_the_named_operators_use_onednn(types: tuple[str, ...]) -> None:
    net = Net(half=True)
    asked = KernelSettings(onednn_types=frozenset(types))
    for kind in ("conv2d", "conv2d_transpose", "matmul"):
        expected = (("onednn", kind in types),)
        assert settings_for(net.op(kind), CPU, asked) == expected
        assert settings_for(net.op(f"{kind}_grad"), CPU, asked) == expected
    assert settings_for(net.op("relu"), CPU, asked) == ()


def test_products_of_float32_are_mkls_whatever_others_use() -> None:
    net = Net()
    asked = KernelSettings(onednn_types=frozenset({"conv2d"}))
    for kind in ("matmul", "matmul_grad"):
        assert settings_for(net.op(kind), CPU, asked) == ()
    alone, among = (kernels.KernelChoice(CPU, asked, alone=one) for one in (True, False))
    assert alone(net.op("conv2d"), len) is len  # oneDNN's kernels are in force anyhow
    assert among(net.op("conv2d"), len) is not len


def test_kernels_that_run_are_those_asked_for() -> None:
    assert ONE_DNN in Net().used()
    net = Net()
    found = net.used(net.with_types("matmul"))
    assert ONE_DNN not in found
    assert "aten::_slow_conv2d_forward" in found
    assert torch.backends.mkldnn.enabled
    with flags.override({"FLAGS_use_mkldnn": True}):
        found = net.used(net.with_types("conv2d"))
    assert ONE_DNN in found
    assert "aten::slow_conv_transpose2d" in found


def test_numbers_are_those_of_any_kernel() -> None:
    nets = [Net() for _ in range(3)]
    programs = [nets[0].main, nets[1].with_types("matmul"), nets[2].with_types("conv2d")]
    for _ in range(3):
        losses = [net.step(program) for net, program in zip(nets, programs, strict=True)]
        np.testing.assert_allclose(losses, losses[0], rtol=1e-5)


def test_a_flag_asks_for_all_and_an_attribute_for_one() -> None:
    net = Net()
    op = net.op("conv2d")
    with flags.override({"FLAGS_use_mkldnn": True}):
        assert settings_for(op, CPU, kernels.asked_for()) == (("onednn", True),)
        net.step()
    op.set_attr("use_mkldnn", True)
    assert settings_for(op, CPU, KernelSettings(onednn_types=frozenset({"mul"}))) == (
        ("onednn", True),
    )


def test_operators_may_be_left_to_torchs_kernels() -> None:
    net = Net()
    left = {"FLAGS_refluid_native_kernels": "conv2d, matmul"}
    with flags.override(left):
        found, asked = net.used(), kernels.asked_for()
        assert ONE_DNN not in found and "aten::_slow_conv2d_forward" in found
        assert settings_for(net.op("conv2d_grad"), CPU, asked) == (("onednn", False),)
        assert settings_for(net.op("conv2d_transpose"), CPU, asked) == (("onednn", True),)
        alone, among = (kernels.KernelChoice(CPU, asked, alone=one) for one in (True, False))
        assert alone(net.op("conv2d_transpose"), len) is len
        assert among(net.op("conv2d_transpose"), len) is not len  # others may be called meanwhile
    assert ONE_DNN in net.used()
    mine, torchs = Net(), Net()
    with flags.override(left):
        losses = [mine.step() for _ in range(6)]
    np.testing.assert_allclose(losses, [torchs.step() for _ in range(6)], rtol=1e-4)


@pytest.mark.parametrize("least", [0, 1 << 40])
def test_flags_say_from_which_size_products_are_onednns(least: int) -> None:
    net = Net()
    with flags.override({"FLAGS_refluid_onednn_from": least}):
        net.step()
        assert limits.told == least
    net.step()
    assert limits.told == -1


def test_the_log_names_operators_without_a_choice(caplog: pytest.LogCaptureFixture) -> None:
    net = Net()
    with caplog.at_level(logging.WARNING, "refluid"):
        net.step(net.with_types("conv2d", "softmax", "nonsense"))
    assert (
        "BuildStrategy.mkldnn_enabled_op_types: no choice of kernels for nonsense, softmax."
        in caplog.messages
    )


# -- for GPUs, looked at without one ------------------------------------------------


def test_use_cudnn_is_each_operators_own() -> None:
    plain, own = Net(), Net(use_cudnn=False)
    for kind in ("conv2d", "conv2d_transpose", "conv2d_grad", "conv2d_transpose_grad"):
        assert settings_for(plain.op(kind), GPU, KernelSettings()) == ()
        assert settings_for(own.op(kind), GPU, KernelSettings()) == (("cudnn", False),)
        asked = KernelSettings(search=True, deterministic=True)
        expected = (("search", True), ("deterministic", True))
        assert settings_for(plain.op(kind), GPU, asked) == expected
    assert settings_for(plain.op("relu"), GPU, KernelSettings(search=True)) == ()


def test_tensor_math_is_for_products() -> None:
    full, half = Net(), Net(half=True)
    on = KernelSettings(tensor_math=True)
    assert settings_for(full.op("matmul"), GPU, on) == (("products", "tf32"),)
    assert settings_for(full.op("matmul"), GPU, KernelSettings()) == ()
    for asked in (on, KernelSettings()):
        found = settings_for(half.op("matmul_grad"), GPU, asked)
        expected = ("sums of float16", "sums of bfloat16")
        assert found == tuple((name, asked.tensor_math) for name in expected)
    assert settings_for(full.op("conv2d"), GPU, on) == (("convolutions in TF32", True),)


def test_flags_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to: dict[str, str] = {}
    monkeypatch.setattr(flags, "export", set_to.__setitem__)
    assert kernels.asked_for() == KernelSettings()
    assert not set_to
    given = {
        "FLAGS_cudnn_exhaustive_search": True,
        "FLAGS_cudnn_deterministic": True,
        "FLAGS_enable_cublas_tensor_op_math": True,
        "FLAGS_conv_workspace_size_limit": 64,
    }
    with flags.override(given):
        expected = KernelSettings(search=True, deterministic=True, tensor_math=True)
        assert kernels.asked_for() == expected
    assert set_to == {"CUDNN_CONV_WSCAP_DBG": "64"}


# -- on a GPU -----------------------------------------------------------------------


@pytest.mark.gpu
def test_cudnn_runs_for_those_that_ask() -> None:
    place = fluid.CUDAPlace(0)
    assert "aten::cudnn_convolution" in Net(place).used()
    assert "aten::cudnn_convolution" not in Net(place, use_cudnn=False).used()


@pytest.mark.gpu
@pytest.mark.parametrize(
    "flag", ["cudnn_exhaustive_search", "cudnn_deterministic", "enable_cublas_tensor_op_math"]
)
def test_flags_of_a_gpu_keep_the_numbers(flag: str) -> None:
    plain = [Net(fluid.CUDAPlace(0)).step() for _ in range(2)]
    with flags.override({f"FLAGS_{flag}": True}):
        net = Net(fluid.CUDAPlace(0))
        found = [net.step() for _ in range(2)]
    np.testing.assert_allclose(found[0], plain[0], rtol=1e-2, atol=1e-3)


@pytest.mark.gpu
def test_deterministic_convolutions_repeat() -> None:
    with flags.override({"FLAGS_cudnn_deterministic": True}):
        results = []
        for _ in range(2):
            net = Net(fluid.CUDAPlace(0))
            results.append([net.step() for _ in range(5)])
    assert results[0] == results[1]


def test_what_torch_does_anyhow_is_called_plainly() -> None:
    net = Net()
    choice = kernels.KernelChoice(CPU, KernelSettings(onednn=True))
    assert choice(net.op("conv2d"), len) is len
    torch.backends.mkldnn.enabled = False
    try:
        assert choice(net.op("conv2d"), len) is not len
    finally:
        torch.backends.mkldnn.enabled = True
    some = kernels.KernelChoice(CPU, KernelSettings(onednn_types=frozenset({"conv2d"})))
    assert some(net.op("conv2d"), len) is not len
