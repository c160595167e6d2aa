"""What each trainer of a test does that has other numbers of batches than the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import refluid.fluid as fluid
from refluid.collective.job import job_of_environment
from refluid.collective.uneven import Join
from tests.collective.compiled_cases import REDUCE
from tests.collective.networks import batches, built, parameters
from tests.collective.training import OPTIMIZERS, at_once

ROWS, EPOCHS = 4, 2
COUNTS = {2: (2, 4), 3: (4, 1, 3)}
KINDS = {
    "a loop": ("momentum", {}, False),
    "sparse": ("momentum", {}, True),
    "reduce": ("adam", REDUCE, False),
    "in threes": ("adam", {"nccl_comm_num": 2, "use_hierarchical_allreduce": True}, True),
    "collective": ("momentum", {}, False),
    "a loader": ("momentum", {}, False),
    "a reader of the program": ("momentum", {}, False),
    "batches": ("momentum", {}, False),
}


def data_of(rank: int, size: int) -> list[dict[str, Any]]:
    """The batches of one trainer, the same in each epoch."""
    whole = batches(max(COUNTS[size]), ROWS * size)
    count = COUNTS[size][rank]
    part = slice(rank * ROWS, (rank + 1) * ROWS)
    return [{name: value[part] for name, value in one.items()} for one in whole[:count]]


def together(size: int) -> list[dict[str, Any]]:
    """What all trainers that have data have, step by step of an epoch."""
    parts = [data_of(rank, size) for rank in range(size)]
    steps = []
    for step in range(max(COUNTS[size])):
        present = [one[step] for one in parts if step < len(one)]
        steps.append({name: np.concatenate([one[name] for one in present]) for name in present[0]})
    return steps


def alone(size: int, optimizer: str, sparse: bool = False) -> dict[str, Any]:
    """What one process learns of the same."""
    main, startup, loss = built(OPTIMIZERS[optimizer], sparse=sparse)
    executor = fluid.Executor()
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        for _ in range(EPOCHS):
            for one in together(size):
                executor.run(main, feed=one, fetch_list=[loss])
        return parameters(main)


def train_unevenly(kinds: list[str]) -> list[tuple[list[int], dict[str, Any]]]:
    """The steps of each epoch and what was learned, for each kind."""
    return [_train(kind) for kind in kinds]


def _train(kind: str) -> tuple[list[int], dict[str, Any]]:
    job = job_of_environment()
    assert job is not None
    optimizer, options, sparse = KINDS[kind]
    main, startup, loss = built(OPTIMIZERS[optimizer], seed=3 + job.rank, sparse=sparse)
    strategy = fluid.BuildStrategy()
    strategy.num_trainers, strategy.trainer_id = job.size, job.rank
    for name, value in options.items():
        setattr(strategy, name, value)
    program: Any = main
    data = data_of(job.rank, job.size)
    epoch = _looped
    with fluid.scope_guard(fluid.Scope()), fluid.program_guard(main, startup):
        if kind == "collective":
            _transpile(job, main, startup)
        if kind in WAYS:
            epoch = WAYS[kind](main, data)
        if kind != "collective":
            program = fluid.CompiledProgram(main).with_data_parallel(
                loss.name, strategy, places=[fluid.CPUPlace()]
            )
        executor = fluid.Executor()
        executor.run(startup)
        steps = []
        for _ in range(EPOCHS):
            counted = 0
            for _ in epoch(executor, program, data, loss):
                counted += 1
            steps.append(counted)
        return steps, parameters(main)


def _transpile(job: Any, main: Any, startup: Any) -> None:
    config = fluid.DistributeTranspilerConfig()
    config.mode, config.collective_mode = "collective", "grad_allreduce"
    fluid.DistributeTranspiler(config).transpile(
        job.rank,
        program=main,
        startup_program=startup,
        trainers=",".join(job.endpoints),
        current_endpoint=job.endpoints[job.rank],
    )


Epoch = Callable[[Any, Any, Any, Any], Iterator[None]]


def _looped(executor: Any, program: Any, data: Any, loss: Any) -> Iterator[None]:
    with Join():
        for one in data:
            executor.run(program, feed=one, fetch_list=[loss])
            yield


def _by_loader(main: Any, data: Any) -> Epoch:
    names = [main.global_block().var(name) for name in ("x", "y", "word")]
    loader = fluid.io.DataLoader.from_generator(names, capacity=2)
    loader.set_batch_generator(lambda: (tuple(one.values()) for one in data), fluid.CPUPlace())

    def epoch(executor: Any, program: Any, _data: Any, loss: Any) -> Iterator[None]:
        for one in loader():
            executor.run(program, feed=one, fetch_list=[loss])
            yield

    return epoch


def _by_reader(main: Any, data: Any) -> Epoch:
    names = [main.global_block().var(name) for name in ("x", "y", "word")]
    loader = fluid.io.DataLoader.from_generator(names, capacity=2, iterable=False)
    loader.set_batch_generator(lambda: (tuple(one.values()) for one in data))

    def epoch(executor: Any, program: Any, _data: Any, loss: Any) -> Iterator[None]:
        loader.start()
        try:
            while True:
                executor.run(program, fetch_list=[loss])
                yield
        except fluid.core.EOFException:
            loader.reset()

    return epoch


def _by_batches(_main: Any, data: Any) -> Epoch:
    from refluid import paddle

    paddle.install()
    import paddle as installed

    def samples() -> Iterator[Any]:
        for one in data:
            yield from zip(*one.values(), strict=True)

    batched = installed.batch(samples, ROWS)

    def epoch(executor: Any, program: Any, _data: Any, loss: Any) -> Iterator[None]:
        for rows in batched():
            columns = [np.stack(column) for column in zip(*rows, strict=True)]
            fed = dict(zip(("x", "y", "word"), columns, strict=True))
            executor.run(program, feed=fed, fetch_list=[loss])
            yield

    return epoch


WAYS: dict[str, Callable[[Any, Any], Epoch]] = {
    "a loader": _by_loader,
    "a reader of the program": _by_reader,
    "batches": _by_batches,
}


def _joined(data: list[Any]) -> Iterator[Any]:
    with Join():
        yield from data


def train_layers_unevenly() -> list[tuple[list[float], dict[str, Any]]]:
    """Dygraph's DataParallel: losses and what was learned, of dense and of sparse gradients."""
    job = job_of_environment()
    assert job is not None
    data = data_of(job.rank, job.size)
    return [
        at_once(sparse, (_joined(data) for _ in range(EPOCHS)), optimizer)
        for sparse, optimizer in ((False, "scheduled"), (True, "SGD"))
    ]


