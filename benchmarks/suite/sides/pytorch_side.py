"""PyTorch as people who want speed use it: fused optimizers, channels-last, sparse embeddings."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

from benchmarks.suite.kernels import kernel_shares
from benchmarks.suite.networks.padding import padded
from benchmarks.suite.networks.torch_modules import take
from benchmarks.suite.networks.torch_networks import NETWORKS
from benchmarks.suite.sides.side import CLOCKS, Needs, Options, Weights
from benchmarks.suite.workloads import Optimizer, Workload
from refluid.measure.timing import Feed

# Tensors that an optimizer keeps of each weight.
STATES = {"sgd": 0, "momentum": 1, "adam": 2}
HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def optimizers(module: nn.Module, setting: Optimizer) -> list[torch.optim.Optimizer]:
    """One for the tables with sparse gradients, and a fused one for everything else."""
    tables = [p.weight for p in module.modules() if isinstance(p, nn.Embedding) and p.sparse]
    known = {id(table) for table in tables}
    dense = [p for p in module.parameters() if p.requires_grad and id(p) not in known]
    found: list[torch.optim.Optimizer] = []
    if setting.kind == "adam":
        if dense:
            found.append(torch.optim.Adam(dense, lr=setting.rate, fused=True))
        if tables:
            found.append(ahead(torch.optim.SparseAdam(tables, lr=setting.rate)))
        return found
    momentum = setting.momentum if setting.kind == "momentum" else 0.0
    if dense:
        found.append(torch.optim.SGD(dense, lr=setting.rate, momentum=momentum, fused=True))
    if tables:
        found.append(torch.optim.SGD(tables, lr=setting.rate))
    return found


def ahead(optimizer: torch.optim.SparseAdam) -> torch.optim.SparseAdam:
    """One step ahead in its correction of bias, for so is Fluid's Adam with sparse gradients."""
    for group in optimizer.param_groups:
        for table in group["params"]:
            moments = {"exp_avg": torch.zeros_like(table), "exp_avg_sq": torch.zeros_like(table)}
            optimizer.state[table] = {"step": 1, **moments}
    return optimizer


class TorchSide:
    """Variants: eager; channels_last (for images); compile (the better layout for the network)."""

    def __init__(self, work: Workload, options: Options, weights: Weights) -> None:
        if options.threads:
            torch.set_num_threads(options.threads)
        torch.backends.cudnn.allow_tf32 = False  # float32 is float32 on both sides
        self.device, self.clock = torch.device(options.device), CLOCKS[options.clock]
        module = NETWORKS[work.name]()
        take(module, weights)
        self.module = module.to(self.device)
        last = options.variant == "channels_last" or (
            options.variant == "compile" and work.wide_images
        )
        self.format = torch.channels_last if last else torch.contiguous_format
        self.module.to(memory_format=self.format)  # type: ignore[call-overload]
        self.clip, self.states = work.optimizer.clip, STATES[work.optimizer.kind]
        self.optimizers = optimizers(self.module, work.optimizer)
        self.half = HALVES.get(options.half)
        self.scaler = torch.amp.GradScaler(enabled=options.half == "float16")
        self.loss: Any = self.module
        if options.variant == "compile":
            self.loss = torch.compile(self.module)

    def weights(self) -> Weights:
        return {k: value.numpy(force=True) for k, value in self.module.state_dict().items()}

    def prepare(self, feed: Feed) -> dict[str, Any]:
        return dict(padded(feed))

    def step(self, prepared: dict[str, Any]) -> float:
        batch = {name: self._tensor(value) for name, value in prepared.items()}
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        with self._cast():
            loss: Tensor = self.loss(batch)
        torch.autograd.backward(self.scaler.scale(loss))
        if self.clip:
            nn.utils.clip_grad_norm_(self.module.parameters(), self.clip)
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
        self.scaler.update()
        return loss.item()

    def _cast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, self.half) if self.half else nullcontext()

    def _tensor(self, value: Any) -> Tensor:
        found = torch.from_numpy(value).to(self.device, non_blocking=True)
        if found.dim() == 4 and self.format is torch.channels_last:
            return found.contiguous(memory_format=self.format)
        return found

    def is_settled(self) -> bool:
        return True

    def needs(self, prepared: dict[str, Any]) -> Needs:
        """Counted on the plain module; without oneDNN, whose LSTM the counter doesn't know."""
        batch = {name: self._tensor(value) for name, value in prepared.items()}
        counter = FlopCounterMode(display=False, custom_mapping=COUNTED)
        with torch.backends.mkldnn.flags(enabled=False), counter:
            torch.autograd.backward(self.module(batch))
        held = sum(map(_touched, self.module.parameters()))
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        # A weight is read by the network, its gradient written and read; the update reads and
        # writes the weight and each state.
        moved = held * (3 + 2 * (1 + self.states)) + sum(one.nbytes for one in batch.values())
        return Needs(int(counter.get_total_flops()), moved, held * (1 + self.states))

    def shares(self, prepared: Any) -> dict[str, float]:
        return kernel_shares(lambda: self.step(prepared), self.device)

    def peak(self) -> int | None:
        return torch.cuda.max_memory_allocated() if self.device.type == "cuda" else None

    def versions(self) -> dict[str, str]:
        return {"torch": torch.__version__}


def _of_gradients(
    grad_shape: list[int],
    x_shape: list[int],
    w_shape: list[int],
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    _output_padding: Any,
    _groups: int,
    wanted: list[bool],
    **_: Any,
) -> int:
    """Operations of a convolution's gradients: as many for each as forward.

    Torch's own counter takes those of one with groups for those of one without.
    """
    forward: int = conv_flop_count(x_shape, w_shape, grad_shape, transposed)
    return forward * sum(wanted[:2])


COUNTED = {torch.ops.aten.convolution_backward: _of_gradients}


def _touched(param: Tensor) -> int:
    """Bytes of a weight that a step reads and writes: of a table, the rows in its gradient."""
    grad = param.grad
    if grad is None:
        return 0
    return grad.coalesce().values().nbytes if grad.is_sparse else param.nbytes


def make(work: Workload, options: Options, weights: Weights | None) -> TorchSide:
    assert weights is not None
    return TorchSide(work, options, weights)
