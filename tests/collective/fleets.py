"""What each worker of a test of `paddle.distributed.fleet` does."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np

import refluid.fluid as fluid
from refluid.paddle.distributed import fleet
from tests.collective.distributed_calls import exchange
from tests.collective.networks import batches, built, parameters, share

Trained = tuple[list[float], dict[str, Any], dict[str, Any]]
STEPS = 20
MOMENTUM = lambda: fluid.optimizer.Momentum(0.05, 0.9)  # noqa: E731
ADAM = lambda: fluid.optimizer.Adam(0.02)  # noqa: E731
DECAY = fluid.regularizer.L2Decay(0.01)
CLIPPED = lambda: fluid.optimizer.Momentum(  # noqa: E731
    0.05, 0.9, regularization=DECAY, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.5)
)
# name: the optimizer, fields of the strategy
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (MOMENTUM, {}),
    "small buckets": (MOMENTUM, {"fuse_grad_size_in_MB": 1, "_fuse_grad_size_in_TFLOPS": 2}),
    "hierarchical": (
        MOMENTUM,
        {
            "use_hierarchical_allreduce": True,
            "hierarchical_allreduce_inter_nranks": 2,
            "nccl_comm_num": 2,
        },
    ),
    "gradient merge": (
        ADAM,
        {"gradient_merge": True, "gradient_merge_configs": {"k_steps": 3, "avg": True}},
    ),
    "lars": (
        MOMENTUM,
        {"lars": True, "lars_configs": {"exclude_from_weight_decay": [".b_0"]}},
    ),
    "lamb": (
        ADAM,
        {"lamb": True, "lamb_configs": {"exclude_from_weight_decay": [".b_0"]}},
    ),
    "local sgd of 1": (MOMENTUM, {"localsgd": True}),
    "stage 1": (ADAM, {"sharding": True, "sharding_configs": {"stage": 1}}),
    "stage 2": (ADAM, {"sharding": True, "sharding_configs": {"stage": 2}}),
    "stage 3": (ADAM, {"sharding": True, "sharding_configs": {"segment_broadcast_MB": 0.0001}}),
    "stage 3 merged": (
        MOMENTUM,
        {"sharding": True, "sharding_configs": {"gradient_merge_acc_step": 2}},
    ),
    "16 bits": (MOMENTUM, {"fp16_allreduce": True}),
    "16 bits, stage 2": (
        MOMENTUM,
        {"fp16_allreduce": True, "sharding": True, "sharding_configs": {"stage": 2}},
    ),
    "stage 3, clipped": (CLIPPED, {"sharding": True}),
}


GROUPS = {"sharding_degree": 2, "dp_degree": 2}
# With four workers.
HYBRID = {
    f"stage {stage}, two groups": (
        ADAM,
        {"sharding": True, "sharding_configs": {**GROUPS, "stage": stage}},
    )
    for stage in (2, 3)
}


def train_in_groups() -> list[Trained]:
    """Four workers, of whom two and two own shares."""
    fleet.init(is_collective=True)
    return [train(*case) for case in HYBRID.values()]


def strategy_of(fields: dict[str, Any]) -> Any:
    """A strategy with these fields."""
    strategy = fleet.DistributedStrategy()
    for name, value in fields.items():
        setattr(strategy, name, value)
    return strategy


def train_all(cases: list[str]) -> list[Trained]:
    """Losses, variables, and what was saved, by each case, of this worker; alone without a job."""
    fleet.init(is_collective=True)
    return [train(*CASES[one]) for one in cases]


def train(optimizer: Any, fields: dict[str, Any]) -> Trained:
    """This worker's share of twenty steps; the losses of two batches, tested, are the last."""
    rank, size = fleet.worker_index(), fleet.worker_num()

    def made() -> Any:
        return fleet.distributed_optimizer(optimizer(), strategy_of(fields))

    main, startup, loss = built(made, seed=3 + rank)
    executor = fluid.Executor(fluid.CPUPlace())
    losses = []
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        for batch in batches(STEPS):
            (found,) = executor.run(main, feed=share(batch, rank, size), fetch_list=[loss])
            losses.append(float(np.mean(found)))
        # A program that isn't trained, which reads the parameters, wherever they are.
        test = main.clone(for_test=True)
        losses += [float(executor.run(test, feed=one, fetch_list=[loss])[0]) for one in batches(2)]
        with tempfile.TemporaryDirectory() as folder:
            fleet.save_persistables(executor, folder, main)
            own = parameters(main)
            with fluid.scope_guard(fluid.Scope()):
                fluid.io.load_persistables(executor, folder, main)
                return losses, own, parameters(main)


