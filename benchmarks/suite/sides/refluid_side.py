"""refluid: the Fluid program through Executor.run, as any Fluid script trains it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import refluid
from benchmarks.suite.data import LENGTHS
from benchmarks.suite.kernels import kernel_shares
from benchmarks.suite.networks.fluid_networks import NETWORKS
from benchmarks.suite.products import Products, alone
from benchmarks.suite.sides.side import Needs, Options, Weights
from benchmarks.suite.workloads import Optimizer, Workload
from refluid import fluid
from refluid.measure.timing import Feed
from refluid.runtime.recorded.trial import undecided

UNSCALED = {"init_loss_scaling": 1.0, "use_dynamic_loss_scaling": False}


def optimizer(setting: Optimizer, **more: Any) -> Any:
    clip = fluid.clip.GradientClipByGlobalNorm(setting.clip) if setting.clip else None
    if setting.kind == "adam":
        return fluid.optimizer.Adam(setting.rate, lazy_mode=True, grad_clip=clip, **more)
    if setting.kind == "momentum":
        return fluid.optimizer.Momentum(setting.rate, setting.momentum, grad_clip=clip, **more)
    return fluid.optimizer.SGD(setting.rate, grad_clip=clip, **more)


def half(chosen: Any, kind: str) -> Any:
    """In mixed precision: float16 with loss scaling, bfloat16 without, as PyTorch has it."""
    scaling = {} if kind == "float16" else UNSCALED
    return fluid.contrib.mixed_precision.decorate(chosen, **scaling)


class RefluidSide:
    """The startup program has run when the constructor returns."""

    def __init__(self, work: Workload, options: Options) -> None:
        if options.threads:
            torch.set_num_threads(options.threads)
        self.main, startup = fluid.Program(), fluid.Program()
        self.main.random_seed = startup.random_seed = 1
        with fluid.program_guard(self.main, startup), fluid.unique_name.guard():
            self.loss = NETWORKS[work.name](fluid, _variables(work.first()))
            self.names = [p.name for p in self.main.list_vars() if p.persistable]
            chosen = optimizer(work.optimizer)
            if options.half:
                chosen = half(chosen, options.half)
            chosen.minimize(self.loss)
        self.device = options.device
        self.place = fluid.CUDAPlace(0) if options.device == "cuda" else fluid.CPUPlace()
        self.scope = fluid.Scope()
        self.exe = fluid.Executor(self.place)
        self.exe.run(startup, scope=self.scope)

    def weights(self) -> Weights:
        return {name: self._value(name) for name in self.names}

    def _value(self, name: str) -> npt.NDArray[np.generic]:
        return np.array(self.scope.find_var(name).get_tensor())

    def prepare(self, feed: Feed) -> Any:
        return {
            name: _sequences(value, feed[name + LENGTHS]) if name + LENGTHS in feed else value
            for name, value in feed.items()
            if not name.endswith(LENGTHS)
        }

    def step(self, prepared: Any) -> float:
        found = self.exe.run(self.main, feed=prepared, fetch_list=[self.loss], scope=self.scope)
        return float(found[0].item())

    def is_settled(self) -> bool:
        return not undecided()

    def needs(self, prepared: Any) -> Needs:
        """What its products take; the PyTorch side counts the rest, of the same network.

        Those of the recorded step: they don't show in one that is compiled.
        """
        if self.device != "cpu":
            return Needs()
        fluid.set_flags({"FLAGS_refluid_tier": "recorded"})
        for _ in range(2):
            self.step(prepared)
        with Products() as products:
            self.step(prepared)
        return Needs(alone=alone(products.found))

    def shares(self, prepared: Any) -> dict[str, float]:
        return kernel_shares(lambda: self.step(prepared), torch.device(self.device))

    def peak(self) -> int | None:
        return torch.cuda.max_memory_allocated() if self.device == "cuda" else None

    def versions(self) -> dict[str, str]:
        return {"refluid": refluid.__version__, "torch": torch.__version__}


def _variables(feed: Feed) -> dict[str, Any]:
    return {
        name: fluid.data(
            name, [None, *value.shape[1:]], value.dtype.name, int(name + LENGTHS in feed)
        )
        for name, value in feed.items()
        if not name.endswith(LENGTHS)
    }


def _sequences(value: npt.NDArray[np.generic], lengths: npt.NDArray[np.generic]) -> Any:
    return fluid.create_lod_tensor(value, [lengths.tolist()], fluid.CPUPlace())


def make(work: Workload, options: Options, weights: Weights | None) -> RefluidSide:
    side = RefluidSide(work, options)
    for name, value in (weights or {}).items():
        side.scope.find_var(name).get_tensor().set(value, side.place)
    return side
