"""Layers of which each member of a model group has a part of the weight."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.distributed import parts
from refluid.paddle.distributed.fleet.meta_parallel.generators import (
    MODEL_PARALLEL_RNG,
    get_rng_state_tracker,
)
from refluid.paddle.distributed.groups import Group
from refluid.paddle.distributed.topology import grid_of_now
from refluid.paddle.nn.layer.layers import Layer

__all__ = [
    "ColumnParallelLinear",
    "ParallelCrossEntropy",
    "RowParallelLinear",
    "VocabParallelEmbedding",
]


class _SplitLayer(Layer):
    """mp_group: the members; those of `hybrid_configs` where None."""

    def __init__(self, mp_group: Group | None) -> None:
        super().__init__()
        grid = None if mp_group is not None else grid_of_now()
        group = mp_group if grid is None else grid.get_model_parallel_group()
        assert group is not None
        self.model_parallel_group = group
        self.world_size, self.is_mp = group.nranks, group.nranks > 1

    def _part(self, shape: Sequence[int], attr: Any = None, *, is_bias: bool = False) -> Any:
        """This worker's part of a parameter, drawn by itself where `rng_state` has a state."""
        tracker = get_rng_state_tracker()
        own = self.is_mp and MODEL_PARALLEL_RNG in tracker.states_ and not is_bias
        with tracker.rng_state() if own else nullcontext():
            made = self.create_parameter(list(shape), attr, is_bias=is_bias)
        if self.is_mp:
            made.is_distributed, made.split_in = True, self.model_parallel_group.id
        return made


class VocabParallelEmbedding(_SplitLayer):
    """Rows of a table by whole numbers (..): each worker has an equal part of the rows."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        weight_attr: Any = None,
        mp_group: Group | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(mp_group)
        self.num_embeddings = num_embeddings
        rows = parts.share("num_embeddings", num_embeddings, self.world_size)
        self.weight = self._part([rows, embedding_dim], weight_attr)

    def forward(self, x: Variable) -> Variable:
        """The rows, the same for all members."""
        return parts.embedding(x, self.weight, self.model_parallel_group, self.num_embeddings)


class ColumnParallelLinear(_SplitLayer):
    """x · weight + bias: each worker has an equal part of the columns.

    has_bias: False and None for none. gather_output: give all columns, else this worker's.
    fuse_matmul_bias: changes nothing here.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Any = None,
        has_bias: bool | None = None,
        gather_output: bool = True,
        fuse_matmul_bias: bool = False,
        mp_group: Group | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(mp_group)
        self.gather_output = gather_output
        self.output_size_per_partition = parts.share("out_features", out_features, self.world_size)
        columns = self.output_size_per_partition
        self.weight = self._part([in_features, columns], weight_attr)
        self.bias = self._part([columns], is_bias=True) if has_bias else None

    def forward(self, x: Variable) -> Variable:
        """(.., in_features), the same for all members, gives (.., columns)."""
        group = self.model_parallel_group
        return parts.linear_of_columns(x, self.weight, self.bias, group, self.gather_output)


class RowParallelLinear(_SplitLayer):
    """x · weight + bias: each worker has an equal part of the rows, and gets the whole result.

    input_is_parallel: x is this worker's part, else the same for all members. fuse_matmul_bias:
    changes nothing here.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Any = None,
        has_bias: bool = True,
        input_is_parallel: bool = False,
        fuse_matmul_bias: bool = False,
        mp_group: Group | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(mp_group)
        self.input_is_parallel = input_is_parallel
        self.input_size_per_partition = parts.share("in_features", in_features, self.world_size)
        self.weight = self._part([self.input_size_per_partition, out_features], weight_attr)
        self.bias = self.create_parameter([out_features], is_bias=True) if has_bias else None

    def forward(self, x: Variable) -> Variable:
        """(.., in_features) or this worker's part of it gives (.., out_features)."""
        group, is_part = self.model_parallel_group, self.input_is_parallel
        return parts.linear_of_rows(x, self.weight, self.bias, group, is_part=is_part)


class ParallelCrossEntropy(_SplitLayer):
    """Softmax and cross entropy of logits of which each worker has an equal part of the classes.

    ignore_index: labels whose loss is 0.
    """

    def __init__(
        self, mp_group: Group | None = None, name: str | None = None, ignore_index: int = -100
    ) -> None:
        super().__init__(mp_group)
        self.ignore_index = ignore_index

    def forward(self, input: Variable, label: Variable) -> Variable:
        """(.., part of the classes) and labels (.., 1) give the loss (.., 1)."""
        return parts.cross_entropy(input, label, self.model_parallel_group, self.ignore_index)