def everything(cases: list[str]) -> dict[str, Any]:
    """All that follows, in one job."""
    return {
        "cases": train_all(cases),
        "talk": talk(),
        "exchange": exchange(),
        "at once": train_at_once(),
        "compressed": compress(),
        "adaptive": adapt(),
    }


WIDE = 20_000


def compress() -> tuple[list[Any], list[int]]:
    """The wide parameter after each step of DGC, and the bytes that this worker sent meanwhile."""
    from refluid.comm.link import PeerLink

    rank = fleet.worker_index()
    fields = {"rampup_begin_step": 2, "rampup_step": 1, "sparsity": [0.99]}
    strategy = strategy_of({"dgc": True, "dgc_configs": fields})
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [-1, WIDE])
        wide = fluid.layers.create_parameter([WIDE], "float32", name="wide")
        loss = fluid.layers.reduce_sum(fluid.layers.elementwise_mul(x, wide))
        fleet.distributed_optimizer(MOMENTUM(), strategy).minimize(loss)
    executor, found, sent = fluid.Executor(), [], []
    sending = PeerLink.sending

    def counted(self: Any, tensor: Any, to: int, purpose: Any) -> Any:
        sent[-1] += tensor.nbytes
        return sending(self, tensor, to, purpose)

    PeerLink.sending = counted  # type: ignore[method-assign]
    with fluid.scope_guard(fluid.Scope()):
        sent.append(0)
        executor.run(startup)
        for grad in slopes(rank):
            sent.append(0)
            executor.run(main, feed={"x": grad[None]})
            found.append(np.array(fluid.global_scope().find_var("wide").get_tensor()))
    PeerLink.sending = sending  # type: ignore[method-assign]
    return found, sent[1:]


def slopes(rank: int) -> Any:
    """The gradients of the wide parameter at one worker."""
    return np.random.default_rng(rank).standard_normal((6, WIDE)).astype("float32")


def adapt() -> tuple[list[int], list[float]]:
    """After how many updates the next mean is due, and the loss, at each step."""
    rank, size = fleet.worker_index(), fleet.worker_num()
    config = {"init_k_steps": 4, "begin_step": 2}
    strategy = strategy_of({"adaptive_localsgd": True, "adaptive_localsgd_configs": config})
    main, startup, loss = built(lambda: fleet.distributed_optimizer(MOMENTUM(), strategy))
    executor, due, losses = fluid.Executor(), [], []
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        for batch in batches(STEPS):
            fed = share(batch, rank, size)
            names = [loss.name, "local_sgd_every"]
            value, every = executor.run(main, feed=fed, fetch_list=names)
            losses.append(float(value))
            due.append(int(every))
    return due, losses


def talk() -> dict[str, Any]:
    """What this worker learns of the others by `fleet` and `fleet.util`."""
    fleet.init(is_collective=True)
    rank = fleet.worker_index()
    fleet.barrier_worker()
    fleet.util.barrier()
    return {
        "first": fleet.is_first_worker(),
        "who": (rank, fleet.worker_num(), fleet.node_num(), fleet.is_worker(), fleet.is_server()),
        "ranks": (fleet.rank(), fleet.local_rank(), fleet.nranks(), fleet.world_size()),
        "endpoints": fleet.worker_endpoints(to_string=True),
        "sum": fleet.util.all_reduce([1 + rank, 2.5]).tolist(),
        "max": fleet.util.all_reduce(np.array([rank]), "max").tolist(),
        "gathered": fleet.util.all_gather(10 * rank),
        "files": fleet.util.get_file_shard(["a", "b", "c"]),
    }


def train_at_once() -> tuple[list[float], dict[str, Any]]:
    """Dygraph by `distributed_model` and `step`."""
    fleet.init(is_collective=True)
    rank, size = fleet.worker_index(), fleet.worker_num()
    dygraph = fluid.dygraph
    with dygraph.guard(), fluid.unique_name.guard():
        fluid.default_startup_program().random_seed = 3
        layer = dygraph.Linear(6, 1)
        model = fleet.distributed_model(layer)
        plain = fluid.optimizer.Momentum(0.05, 0.9, parameter_list=layer.parameters())
        optimizer = fleet.distributed_optimizer(plain)
        losses = []
        for batch in batches(STEPS):
            fed = {k: dygraph.to_variable(v) for k, v in share(batch, rank, size).items()}
            cost = fluid.layers.square_error_cost(model(fed["x"]), fed["y"])
            loss = fluid.layers.reduce_mean(cost)
            loss.backward()
            optimizer.minimize(loss)
            layer.clear_gradients()
            losses.append(float(loss.numpy()[0]))
        return losses, {k: v.numpy() for k, v in layer.state_dict().items()}