def statistics() -> list[Any]:
    """Batch norm's moving mean and the weights, of trainers with 1 and 3 batches."""
    job = job_of_environment()
    assert job is not None
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 3], "float32")
        hidden = fluid.layers.fc(x, 2, name="first")
        normal = fluid.layers.batch_norm(hidden, moving_mean_name="mean", momentum=0.5)
        loss = fluid.layers.reduce_mean(fluid.layers.fc(normal, 1, name="last"))
        fluid.optimizer.SGD(0.0).minimize(loss)
    strategy = fluid.BuildStrategy()
    strategy.num_trainers, strategy.trainer_id = job.size, job.rank
    program = fluid.CompiledProgram(main).with_data_parallel(
        loss.name, strategy, places=[fluid.CPUPlace()]
    )
    executor = fluid.Executor()
    executor.run(startup)
    found = []
    with Join():
        for _ in range(1 + 2 * job.rank):
            executor.run(program, feed={"x": np.ones((2, 3), "float32")})
        found.append(np.array(fluid.global_scope().find_var("mean").get_tensor()))
    found.append(np.array(fluid.global_scope().find_var("mean").get_tensor()))
    return found


def something_new() -> str:
    """What is said where a trainer that goes on runs what none has run before."""
    job = job_of_environment()
    assert job is not None
    main, startup, loss = built(OPTIMIZERS["momentum"])
    strategy = fluid.BuildStrategy()
    strategy.num_trainers, strategy.trainer_id = job.size, job.rank
    program = fluid.CompiledProgram(main).with_data_parallel(
        loss.name, strategy, places=[fluid.CPUPlace()]
    )
    executor = fluid.Executor()
    executor.run(startup)
    with Join():
        for step in range(1 + job.rank):
            if step:
                with fluid.program_guard(main):
                    fluid.layers.scale(loss, 2.0)
            executor.run(program, feed=data_of(job.rank, 2)[0], fetch_list=[loss])
    return "nothing"


def from_datasets(folder: str) -> tuple[dict[str, Any], list[int]]:
    """What a fleet learns by `train_from_dataset` of files of different lengths."""
    from refluid.fluid.incubate.fleet.base.role_maker import PaddleCloudRoleMaker
    from refluid.fluid.incubate.fleet.collective import fleet

    fleet.init(PaddleCloudRoleMaker(is_collective=True))
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        used = linear()
        fleet.distributed_optimizer(OPTIMIZERS["momentum"]()).minimize(used[-1])
        dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
        dataset.set_use_var(used[:-1])
        dataset.set_batch_size(ROWS)
        dataset.set_filelist([f"{folder}/part-{fleet.worker_index()}"])
    executor = fluid.Executor()
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        for _ in range(EPOCHS):
            executor.train_from_dataset(fleet.main_program, dataset)
        return parameters(main), [fleet.worker_index()]


def linear() -> list[Any]:
    """Two values for each row, and the loss."""
    x = fluid.data("x", [None, 3], "float32")
    y = fluid.data("y", [None, 1], "float32")
    out = fluid.layers.fc(
        x, 1, param_attr=fluid.ParamAttr(initializer=fluid.initializer.Constant(0.5))
    )
    return [x, y, fluid.layers.reduce_mean(fluid.layers.square_error_cost(out, y))]
