"""Networks whose layers stand on several devices, and what the workers of a pipeline do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import refluid.fluid as fluid
from refluid.core.errors import EOFException
from refluid.paddle.distributed import fleet
from tests.collective.networks import parameters

STEPS, ROWS, WORDS = 20, 24, 30
Optimizer = Callable[[], Any]
DECAY = fluid.regularizer.L2Decay(0.01)
OPTIMIZERS: dict[str, Optimizer] = {
    "sgd": lambda: fluid.optimizer.SGD(0.05),
    "momentum": lambda: fluid.optimizer.Momentum(0.05, 0.9, regularization=DECAY),
    "adam": lambda: fluid.optimizer.Adam(fluid.layers.exponential_decay(0.02, 5, 0.9)),
    "clipped": lambda: fluid.optimizer.Momentum(
        0.05, 0.9, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.2)
    ),
}


def on(stage: int) -> Any:
    return fluid.device_guard(f"gpu:{stage}")


def chain(stages: int, *, tied: bool = False, skip: bool = False, sparse: bool = False) -> Any:
    """The loss of a network over `word`, `x` and `y` whose layers stand on so many devices.

    tied: the last layer multiplies by the embedding's own table. skip: what the first stage makes
    is added on the last one too.
    """
    with on(0):
        word = fluid.data("word", [None, 1], "int64")
        x, y = fluid.data("x", [None, 6], "float32"), fluid.data("y", [None, 1], "int64")
        table = fluid.ParamAttr(name="table")
        known = fluid.embedding(word, [WORDS, 8], is_sparse=sparse, param_attr=table)
        hidden = fluid.layers.fc([x, fluid.layers.reshape(known, [-1, 8])], 8, act="tanh")
        first = hidden
    for stage in range(1, stages):
        with on(stage):
            hidden = fluid.layers.fc(hidden, 8, act="relu")
    with on(stages - 1):
        if skip:
            hidden = fluid.layers.elementwise_add(hidden, first)
        if tied:
            weight = fluid.default_main_program().global_block().var("table")
            scores = fluid.layers.matmul(hidden, weight, transpose_y=True)
        else:
            scores = fluid.layers.fc(hidden, WORDS)
        each = fluid.layers.softmax_with_cross_entropy(scores, y)
        return fluid.layers.mean(each)


def fed(step: int) -> dict[str, Any]:
    """The batch of a step, of all workers together."""
    draws = np.random.default_rng(100 + step)
    return {
        "word": draws.integers(0, WORDS, (ROWS, 1)).astype("int64"),
        "x": draws.standard_normal((ROWS, 6)).astype("float32"),
        "y": draws.integers(0, WORDS, (ROWS, 1)).astype("int64"),
    }


def built(make: Callable[[], Any], minimize: Callable[[Any], None]) -> tuple[Any, Any, Any]:
    """(main program, startup program, loss)."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = make()
        minimize(loss)
    return main, startup, loss


def alone(optimizer: str, stages: int, **network: bool) -> tuple[list[float], dict[str, Any]]:
    """Losses and parameters of one process with the whole batches."""
    main, startup, loss = built(
        lambda: chain(stages, **network), lambda loss: OPTIMIZERS[optimizer]().minimize(loss)
    )
    scope, executor = fluid.Scope(), fluid.Executor()
    with fluid.scope_guard(scope):
        executor.run(startup)
        losses = [float(executor.run(main, fed(step), [loss])[0].item()) for step in range(STEPS)]
        return losses, parameters(main)


def strategy(**fields: Any) -> Any:
    made = fleet.DistributedStrategy()
    made.pipeline = True
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def trained(
    optimizer: str, stages: int, config: dict[str, Any], fields: dict[str, Any], network: Any
) -> tuple[list[Any], dict[str, Any]]:
    """What a worker of a pipeline fetches, and has in the end; of all stages while it is saved."""
    asked = strategy(pipeline_configs=config, **fields)
    fleet.init(is_collective=True, strategy=asked)
    main, startup, loss = built(
        lambda: chain(stages, **network),
        lambda loss: fleet.distributed_optimizer(OPTIMIZERS[optimizer]()).minimize(loss),
    )
    pipelines, pipeline = fleet.worker_num() // stages, fleet.worker_index() // stages
    executor, scope = fluid.Executor(), fluid.Scope()
    with fluid.scope_guard(scope):
        executor.run(startup)
        losses = []
        for step in range(STEPS):
            batch = {
                name: np.array_split(value, pipelines)[pipeline]
                for name, value in fed(step).items()
            }
            (found,) = executor.run(main, batch, [loss])
            losses.append(None if found is None else float(found.item()))
        own = parameters(main)
        with main._run_as._whole(scope):
            return losses, {"own": own, "all": parameters(main)}


def reading(rows: int) -> tuple[list[Any], bool]:
    """Losses of two passes over a reader's batches, three to a step; whether all passes ended."""
    fleet.init(is_collective=True)
    asked = strategy(pipeline_configs={"accumulate_steps": 3})

    def make() -> Any:
        with on(0):
            x, y = fluid.data("x", [None, 6], "float32"), fluid.data("y", [None, 1], "float32")
            loader = fluid.io.DataLoader.from_generator([x, y], capacity=4, iterable=False)
            hidden = fluid.layers.fc(x, 8, act="tanh")
        with on(1):
            out = fluid.layers.fc(hidden, 1)
            made.append(loader)
            return fluid.layers.reduce_mean(fluid.layers.square_error_cost(out, y))

    made: list[Any] = []
    optimizer = fluid.optimizer.SGD(0.1)
    main, startup, loss = built(
        make, lambda loss: fleet.distributed_optimizer(optimizer, asked).minimize(loss)
    )
    draws = np.random.default_rng(3)
    x, y = draws.standard_normal((rows, 6)), draws.standard_normal((rows, 1))
    (loader,) = made
    loader.set_sample_generator(
        lambda: zip(x.astype("float32"), y.astype("float32"), strict=True), batch_size=4
    )
    executor, losses, ended = fluid.Executor(), [], 0
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        for _ in range(2):
            loader.start()
            try:
                while True:
                    losses.append(executor.run(main, fetch_list=[loss])[0])
            except EOFException:
                ended += 1
                loader.reset()
    return losses, ended == 2


def saved(folder: str) -> Any:
    """Trains, saves what all stages have, and goes on from the files."""
    fleet.init(is_collective=True)
    asked = strategy(pipeline_configs={"accumulate_steps": 2})
    main, startup, loss = built(
        lambda: chain(2),
        lambda loss: fleet.distributed_optimizer(OPTIMIZERS["adam"](), asked).minimize(loss),
    )
    executor = fluid.Executor()
    executor.run(startup)
    executor.run(main, fed(0), [loss])
    fleet.save_persistables(executor, folder, main)
    before = [executor.run(main, fed(step), [loss])[0] for step in (1, 2)]
    fleet.barrier_worker()
    fluid.io.load_persistables(executor, folder, main)
    after = [executor.run(main, fed(step), [loss])[0] for step in (1, 2)]
    return before, after, sorted(one.name for one in Path(folder).iterdir())


def everything(cases: list[Any], rows: int, folder: str) -> dict[str, Any]:
    """What `trained` gives for each case, `reading`, and `saved`."""
    return {
        "trained": [trained(*case) for case in cases],
        "read": reading(rows),
        "saved": saved(folder),
    }
