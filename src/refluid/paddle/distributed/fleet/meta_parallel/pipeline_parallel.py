"""`PipelineParallel`: stages of a model that train on parts of a batch, one forward one backward.

A stage runs as many parts forward as there are stages behind it, then one backward for each one
forward, so it keeps values of so many parts at most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from refluid import eager
from refluid.collective.layer_gradients import LARGEST, LAST, LayerGradients
from refluid.comm.world import attended
from refluid.core.errors import EnforceNotMet
from refluid.eager import VarBase
from refluid.fluid.clipping.gradients import GradientClipByGlobalNorm
from refluid.paddle.autograd.running import backward
from refluid.paddle.distributed.fleet.meta_parallel.passing import BACKWARD, FORWARD, hand, take
from refluid.paddle.distributed.fleet.meta_parallel.pipeline_layer import PipelineLayer
from refluid.paddle.distributed.fleet.meta_parallel.tensor_parallel import begin_whole
from refluid.paddle.distributed.topology import HybridCommunicateGroup
from refluid.paddle.nn.layer.layers import Layer

__all__ = ["PipelineParallel"]


class PipelineParallel(Layer):
    """A PipelineLayer that the workers of a pipe group train, each its stage.

    strategy: `pipeline_configs` has accumulate_steps, in how many parts a batch is cut, and
    micro_batch_size, rows of each. All stages are given the batch; the first reads its inputs and
    the last its labels. Parameters begin as those of the first worker that has them.
    """

    def __init__(self, layers: PipelineLayer, hcg: HybridCommunicateGroup, strategy: Any) -> None:
        if not isinstance(layers, PipelineLayer):
            raise TypeError("The Layer should be a derived class of PipelineLayer.")
        super().__init__()
        self._layers, self._hcg = layers, hcg
        config = strategy.pipeline_configs
        self.micro_batch_size = config["micro_batch_size"]
        self.accumulate_steps = config["accumulate_steps"]
        self.stage_id, self.num_stages = hcg.get_stage_id(), hcg.get_pipe_parallel_world_size()
        pipe = hcg.get_pipe_parallel_group()
        assert pipe.comm is not None
        self._pipe, self._ring = pipe.comm, pipe.id
        begin_whole(layers, hcg.get_model_parallel_group())
        self._gradients = self._with_others(strategy)
        self._scaler: Any = None

    def _with_others(self, strategy: Any) -> LayerGradients | None:
        """The gradients of this stage, in a data group."""
        group, params = self._hcg.get_data_parallel_group(), self._layers.parameters()
        if group.comm is None or group.nranks == 1:
            return None
        held = self._layers.state_dict()
        group.comm.broadcast([held[name].tensor.detach() for name in sorted(held)], 0)
        if not params:
            return None
        last = strategy.last_comm_group_size_MB or LAST
        largest = float(strategy.fuse_grad_size_in_MB or LARGEST)
        return LayerGradients(params, largest=largest, last=last, comm=attended(group.comm))

    def is_pipeline_first_stage(self, ignore_virtual: bool = False) -> bool:
        """Whether this worker has the first layers."""
        return self.stage_id == 0

    def is_pipeline_last_stage(self, ignore_virtual: bool = False) -> bool:
        """Whether this worker has the last layers."""
        return self.stage_id == self.num_stages - 1

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """EnforceNotMet where there are other stages: `train_batch` and `eval_batch` run all."""
        if self.num_stages > 1:
            raise EnforceNotMet("a stage runs along with others: train_batch(..), eval_batch(..)")
        return self._layers(*inputs, **kwargs)

    def state_dict(self, *given: Any, **kwargs: Any) -> dict[str, Any]:
        """Of this stage's layers."""
        found: dict[str, Any] = self._layers.state_dict(*given, **kwargs)
        return found

    def set_state_dict(
        self, state_dict: Mapping[str, Any], use_structured_name: bool = True
    ) -> tuple[list[str], list[str]]:
        """Sets this stage's layers."""
        found: tuple[list[str], list[str]]
        found = self._layers.set_state_dict(state_dict, use_structured_name)
        return found

    # -- a batch ----------------------------------------------------------------------------------

    def train_batch(
        self, data: Any, optimizer: Any, lr_scheduler: Any = None, scaler: Any = None
    ) -> Any:
        """One update by a batch, (inputs, labels), each a variable or a tuple of some.

        Gives the mean loss of the batch's parts, at all stages. scaler: a GradScaler.
        """
        self.train()
        self._layers.train()
        if self._layers._loss_fn is None:
            raise EnforceNotMet("a PipelineLayer that is trained needs loss_fn")
        self._scaler = scaler
        loss = self.forward_backward_pipeline(data, scaler)
        self._update(optimizer, scaler)
        if lr_scheduler is not None:
            lr_scheduler.step()
        return loss

    def forward_backward_pipeline(self, data: Any, scaler: Any = None) -> Any:
        """Gradients of the mean loss of a batch, and that loss."""
        self._scaler = scaler
        parts, losses = self._parts(data), list[Tensor]()
        under_way: deque[tuple[list[VarBase], Any]] = deque()
        ahead = min(self.num_stages - 1 - self.stage_id, self.accumulate_steps)
        for number in range(self.accumulate_steps):
            under_way.append(self._forward(next(parts), losses))
            if number >= ahead:
                self._backward(*under_way.popleft())
        while under_way:
            self._backward(*under_way.popleft())
        self._layers.allreduce_shared_weight_gradients()
        if self._gradients is not None:
            self._gradients.look()
            self._gradients.exchange(self._hcg.get_data_parallel_world_size())
        return self._told(losses)

    def eval_batch(self, data: Any, compute_loss: bool = False) -> Any:
        """The mean loss of a batch at all stages, or its outputs at the last and None at others."""
        self.eval()
        self._layers.eval()
        losses, outputs = list[Tensor](), list[Any]()
        with torch.no_grad():
            for part in self._parts(data):
                _, made = self._forward(part, losses, scores=compute_loss)
                outputs.append(made)
        if compute_loss:
            return self._told(losses)
        return _joined(outputs) if self.is_pipeline_last_stage() else None

    # -- a part of it -----------------------------------------------------------------------------

    def _forward(
        self, part: tuple[Any, Any], losses: list[Tensor], scores: bool = True
    ) -> tuple[list[VarBase], Any]:
        """This stage's inputs and what it made of them; the last stage makes a loss."""
        given, labels = part
        inputs: list[VarBase] = []
        if not self.is_pipeline_first_stage():
            device = _device()
            taken = take(self._pipe, self.stage_id - 1, device, FORWARD)
            inputs = [_variable(value, trains) for value, trains in taken]
            given = inputs[0] if len(inputs) == 1 else tuple(inputs)
        made = self._layers(given)
        if not self.is_pipeline_last_stage():
            held = [(one.tensor.detach(), not one.stop_gradient) for one in _listed(made)]
            hand(self._pipe, self.stage_id + 1, held, FORWARD)
        elif scores:
            loss_of = self._layers._loss_fn
            assert loss_of is not None
            loss = loss_of(made, labels)
            losses.append(loss.tensor.detach().reshape(1))
            made = loss / self.accumulate_steps
        return inputs, made

    def _backward(self, inputs: list[VarBase], made: Any) -> None:
        if self.is_pipeline_last_stage():
            backward([made if self._scaler is None else self._scaler.scale(made)])
        else:
            slopes = [one for one, _ in take(self._pipe, self.stage_id + 1, _device(), BACKWARD)]
            trained = [one for one in _listed(made) if not one.stop_gradient]
            pairs = list(zip(trained, slopes, strict=True))
            if pairs:
                backward([one for one, _ in pairs], [VarBase(slope) for _, slope in pairs])
        if not self.is_pipeline_first_stage():
            held = [one for one in inputs if not one.stop_gradient]
            grads = [_or_zeros(one.tensor) for one in held]
            hand(self._pipe, self.stage_id - 1, [(one, False) for one in grads], BACKWARD)

    def _parts(self, data: Any) -> Iterator[tuple[Any, Any]]:
        inputs, labels = data if len(data) == 2 else (data, None)
        for number in range(self.accumulate_steps):
            yield self._part(inputs, number), self._part(labels, number)

    def _part(self, given: Any, number: int) -> Any:
        """Rows of that part of a batch."""
        if isinstance(given, list | tuple):
            return tuple(self._part(one, number) for one in given)
        if given is None:
            return None
        rows, steps = self.micro_batch_size, self.accumulate_steps
        if given.shape[0] != rows * steps:
            raise EnforceNotMet(
                f"a batch of {given.shape[0]} rows isn't accumulate_steps {steps} times "
                f"micro_batch_size {rows}"
            )
        return given[number * rows : (number + 1) * rows]

    def _told(self, losses: list[Tensor]) -> Any:
        """The mean of the last stage's losses."""
        mean = torch.stack(losses).mean(0) if losses else torch.zeros(1, device=_device())
        if self.num_stages > 1:
            head = torch.zeros(1, dtype=torch.int64)
            if losses:
                head.fill_(int(mean.dtype is torch.float64))
            self._pipe.broadcast([head], self.num_stages - 1)
            mean = mean.to(torch.float64 if int(head) else torch.float32)
            self._pipe.broadcast([mean], self.num_stages - 1)
        return VarBase(mean, stop_gradient=True)

    def _update(self, optimizer: Any, scaler: Any) -> None:
        inner = getattr(optimizer, "user_defined_optimizer", optimizer)
        if isinstance(inner._grad_clip, GradientClipByGlobalNorm) and self.num_stages > 1:
            if not self._layers.parameters():
                raise EnforceNotMet(
                    f"stage {self.stage_id} has no parameters, whose norm would be clipped: choose "
                    "other stages by seg_method"
                )
            inner._grad_clip.stages = self._ring
        if scaler is None:
            optimizer.step()
        else:
            scaler.unscale_(inner)
            found = torch.tensor([float(scaler._found_inf)])
            self._pipe.all_reduce([found])
            scaler._found_inf = bool(found.item())
            scaler.step(inner)
            scaler.update()
        optimizer.clear_grad()


def _device() -> torch.device:
    backend = eager.current()
    return backend.device if backend is not None else torch.device("cpu")


def _variable(value: Tensor, trains: bool) -> VarBase:
    return VarBase(value.requires_grad_(trains), stop_gradient=not trains)


def _listed(made: Any) -> list[VarBase]:
    return list(made) if isinstance(made, list | tuple) else [made]


def _or_zeros(value: Tensor) -> Tensor:
    return torch.zeros_like(value) if value.grad is None else value.grad


def _joined(outputs: list[Any]) -> Any:
    """Outputs of all parts as of one batch."""
    if isinstance(outputs[0], list | tuple):
        return tuple(_joined(list(some)) for some in zip(*outputs, strict=True))
    return VarBase(torch.cat([one.tensor for one in outputs]), stop_gradient=True)
