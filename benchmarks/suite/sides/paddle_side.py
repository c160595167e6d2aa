"""PaddlePaddle 2 and 3: the same Fluid networks as static graphs, run by paddle.static.Executor."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle

from benchmarks.suite.networks.fluid_networks import NETWORKS
from benchmarks.suite.networks.lstm_weights import split_lstms
from benchmarks.suite.networks.padding import padded
from benchmarks.suite.networks.paddle_fluid import lstm_lod, make_fluid
from benchmarks.suite.sides.side import Needs, Options, Weights
from benchmarks.suite.workloads import Optimizer, Workload
from refluid.measure.timing import Feed

OWN = {"lstm_lod": lstm_lod}
LSTMS = {"lstm": ("lstm0", "lstm1"), "lstm_lod": ("lstm",), "seq2seq": ("encoder",)}
UNUSED = {
    "lstm_lod": ("mask", "turned", "lengths", "next", "words_rows"),
    "seq2seq": ("causal_bias",),
}


def optimizer(setting: Optimizer) -> Any:
    clip = paddle.nn.ClipGradByGlobalNorm(setting.clip) if setting.clip else None
    if setting.kind == "adam":
        return paddle.optimizer.Adam(setting.rate, lazy_mode=True, grad_clip=clip)
    if setting.kind == "momentum":
        return paddle.optimizer.Momentum(setting.rate, setting.momentum, grad_clip=clip)
    return paddle.optimizer.SGD(setting.rate, grad_clip=clip)


class PaddleSide:
    """All parameters are set to the given weights after the startup program has run."""

    def __init__(self, work: Workload, weights: Weights) -> None:
        if work.name == "tagger":
            raise NotImplementedError("paddle 2 and 3 have no linear_chain_crf")
        paddle.enable_static()
        self.name = work.name
        self.main, startup = paddle.static.Program(), paddle.static.Program()
        fluid = make_fluid()
        with paddle.static.program_guard(self.main, startup):
            feed = {
                name: paddle.static.data(name, list(value.shape), value.dtype.name)
                for name, value in self.prepare(work.first()).items()
            }
            network = OWN.get(work.name, NETWORKS[work.name])
            self.loss = network(fluid, feed)
            optimizer(work.optimizer).minimize(self.loss)
        self.exe = paddle.static.Executor(paddle.CPUPlace())
        self.exe.run(startup)
        self._set(split_lstms(weights, LSTMS.get(work.name, ())))

    def _set(self, weights: Weights) -> None:
        scope = paddle.static.global_scope()
        for name, value in weights.items():
            variable = scope.find_var(name)
            if variable is None:
                raise ValueError(f"paddle's network has no parameter {name}")
            tensor = variable.get_tensor()
            expected = np.array(tensor).shape
            tensor.set(np.ascontiguousarray(value).reshape(expected), paddle.CPUPlace())

    def weights(self) -> Weights:
        raise NotImplementedError("refluid's weights are the ones that all sides start from")

    def prepare(self, feed: Feed) -> Any:
        if self.name == "ctr":
            return feed
        unused = UNUSED.get(self.name, ())
        return {name: value for name, value in padded(feed).items() if name not in unused}

    def step(self, prepared: Any) -> float:
        (loss,) = self.exe.run(self.main, feed=prepared, fetch_list=[self.loss])
        return float(np.asarray(loss).item())

    def is_settled(self) -> bool:
        return True

    def needs(self, prepared: Any) -> Needs:
        return Needs()

    def shares(self, prepared: Any) -> dict[str, float]:
        return {}

    def peak(self) -> int | None:
        return None

    def versions(self) -> dict[str, str]:
        return {"paddle": paddle.__version__}


def make(work: Workload, options: Options, weights: Weights | None) -> PaddleSide:
    assert weights is not None
    return PaddleSide(work, weights)
