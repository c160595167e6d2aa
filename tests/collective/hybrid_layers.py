"""Dygraph's models of split layers and of stages, and the same whole, of random sizes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import refluid.fluid as fluid
from refluid.paddle import amp, nn, optimizer
from refluid.paddle.distributed import fleet, parts
from refluid.paddle.distributed.fleet.meta_parallel import (
    ColumnParallelLinear,
    LayerDesc,
    ParallelCrossEntropy,
    PipelineLayer,
    RowParallelLinear,
    SharedLayerDesc,
    VocabParallelEmbedding,
)
from refluid.paddle.nn.functional import cross_entropy
from tests.collective.refusals import said_to

STEPS, ROWS, WORDS = 20, 8, 3
AXES = {"table.weight": 0, "into.weight": 1, "into.bias": 0, "back.weight": 0}
CLIP = lambda: nn.ClipGradByGlobalNorm(0.2)  # noqa: E731
OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda params: optimizer.SGD(0.1, params),
    "momentum, clipped": lambda params: optimizer.Momentum(0.1, 0.9, params, grad_clip=CLIP()),
    "adam, clipped": lambda params: optimizer.Adam(0.01, parameters=params, grad_clip=CLIP()),
}
Trained = tuple[list[float], dict[str, Any], float]


class Table(nn.Layer):
    """Words, and logits by the same table."""

    def __init__(self, words: int, width: int, group: Any) -> None:
        super().__init__()
        self.group = group
        whole = group is None
        self.table = nn.Embedding(words, width) if whole else VocabParallelEmbedding(words, width)

    @property
    def weight(self) -> Any:
        """What stages have in common."""
        return self.table.weight

    def forward(self, ids: Any) -> Any:
        return self.table(ids)


def logits(layer: Table, x: Any) -> Any:
    """Of each word, or of this worker's part of the words."""
    if layer.group is not None:
        x = parts._shared(x, layer.group)
    return fluid.layers.matmul(x, layer.weight, transpose_y=True)


class Block(nn.Layer):
    """Two layers around which there is a way."""

    def __init__(self, width: int, inner: int, split: bool) -> None:
        super().__init__()
        self.into: Any = nn.Linear(width, inner)
        self.back: Any = nn.Linear(inner, width)
        if split:
            self.into = ColumnParallelLinear(width, inner, has_bias=True, gather_output=False)
            self.back = RowParallelLinear(inner, width, input_is_parallel=True)

    def forward(self, x: Any) -> Any:
        return x + self.back(nn.functional.tanh(self.into(x)))


class Sizes:
    """Descriptions of layers that follow from a seed, in how many parts they are split."""

    def __init__(self, seed: int, split: int) -> None:
        draws = random.Random(seed)
        self.seed, self.split = seed, split
        self.words, self.width, self.inner = (4 * draws.randint(1, 5) for _ in range(3))
        self.blocks = draws.randint(3, 5)
        self.group: Any = None
        if split > 1:
            self.group = fleet.get_hybrid_communicate_group().get_model_parallel_group()

    def layers(self) -> list[Any]:
        table = Table, self.words, self.width, self.group
        block = Block, self.width, self.inner, self.split > 1
        shared = SharedLayerDesc("table", table[0], None, "weight", *table[1:])
        again = SharedLayerDesc("table", table[0], logits, "weight", *table[1:])
        many = [LayerDesc(*block) for _ in range(self.blocks)]
        return [
            shared,
            *many,
            LayerDesc(nn.Linear, self.width, self.width),
            nn.functional.tanh,
            again,
        ]

    def loss(self, made: Any, label: Any) -> Any:
        if self.split > 1:
            return fluid.layers.reduce_mean(ParallelCrossEntropy()(made, label))
        return cross_entropy(made, label)

    def batches(self) -> list[tuple[Any, Any]]:
        draws = np.random.default_rng(5)
        shapes = (STEPS, ROWS, WORDS), (STEPS, ROWS, WORDS, 1)
        ids, labels = (draws.integers(0, self.words, shape) for shape in shapes)
        return list(zip(ids, labels, strict=True))


class Chain(nn.Layer):
    """All layers in one process, or each worker its part of all of them."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.table = Table(sizes.words, sizes.width, sizes.group)
        made = [Block(sizes.width, sizes.inner, sizes.split > 1) for _ in range(sizes.blocks)]
        self.blocks, self.last = nn.LayerList(made), nn.Linear(sizes.width, sizes.width)

    def forward(self, ids: Any) -> Any:
        x = self.table(ids)
        for one in self.blocks:
            x = one(x)
        return logits(self.table, nn.functional.tanh(self.last(x)))

    def numbered(self) -> list[tuple[int, Any]]:
        """The layers by their numbers among the descriptions."""
        held = [self.table, *self.blocks, self.last]
        return list(enumerate(held))


def begin(layers: list[tuple[int, Any]], sizes: Sizes, own: int, garbage: bool) -> None:
    """Gives parameters values that follow from the seed, garbage where others' take their place."""
    for number, layer in layers:
        for name, param in layer.state_dict().items():
            tail = name.removeprefix("table.") if name.startswith("table.table") else name
            axis, seed = AXES.get(tail), [sizes.seed, number % (sizes.blocks + 3), len(name)]
            shape = list(param.shape)
            if param.split_in:
                shape[axis] *= sizes.split
            value = np.random.default_rng(seed).standard_normal(shape).astype("float32") * 0.3
            if param.split_in:
                value = np.split(value, sizes.split, axis)[own]
            elif own:
                value = value + 7
            param.set_value(value + 7 if garbage else value)


