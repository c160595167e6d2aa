"""What each trainer of a test does."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from typing import Any

import numpy as np

import refluid.fluid as fluid
from refluid.collective.job import job_of_environment
from tests.collective.compiled_cases import CASES
from tests.collective.networks import batches, built, parameters, share

OPTIMIZERS = {
    "momentum": lambda: fluid.optimizer.Momentum(0.1, 0.9),
    "adam": lambda: fluid.optimizer.Adam(0.05),
}


def train(
    optimizer: str, options: dict[str, Any], places: int, sparse: bool
) -> tuple[list[float], dict[str, Any]]:
    """Losses of this trainer, and what it has learned."""
    job = job_of_environment()
    rank, size = (job.rank, job.size) if job else (0, 1)
    main, startup, loss = built(OPTIMIZERS[optimizer], seed=3 + rank, sparse=sparse)
    strategy = fluid.BuildStrategy()
    strategy.num_trainers, strategy.trainer_id = size, rank
    for name, value in options.items():
        setattr(strategy, name, value)
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        return _trained(executor, main, startup, loss, strategy, places, rank, size)


def _trained(
    executor: Any,
    main: Any,
    startup: Any,
    loss: Any,
    strategy: Any,
    places: int,
    rank: int,
    size: int,
) -> tuple[list[float], dict[str, Any]]:
    executor.run(startup)
    compiled = fluid.CompiledProgram(main).with_data_parallel(
        loss.name, build_strategy=strategy, places=[fluid.CPUPlace()] * places
    )
    losses = []
    for batch in batches():
        fed = share(batch, rank, size)
        (found,) = executor.run(compiled, feed=fed, fetch_list=[loss])
        losses.append(float(np.mean(found)))
    return losses, parameters(main)


def train_all(cases: list[str]) -> list[tuple[list[float], dict[str, Any]]]:
    """Those cases one after the other, in one job."""
    return [train(*CASES[one]) for one in cases]


def train_fetching_apart(reduces: bool) -> dict[str, Any]:
    """What is learned where trainer 0 alone fetches, now and then."""
    job = job_of_environment()
    assert job is not None
    main, startup, loss = built(OPTIMIZERS["momentum"])
    strategy = fluid.BuildStrategy()
    strategy.num_trainers, strategy.trainer_id = job.size, job.rank
    if reduces:
        strategy.reduce_strategy = fluid.BuildStrategy.ReduceStrategy.Reduce
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(startup)
    compiled = fluid.CompiledProgram(main).with_data_parallel(
        loss.name, build_strategy=strategy, places=[fluid.CPUPlace()]
    )
    for step, batch in enumerate(batches()):
        fetched = [loss] if not job.rank and step % 2 else []
        executor.run(compiled, feed=share(batch, job.rank, job.size), fetch_list=fetched)
    return parameters(main)


def train_by_fleet(kinds: list[str]) -> list[tuple[list[float], dict[str, Any]]]:
    """A fleet of all trainers, by each kind of strategy in turn."""
    from refluid.fluid.incubate.fleet.base.role_maker import PaddleCloudRoleMaker
    from refluid.fluid.incubate.fleet.collective import fleet

    fleet.init(PaddleCloudRoleMaker(is_collective=True))
    return [_by_fleet(fleet, kind) for kind in kinds]


def _by_fleet(fleet: Any, kind: str) -> tuple[list[float], dict[str, Any]]:
    rank, size = fleet.worker_index(), fleet.worker_num()
    strategy = fleet_strategy(kind)

    def optimizer() -> Any:
        return fleet.distributed_optimizer(OPTIMIZERS["momentum"](), strategy)

    main, startup, loss = built(optimizer, seed=3 + rank)
    executor = fluid.Executor(fluid.CPUPlace())
    losses = []
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        program = main if kind == "plain program" else fleet.main_program
        for batch in batches():
            (found,) = executor.run(program, feed=share(batch, rank, size), fetch_list=[loss])
            losses.append(float(np.mean(found)))
        if kind == "reduce":  # each has a share of the optimizer's state, and saves all of it
            with tempfile.TemporaryDirectory() as folder:
                fleet.save_persistables(executor, folder, main)
                fluid.io.load_persistables(executor, folder, main)
        return losses, parameters(main)


def fleet_strategy(kind: str) -> Any:
    """What a kind asks for."""
    from refluid.fluid.incubate.fleet.collective import DistributedStrategy

    strategy = DistributedStrategy()
    if kind in ("collective", "local sgd", "local sgd of 3"):
        strategy.mode = "collective"
    if kind == "reduce":
        strategy.reduce_strategy = fluid.BuildStrategy.ReduceStrategy.Reduce
    strategy.use_local_sgd = kind.startswith("local sgd")
    if kind == "local sgd of 3":
        strategy.local_sgd_steps, strategy.local_sgd_is_warm_steps = 3, 1
    return strategy


FLEETS = ["nccl2", "plain program", "reduce", "collective", "local sgd", "local sgd of 3"]


def train_transpiled(kinds: list[str]) -> list[Any]:
    """By DistributeTranspiler: nccl2 with ParallelExecutor or CompiledProgram, or collective."""
    job = job_of_environment()
    assert job is not None
    return [_transpiled(kind, job.rank, list(job.endpoints)) for kind in kinds]


def _transpiled(kind: str, rank: int, endpoints: list[str]) -> tuple[list[float], dict[str, Any]]:
    config = fluid.DistributeTranspilerConfig()
    config.mode = "collective" if kind == "collective" else "nccl2"
    config.collective_mode = "grad_allreduce"
    main, startup, loss = built(OPTIMIZERS["momentum"], seed=3 + rank)
    fluid.DistributeTranspiler(config).transpile(
        rank,
        program=main,
        startup_program=startup,
        trainers=",".join(endpoints),
        current_endpoint=endpoints[rank],
    )
    executor = fluid.Executor(fluid.CPUPlace())
    losses = []
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        run = executor.run
        program: Any = main
        if kind == "parallel executor":
            parallel = fluid.ParallelExecutor(
                False, loss.name, main, num_trainers=len(endpoints), trainer_id=rank
            )
            program, run = None, lambda _program, **given: parallel.run(**given)
        elif kind == "compiled":
            program = fluid.CompiledProgram(main).with_data_parallel(loss.name)
        for batch in batches():
            fed = share(batch, rank, len(endpoints))
            (found,) = run(program, feed=fed, fetch_list=[loss.name])
            losses.append(float(np.mean(found)))
        return losses, parameters(main)


def exchange() -> dict[str, list[Any]]:
    """What the layers of `fluid.layers.collective` give this trainer."""
    from refluid.collective.job import joined
    from refluid.fluid.layers import collective as layers

    job = job_of_environment()
    assert job is not None
    joined(job)
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [4, 3], "float32")
        outs = {f"reduced by {one}": layers._c_allreduce(x, reduce_type=one) for one in REDUCTIONS}
        outs["older"] = layers._allreduce(x, reduce_type="max")
        outs["gathered"] = layers._c_allgather(x, job.size)
        outs["shared"] = layers._c_reducescatter(x, job.size)
        outs["sent"] = layers._c_broadcast(fluid.layers.assign(x), 1)
        outs["sent too"] = layers._broadcast(fluid.layers.assign(x), 0)
        summed = layers._c_allreduce(layers._c_sync_calc_stream(fluid.layers.assign(x)))
        outs["synchronised"] = layers._c_sync_comm_stream(summed, 0)
    fed = {"x": exchanged(job.rank)}
    found = fluid.Executor().run(main, feed=fed, fetch_list=list(outs.values()))
    return dict(zip(outs, found, strict=True))


REDUCTIONS = ("sum", "prod", "max", "min")


def exchanged(rank: int) -> Any:
    """What a trainer brings."""
    return np.random.default_rng(rank).standard_normal((4, 3)).astype("float32")


def shuffle(folder: str) -> list[list[int]]:
    """The rows that this trainer has after a global shuffle of files that each reads alone."""
    from refluid.fluid.incubate.fleet.base.role_maker import PaddleCloudRoleMaker
    from refluid.fluid.incubate.fleet.collective import fleet

    fleet.init(PaddleCloudRoleMaker(is_collective=True))
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        ids = fluid.data("ids", [None, 1], "int64", lod_level=1)
        dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
        dataset.set_use_var([ids])
        dataset.set_batch_size(4)
        dataset.set_filelist([f"{folder}/part-{fleet.worker_index()}"])
        dataset.load_into_memory()
        dataset.global_shuffle(fleet)
        total = dataset.get_shuffle_data_size(fleet)
        fluid.Executor().run(fluid.default_startup_program())
        rows: list[int] = []
        loader = fluid.io.DataLoader.from_dataset(dataset, fluid.cpu_places(1), drop_last=False)
        for batch in loader():
            rows += np.array(batch[0]["ids"]).ravel().tolist()
    return [rows, [total]]


def train_at_once(sparse: list[bool]) -> list[tuple[list[float], dict[str, Any]]]:
    """Dygraph's DataParallel, with dense and with sparse gradients of a table."""
    job = job_of_environment()
    rank, size = (job.rank, job.size) if job else (0, 1)
    mine = [share(batch, rank, size) for batch in batches()]
    return [at_once(one, [mine]) for one in sparse]


