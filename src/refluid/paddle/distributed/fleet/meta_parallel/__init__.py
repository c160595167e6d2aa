"""`fleet.meta_parallel`: layers of dygraph that are split among workers, or cut in stages."""

from refluid.paddle.distributed.fleet.meta_parallel.descriptions import LayerDesc, SharedLayerDesc
from refluid.paddle.distributed.fleet.meta_parallel.generators import (
    RNGStatesTracker,
    get_rng_state_tracker,
    model_parallel_random_seed,
)
from refluid.paddle.distributed.fleet.meta_parallel.pipeline_layer import PipelineLayer
from refluid.paddle.distributed.fleet.meta_parallel.pipeline_parallel import PipelineParallel
from refluid.paddle.distributed.fleet.meta_parallel.split_layers import (
    ColumnParallelLinear,
    ParallelCrossEntropy,
    RowParallelLinear,
    VocabParallelEmbedding,
)
from refluid.paddle.distributed.fleet.meta_parallel.tensor_parallel import TensorParallel

__all__ = [
    "ColumnParallelLinear",
    "LayerDesc",
    "ParallelCrossEntropy",
    "PipelineLayer",
    "PipelineParallel",
    "RNGStatesTracker",
    "RowParallelLinear",
    "SharedLayerDesc",
    "TensorParallel",
    "VocabParallelEmbedding",
    "get_rng_state_tracker",
    "model_parallel_random_seed",
]