def values(layers: list[tuple[int, Any]]) -> dict[str, Any]:
    """Parameters by their layer's number."""
    return {
        f"{number}.{name}": np.array(param.numpy())
        for number, layer in layers
        for name, param in layer.state_dict().items()
    }


def strategy_of(degrees: dict[str, int], steps: int) -> Any:
    """With pipelines of so many parts of a batch."""
    made = fleet.DistributedStrategy()
    made.hybrid_configs = degrees
    rows = ROWS // degrees.get("dp_degree", 1) // steps
    made.pipeline_configs = {"accumulate_steps": steps, "micro_batch_size": rows}
    return made


def train(
    seed: int, how: str, degrees: dict[str, int], steps: int = 1, **given: Any
) -> tuple[list[float], dict[str, Any], float]:
    """Losses, this worker's parameters, and the loss of the last batch once more.

    given: as of `PipelineLayer`; scaled: by a GradScaler.
    """
    scaler = amp.GradScaler(init_loss_scaling=64.0) if given.pop("scaled", False) else None
    with fluid.dygraph.guard(), fluid.unique_name.guard():
        strategy = strategy_of(degrees, steps)
        fleet.init(is_collective=True, strategy=strategy)
        grid = fleet.get_hybrid_communicate_group()
        sizes = Sizes(seed, grid.get_model_parallel_world_size())
        own, data = grid.get_model_parallel_rank(), grid.get_data_parallel_rank()
        count = grid.get_data_parallel_world_size()
        piped = grid.get_pipe_parallel_world_size() > 1
        if piped:
            net: Any = PipelineLayer(sizes.layers(), loss_fn=sizes.loss, **given)
            layers = [(int(name) % (sizes.blocks + 3), one) for name, one in net.named_children()]
        else:
            net = Chain(sizes)
            layers = net.numbered()
        begin(layers, sizes, own, data > 0)
        made = OPTIMIZERS[how](net.parameters())
        model, made = fleet.distributed_model(net), fleet.distributed_optimizer(made)
        losses = []
        for batch in sizes.batches():
            ids, label = (fluid.dygraph.to_variable(np.split(one, count)[data]) for one in batch)
            if piped:
                losses.append(float(model.train_batch([ids, label], made, None, scaler)))
                continue
            loss = sizes.loss(model(ids), label)
            loss.backward()
            losses.append(float(loss))
            made.step()
            made.clear_grad()
        learned = values(layers)
        if piped:
            again = float(model.eval_batch([ids, label], compute_loss=True))
            made = model.eval_batch([ids, label])
            assert (made is None) != (grid.is_last_stage())
        else:
            again = float(sizes.loss(model(ids), label))
        return losses, learned, again


def train_all(cases: list[tuple[Any, ...]]) -> list[Trained]:
    """By each of several cases: (seed, optimizer, degrees, parts of a batch, options)."""
    return [train(*one[:4], **(one[4] if len(one) > 4 else {})) for one in cases]


def keep(folder: str) -> list[str]:
    """Saved by stages and read again; then what can't be, as errors."""
    found: list[str] = []
    tried = said_to(found)
    with fluid.dygraph.guard(), fluid.unique_name.guard():
        strategy = strategy_of({"pp_degree": 2}, 2)
        fleet.init(is_collective=True, strategy=strategy)
        grid, sizes = fleet.get_hybrid_communicate_group(), Sizes(1, 1)
        net = PipelineLayer(sizes.layers(), loss_fn=sizes.loss)
        net.save_state_dict(folder)
        before = [one.numpy() for one in net.parameters()]
        for one in net.parameters():
            one.set_value(np.zeros(one.shape, "float32"))
        net.set_state_dir(folder)
        for old, one in zip(before, net.parameters(), strict=True):
            np.testing.assert_array_equal(one.numpy(), old)
        tried(lambda: net.set_state_dir(f"{folder}/none"))
        model = fleet.distributed_model(net)
        x = fluid.dygraph.to_variable(np.zeros((5, WORDS), "int64"))
        tried(lambda: model(x))
        made = optimizer.SGD(0.1, net.parameters())
        if grid.is_first_stage():
            tried(lambda: model.train_batch([x, x], made))
        else:
            found.append("")
        tried(lambda: PipelineLayer(sizes.layers(), num_stages=3))
        tried(lambda: PipelineLayer([nn.Linear(2, 2)]))
        tried(lambda: PipelineLayer(sizes.layers(), seg_method="layer:Linear"))
        tried(lambda: fleet.distributed_model(nn.Linear(2, 2)))
        tried(lambda: LayerDesc(nn.functional.relu))
    return found