def at_once(
    sparse: bool, epochs: Iterable[Any], optimizer: str = "SGD"
) -> tuple[list[float], dict[str, Any]]:
    """Losses, and what was learned. epochs: what gives the batches of each."""
    with fluid.dygraph.guard(), fluid.unique_name.guard():
        step, layer, _, _ = at_once_model(sparse, optimizer)
        losses = [step(batch) for epoch in epochs for batch in epoch]
        return losses, {k: v.numpy() for k, v in layer.state_dict().items()}


def at_once_model(sparse: bool = False, optimizer: str = "scheduled") -> tuple[Any, Any, Any, Any]:
    """A step by a batch that gives the loss; the layer, its optimizer, this trainer's batches."""
    dygraph = fluid.dygraph
    strategy = dygraph.prepare_context()
    fluid.default_startup_program().random_seed = 3 + strategy.local_rank
    layer = _Joined(dygraph.Embedding([30, 4], is_sparse=sparse), dygraph.Linear(10, 1))
    if strategy.local_rank == 0:
        layer.set_dict(_beginning())
    parallel = dygraph.DataParallel(layer, strategy)
    update = _AT_ONCE[optimizer](parallel.parameters())

    def step(batch: Any) -> float:
        fed = {k: dygraph.to_variable(v) for k, v in batch.items()}
        out = parallel(fed["x"], fed["word"])
        loss = fluid.layers.reduce_mean(fluid.layers.square_error_cost(out, fed["y"]))
        found = float(loss.numpy()[0])
        loss = parallel.scale_loss(loss)
        loss.backward()
        parallel.apply_collective_grads()
        update.minimize(loss)
        parallel.clear_gradients()
        return found

    mine = [share(batch, strategy.local_rank, strategy.nranks) for batch in batches()]
    return step, layer, update, mine


_AT_ONCE: dict[str, Any] = {
    "SGD": lambda held: fluid.optimizer.SGD(0.1, parameter_list=held),
    "scheduled": lambda held: fluid.optimizer.MomentumOptimizer(
        fluid.dygraph.NaturalExpDecay(0.1, 2, 0.3), 0.9, parameter_list=held
    ),
}


class _Joined(fluid.dygraph.Layer):
    """A table and a dense layer behind it."""

    def __init__(self, table: Any, dense: Any) -> None:
        super().__init__()
        self.table, self.dense = table, dense

    def forward(self, x: Any, word: Any) -> Any:
        known = fluid.layers.reshape(self.table(word), [-1, 4])
        return self.dense(fluid.layers.concat([x, known], 1))


def _beginning() -> dict[str, Any]:
    """The first trainer's parameters; the others begin with their own."""
    draws = np.random.default_rng(5)
    shapes = {"table.weight": (30, 4), "dense.weight": (10, 1), "dense.bias": (1,)}
    return {name: draws.standard_normal(one).astype("float32") for name, one in shapes.items()}
