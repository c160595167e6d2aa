"""Networks of fully connected layers chosen at random, and what training them leaves."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from refluid import fluid

layers = fluid.layers


class Layered:
    """Programs, a loss, and the batches of `x` that they are trained on."""

    main: Any
    startup: Any
    loss: Any
    feeds: Sequence[Any]
    # Whether products, biases and activations become one operator.
    fuses = False

    def layer(self, source: random.Random, x: Any) -> Any:
        """A layer of any width, activation and rank."""
        given: dict[str, Any] = {"act": source.choice([None, "relu", "tanh", "sigmoid"])}
        if source.random() < 0.3:
            given["bias_attr"] = False
        if len(x.shape) == 3 and source.random() < 0.5:
            given["num_flatten_dims"] = 2
        return layers.fc(x, source.randint(1, 40), **given)

    def trained(self, *seen: str, whole: bool = False) -> dict[str, Any]:
        """All parameters and states after the steps, and the losses. whole: with gradients that no
        update computes."""
        scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        options = fluid.BuildStrategy()
        options.fuse_gemm_epilogue = self.fuses
        if whole:
            options.memory_optimize = False
        run, fetched = fluid.CompiledProgram(self.main, build_strategy=options), [self.loss, *seen]
        with fluid.scope_guard(scope):
            exe.run(self.startup)
            losses = [exe.run(run, feed={"x": x}, fetch_list=fetched)[0] for x in self.feeds]
            kept = [one.name for one in self.main.list_vars() if one.persistable]
            found = {name: np.array(scope.find_var(name).get_tensor()) for name in kept}
        return found | {"loss": np.array(losses)}
