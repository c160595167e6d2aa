"""refluid's dygraph: the same networks, run at once, or as declarative functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import refluid
from benchmarks.suite.kernels import kernel_shares
from benchmarks.suite.networks.dygraph_networks import NETWORKS
from benchmarks.suite.sides.refluid_side import optimizer
from benchmarks.suite.sides.side import Needs, Options, Weights
from benchmarks.suite.workloads import Workload
from refluid import fluid
from refluid.fluid import dygraph
from refluid.measure.timing import Feed
from refluid.runtime.recorded.trial import undecided


class DygraphSide:
    """A network that has the weights which are given."""

    def __init__(self, work: Workload, options: Options, weights: Weights) -> None:
        if options.threads:
            torch.set_num_threads(options.threads)
        cuda = options.device == "cuda"
        self.device = torch.device(options.device)
        fluid.enable_dygraph(fluid.CUDAPlace(0) if cuda else fluid.CPUPlace())
        self.network = NETWORKS[work.name]()
        self.loss = self.network
        if options.variant == "declarative":
            self.loss = dygraph.declarative(type(self.network).forward).__get__(self.network)
        self.parameters = {one.name: one for one in self.network.parameters()}
        if self.parameters.keys() != weights.keys():
            raise ValueError(f"other weights: {sorted(self.parameters.keys() ^ weights.keys())}")
        for name, value in weights.items():
            self.parameters[name].set_value(np.asarray(value))
        trained = [one for one in self.parameters.values() if one.trainable]
        self.optimizer = optimizer(work.optimizer, parameter_list=trained)

    def weights(self) -> Weights:
        return {name: one.numpy() for name, one in self.parameters.items()}

    def prepare(self, feed: Feed) -> dict[str, npt.NDArray[np.generic]]:
        return dict(feed)

    def step(self, prepared: dict[str, Any]) -> float:
        feed = {name: dygraph.to_variable(value) for name, value in prepared.items()}
        loss = self.loss(feed)
        loss.backward()
        self.optimizer.minimize(loss)
        self.network.clear_gradients()
        return float(loss.numpy().item())

    def is_settled(self) -> bool:
        return not undecided()

    def needs(self, prepared: Any) -> Needs:
        return Needs()

    def shares(self, prepared: Any) -> dict[str, float]:
        return kernel_shares(lambda: self.step(prepared), self.device)

    def peak(self) -> int | None:
        return torch.cuda.max_memory_allocated() if self.device.type == "cuda" else None

    def versions(self) -> dict[str, str]:
        return {"refluid": refluid.__version__, "torch": torch.__version__}


def make(work: Workload, options: Options, weights: Weights | None) -> DygraphSide:
    assert weights is not None
    return DygraphSide(work, options, weights)
