"""`fluid.io`: saving and loading in Fluid's own formats, and the reader decorators."""

from __future__ import annotations

from refluid.feed.datasets import get_worker_info
from refluid.feed.decorators import (
    ComposeNotAligned,
    batch,
    buffered,
    cache,
    chain,
    compose,
    firstn,
    map_readers,
    multiprocess_reader,
    shuffle,
    xmap_readers,
)
from refluid.fluid.dataloader import BatchSampler, Dataset, IterableDataset
from refluid.fluid.reader import DataLoader, PyReader, default_collate_fn
from refluid.fluid.saving.checkpoint import (
    get_parameter_value,
    get_parameter_value_by_name,
    get_program_parameter,
    get_program_persistable_vars,
    load,
    load_program_state,
    save,
    set_program_state,
)
from refluid.fluid.saving.inference_model import (
    append_fetch_ops,
    load_inference_model,
    prepend_feed_ops,
    save_inference_model,
)
from refluid.fluid.saving.persistence import (
    is_belong_to_optimizer,
    is_parameter,
    is_persistable,
    load_params,
    load_persistables,
    load_vars,
    save_params,
    save_persistables,
    save_vars,
)
from refluid.ir.block import Block
from refluid.ir.variable import Variable

__all__ = [
    "BatchSampler",
    "ComposeNotAligned",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "PyReader",
    "append_fetch_ops",
    "batch",
    "buffered",
    "cache",
    "chain",
    "compose",
    "default_collate_fn",
    "firstn",
    "get_parameter_value",
    "get_parameter_value_by_name",
    "get_program_parameter",
    "get_program_persistable_vars",
    "get_worker_info",
    "is_belong_to_optimizer",
    "is_parameter",
    "is_persistable",
    "load",
    "load_inference_model",
    "load_params",
    "load_persistables",
    "load_program_state",
    "load_vars",
    "map_readers",
    "multiprocess_reader",
    "prepend_feed_ops",
    "save",
    "save_inference_model",
    "save_params",
    "save_persistables",
    "save_vars",
    "set_program_state",
    "shuffle",
    "xmap_readers",
]


def _clone_var_in_block_(block: Block, var: Variable) -> Variable:
    """A variable of another block here, kept after the run."""
    return block._clone_variable(var)
