"""`PipelineLayer`: a model as a list of layers, of which this worker has those of its stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from refluid.comm import Communicator
from refluid.core.errors import EnforceNotMet
from refluid.fluid.dygraph.layers import Layer as AnyLayer
from refluid.paddle.distributed.fleet.meta_parallel.descriptions import LayerDesc, SharedLayerDesc
from refluid.paddle.distributed.fleet.meta_parallel.segments import cuts
from refluid.paddle.distributed.fleet.recompute import recompute
from refluid.paddle.distributed.grid import CommunicateTopology
from refluid.paddle.distributed.topology import grid_of_now
from refluid.paddle.framework.states import load, save
from refluid.paddle.nn.layer.layers import Layer

__all__ = ["PipelineLayer"]


class PipelineLayer(Layer):
    """Layers after one another, cut in stages, one for each worker of a pipe group.

    layers: LayerDescs, layers and functions. num_stages: how many stages; topology's where None.
    loss_fn: of outputs and labels. seg_method: where to cut, `uniform` or `layer:Name`.
    recompute_interval: so many layers at a time run again in the backward pass, none if 0;
    recompute_ctx: changes nothing. NotImplementedError for several parts of a stage.
    """

    def __init__(
        self,
        layers: Iterable[Any],
        num_stages: int | None = None,
        topology: CommunicateTopology | None = None,
        loss_fn: Callable[..., Any] | None = None,
        seg_method: str = "uniform",
        recompute_interval: int = 0,
        recompute_ctx: Any = None,
        num_virtual_pipeline_stages: int | None = None,
    ) -> None:
        super().__init__()
        if (num_virtual_pipeline_stages or 1) != 1:
            raise NotImplementedError("a worker has one stage: num_virtual_pipeline_stages=1")
        self.grid = grid_of_now()
        self._stage = self.grid.get_stage_id()
        self._num_stages = self.grid.get_pipe_parallel_world_size()
        asked = num_stages or (topology.get_dim("pipe") if topology else self._num_stages)
        if asked != self._num_stages:
            raise EnforceNotMet(
                f"{asked} stages need pp_degree {asked} of hybrid_configs, which is "
                f"{self._num_stages}"
            )
        self._descriptions, self._loss_fn = list(layers), loss_fn
        self._interval = recompute_interval
        self.segment_parts = cuts(self._descriptions, self._num_stages, seg_method)
        begin, end = self.segment_parts[self._stage : self._stage + 2]
        self._shared: dict[str, Any] = {}
        self.run_function = [self._made(at) for at in range(begin, end)]
        self._share()

    # -- making -----------------------------------------------------------------------------------

    def _made(self, at: int) -> Any:
        """What runs for the layer of that number."""
        one = self._descriptions[at]
        if isinstance(one, SharedLayerDesc):
            if one.layer_name not in self._shared:
                self._shared[one.layer_name] = self.add_sublayer(str(at), one.build_layer())
            layer = self._shared[one.layer_name]
            return layer if one.forward_func is None else partial(one.forward_func, layer)
        if isinstance(one, LayerDesc):
            return self.add_sublayer(str(at), one.build_layer())
        if isinstance(one, AnyLayer):
            return self.add_sublayer(str(at), one)
        if not callable(one):
            raise TypeError(f"layer {at} of a pipeline is {one!r}: no layer and no function")
        return one

    def _share(self) -> None:
        """Weights of one key begin alike; their gradients are summed over stages."""
        self._groups: list[tuple[Any, Communicator]] = []
        whole = self.grid.get_pipe_parallel_group().comm
        stages: dict[str, list[int]] = {}
        attrs: dict[str, str] = {}
        for at, one in enumerate(self._descriptions):
            if isinstance(one, SharedLayerDesc):
                stages.setdefault(one.layer_name, []).append(self.get_stage_from_index(at))
                attrs[one.layer_name] = one.shared_weight_attr
        for key, held in stages.items():
            if len(set(held)) == 1 or whole is None:
                continue
            comm = whole.split(0 if self._stage in held else None)
            if comm is not None:
                weight = getattr(self._shared[key], attrs[key])
                comm.broadcast([weight.tensor.detach()], 0)
                weight.counted_elsewhere = comm.rank > 0
                self._groups.append((weight, comm))

    # -- running ----------------------------------------------------------------------------------

    def forward(self, input: Any, chunk_id: int | None = None) -> Any:
        """What this stage makes of its input, a variable or a tuple of them."""
        return self.forward_function(0, len(self.run_function))(input)

    def forward_function(self, start: int, end: int) -> Callable[[Any], Any]:
        """This stage's layers from number `start` until `end`, as one function."""
        every = self._interval if self.training and self._interval else 0

        def run(given: Any) -> Any:
            if not every:
                return _chained(self.run_function[start:end], given)
            for at in range(start, end, every):
                some = self.run_function[at : min(at + every, end)]
                given = recompute(
                    lambda *values, some=some: _chained(some, _one(values)), *_several(given)
                )
            return given

        return run

    def allreduce_shared_weight_gradients(self) -> None:
        """Gradients of weights that stages have in common become the sum of theirs."""
        for weight, comm in self._groups:
            value = weight.tensor
            if value.grad is None:
                value.grad = torch.zeros_like(value)
            comm.all_reduce([value.grad])

    # -- what there is ----------------------------------------------------------------------------

    def get_stage_from_index(self, layer_idx: int) -> int:
        """The stage that has the layer of that number."""
        ends = self.segment_parts[1:]
        found = next((stage for stage, end in enumerate(ends) if 0 <= layer_idx < end), None)
        if found is None:
            raise IndexError(f"there are {ends[-1]} layers, none with number {layer_idx}")
        return found

    def get_num_virtual_stages(self) -> int:
        """1: a worker has one stage."""
        return 1

    def get_model_chunks(self) -> None:
        """None: a worker has one stage."""

    # -- files ------------------------------------------------------------------------------------

    def save_state_dict(self, path: str) -> None:
        """Writes a file for each layer of this stage, and for each worker's part of split ones."""
        if self.grid.get_data_parallel_rank() == 0:
            for name, layer in self._sub_layers.items():
                save(layer.state_dict(), str(self._file(path, name)))

    def set_state_dir(self, path: str) -> None:
        """Reads what `save_state_dict` wrote. EnforceNotMet for a layer that isn't there."""
        for name, layer in self._sub_layers.items():
            file = self._file(path, name)
            if not file.is_file():
                raise EnforceNotMet(
                    f"{file} isn't there: each worker reads the layers of its stage, and its part "
                    "of split ones, as workers of the same degrees have saved them"
                )
            layer.set_state_dict(load(str(file)))

    def _file(self, path: str, name: str) -> Path:
        part, parts = (
            self.grid.get_model_parallel_rank(),
            self.grid.get_model_parallel_world_size(),
        )
        own = f"-part-{part}-of-{parts}" if parts > 1 else ""
        return Path(path) / f"layer_{name}{own}.pdparams"


def _chained(functions: Sequence[Callable[..., Any]], given: Any) -> Any:
    for one in functions:
        given = one(given)
    return given


def _several(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def _one(values: tuple[Any, ...]) -> Any:
    return values if len(values) > 1 else values[0]
