"""Small networks for the fusing passes: each ends in a batch of vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from refluid import fluid
from refluid.runtime.plan import Plan
from refluid.runtime.request import Request

layers = fluid.layers
Build = Callable[[Any], Any]
Values = dict[str, torch.Tensor]


class Network:
    """A training program: image (N, 3, 6, 6), label, mean loss, SGD. `Network.loss` is a name."""

    def __init__(self, build: Build, *, train: bool = True, act: str | None = "softmax") -> None:
        self.main, self.startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            image = fluid.data("image", [None, 3, 6, 6])
            label = fluid.data("label", [None, 1], "int64")
            self.built = build(image)
            vectors = layers.reshape(self.built, [-1, int(np.prod(self.built.shape[1:]))])
            weights = fluid.ParamAttr(name="last")
            guess = layers.fc(vectors, 5, act=act, param_attr=weights, bias_attr=False)
            if act == "softmax":
                cost = layers.cross_entropy(guess, label)
            else:
                cost = layers.softmax_with_cross_entropy(guess, label)
            loss = layers.mean(cost)
            self.guess, self.cost, self.loss = guess.name, cost.name, loss.name
            if train:
                fluid.optimizer.SGD(0.1).minimize(loss)
        scope = fluid.Scope()
        with fluid.scope_guard(scope):
            fluid.Executor(fluid.CPUPlace()).run(self.startup)
        self.start: Values = {}
        for var in self.main.list_vars():
            cell = scope.find_var(var.name)
            if var.persistable and cell is not None:
                self.start[var.name] = cell.value

    def batches(self, count: int = 5) -> list[list[torch.Tensor]]:
        """Random batches of 4, the same every time."""
        random = np.random.default_rng(5)
        return [
            [
                torch.from_numpy(random.standard_normal((4, 3, 6, 6), np.float32)),
                torch.from_numpy(random.integers(0, 5, (4, 1))),
            ]
            for _ in range(count)
        ]

    def run(self, program: fluid.Program) -> tuple[list[float], Values]:
        """Losses of five steps from the same start, and the variables afterwards."""
        scope = fluid.Scope()
        for name, value in self.start.items():
            scope.var(name).value = value.clone()
        block = program.global_block()
        plan = Plan(Request(block, ("image", "label"), (self.loss,), torch.device("cpu")))
        losses = [float(plan.run(scope, feeds)[0].value) for feeds in self.batches()]
        return losses, {name: scope.find_var(name).value for name in self.start}


def types(program: fluid.Program) -> list[str]:
    """Types of the operators of the global block, those of the updates left out."""
    return [op.type for op in program.global_block().ops if op.type != "sgd"]


def conv(image: Any, **options: Any) -> Any:
    return layers.conv2d(image, 3, 3, padding=1, **options)


def norm(image: Any, **options: Any) -> Any:
    return layers.batch_norm(conv(image, bias_attr=False), **options)


def depthwise(image: Any, **options: Any) -> Any:
    return conv(image, groups=3, use_cudnn=False, bias_attr=False, **options)


def attention(image: Any, drop: float | None = None, **options: Any) -> Any:
    """Of each channel to itself, with a mask that isn't trained; drop: a dropout's probability."""
    keys = layers.fc(image, 6, num_flatten_dims=3, bias_attr=False)
    options = {"transpose_y": True, "alpha": 0.3} | options
    scores = layers.matmul(layers.scale(image, 2.0), keys, **options)
    mask = layers.assign(np.array([[0, -1, 2, -1e9, 0, 1]], "float32"))
    mask.stop_gradient = True
    weights = layers.softmax(layers.elementwise_add(scores, mask))
    if drop is not None:
        weights = layers.dropout(weights, drop)
    return layers.matmul(weights, layers.fc(image, 6, num_flatten_dims=3, bias_attr=False))
