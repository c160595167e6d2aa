"""The networks as Fluid programs. Parameters carry the names of their PyTorch counterparts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import refluid.fluid as fluid
from benchmarks.workloads import Feed, Workload

RESNET50_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))

BUFFERS = ("running_mean", "running_var")


def _fc(hidden: Any, name: str, size: int, act: str | None = None) -> Any:
    return fluid.layers.fc(
        input=hidden,
        size=size,
        act=act,
        param_attr=fluid.ParamAttr(name=f"{name}.weight"),
        bias_attr=fluid.ParamAttr(name=f"{name}.bias"),
    )


def mlp(image: Any, label: Any) -> Any:
    hidden = _fc(image, "fc1", 128, "relu")
    hidden = _fc(hidden, "fc2", 64, "relu")
    return _probability_loss(_fc(hidden, "fc3", 10, "softmax"), label)


def conv(image: Any, label: Any) -> Any:
    hidden = image
    for name, filters in (("conv1", 20), ("conv2", 50)):
        hidden = fluid.nets.simple_img_conv_pool(
            input=hidden,
            num_filters=filters,
            filter_size=5,
            pool_size=2,
            pool_stride=2,
            act="relu",
            param_attr=fluid.ParamAttr(name=f"{name}.weight"),
            bias_attr=fluid.ParamAttr(name=f"{name}.bias"),
        )
    return _probability_loss(_fc(hidden, "fc", 10, "softmax"), label)


def _probability_loss(probability: Any, label: Any) -> Any:
    return fluid.layers.mean(fluid.layers.cross_entropy(input=probability, label=label))


def _conv_norm(
    image: Any, name: str, filters: int, size: int, stride: int = 1, act: str | None = None
) -> Any:
    hidden = fluid.layers.conv2d(
        input=image,
        num_filters=filters,
        filter_size=size,
        stride=stride,
        padding=(size - 1) // 2,
        param_attr=fluid.ParamAttr(name=f"{name}.conv.weight"),
        bias_attr=False,
    )
    return fluid.layers.batch_norm(
        input=hidden,
        act=act,
        param_attr=fluid.ParamAttr(name=f"{name}.norm.weight"),
        bias_attr=fluid.ParamAttr(name=f"{name}.norm.bias"),
        moving_mean_name=f"{name}.norm.running_mean",
        moving_variance_name=f"{name}.norm.running_var",
    )


def _bottleneck(image: Any, name: str, filters: int, stride: int) -> Any:
    hidden = _conv_norm(image, f"{name}.reduce", filters, 1, act="relu")
    hidden = _conv_norm(hidden, f"{name}.spatial", filters, 3, stride, act="relu")
    hidden = _conv_norm(hidden, f"{name}.expand", filters * 4, 1)
    if stride != 1 or image.shape[1] != filters * 4:
        image = _conv_norm(image, f"{name}.short", filters * 4, 1, stride)
    return fluid.layers.elementwise_add(x=hidden, y=image, act="relu")


def resnet50(image: Any, label: Any) -> Any:
    hidden = _conv_norm(image, "stem", 64, 7, 2, act="relu")
    hidden = fluid.layers.pool2d(
        input=hidden, pool_size=3, pool_stride=2, pool_padding=1, pool_type="max"
    )
    block = 0
    for stage, (filters, count) in enumerate(RESNET50_STAGES):
        for index in range(count):
            stride = 2 if stage > 0 and index == 0 else 1
            hidden = _bottleneck(hidden, f"blocks.{block}", filters, stride)
            block += 1
    hidden = fluid.layers.pool2d(input=hidden, pool_type="avg", global_pooling=True)
    logits = _fc(hidden, "fc", 1000)
    return fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(logits=logits, label=label))


NETWORKS: Mapping[str, Callable[[Any, Any], Any]] = {
    "mlp": mlp,
    "conv": conv,
    "resnet50": resnet50,
}

OPTIMIZERS: Mapping[str, Callable[[Workload], Any]] = {
    "adam": lambda work: fluid.optimizer.Adam(learning_rate=work.learning_rate),
    "momentum": lambda work: fluid.optimizer.Momentum(
        learning_rate=work.learning_rate, momentum=work.momentum
    ),
}


class FluidStep:
    """Calling it with a feed trains one step and returns the loss.

    The startup program has run when the constructor returns: `weights` are the initial ones.
    """

    def __init__(self, work: Workload, device: str) -> None:
        self.main, startup = fluid.Program(), fluid.Program()
        self.main.random_seed = startup.random_seed = 1
        with fluid.program_guard(self.main, startup), fluid.unique_name.guard():
            image = fluid.data(name="image", shape=[None, *work.image], dtype="float32")
            label = fluid.data(name="label", shape=[None, 1], dtype="int64")
            self.loss = NETWORKS[work.name](image, label)
            parameters = [parameter.name for parameter in self.main.all_parameters()]
            OPTIMIZERS[work.optimizer](work).minimize(self.loss)
        self.scope = fluid.Scope()
        self.exe = fluid.Executor(fluid.CUDAPlace(0) if device == "cuda" else fluid.CPUPlace())
        self.exe.run(startup, scope=self.scope)
        self.weights = {name: self._value(name) for name in self._weight_names(parameters)}

    def __call__(self, feed: Feed) -> float:
        (loss,) = self.exe.run(self.main, feed=feed, fetch_list=[self.loss], scope=self.scope)
        return float(np.asarray(loss).item())

    def _weight_names(self, parameters: list[str]) -> list[str]:
        """Parameters and the running statistics of batch norm, which Fluid may or may not list."""
        norms = {name.removesuffix(".weight") for name in parameters if ".norm." in name}
        norms = {name for name in norms if name.endswith(".norm")}
        buffers = [f"{norm}.{buffer}" for norm in sorted(norms) for buffer in BUFFERS]
        return list(dict.fromkeys([*parameters, *buffers]))

    def _value(self, name: str) -> npt.NDArray[np.float32]:
        return np.array(self.scope.find_var(name).get_tensor(), dtype=np.float32)
