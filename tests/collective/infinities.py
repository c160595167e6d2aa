"""What each worker does where one of them has an infinite gradient, by mixed precision."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import refluid.fluid as fluid
from refluid.paddle.distributed import fleet
from tests.collective.fleets import CASES, MOMENTUM, strategy_of
from tests.collective.networks import batches, built, parameters, share

AMP = {
    "amp": True,
    "amp_configs": {
        "init_loss_scaling": 1024.0,
        "decr_every_n_nan_or_inf": 1,
        "decr_ratio": 0.5,
        "incr_every_n_steps": 100,
    },
}
STEPS, WHEN = 7, 3
# Workers update alone in these, and so each has a scale of its own.
APART: dict[str, tuple[Any, dict[str, Any]]] = {
    "local sgd of 1": CASES["local sgd of 1"],
    "local sgd of 2": (MOMENTUM, {"localsgd": True, "localsgd_configs": {"k_steps": 2}}),
    "adaptive": (MOMENTUM, {"adaptive_localsgd": True}),
}
KINDS = {name: case for name, case in CASES.items() if name not in APART}


class Course(NamedTuple):
    """The scale after each step, whether losses were finite, and the parameters at the end."""

    scales: list[float]
    finite: list[bool]
    learned: dict[str, Any]


def course(optimizer: Any, fields: dict[str, Any]) -> Course:
    """This worker's steps, of which one of worker 1 has an infinite loss."""
    rank, size = fleet.worker_index(), fleet.worker_num()

    def made() -> Any:
        return fleet.distributed_optimizer(optimizer(), strategy_of({**fields, **AMP}))

    main, startup, loss = built(made, seed=3)
    executor = fluid.Executor(fluid.CPUPlace())
    scale = next(one.name for one in main.list_vars() if one.name.startswith("loss_scaling"))
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        found, finite = [], []
        for number, batch in enumerate(batches(STEPS), 1):
            fed = share(batch, rank, size)
            if (rank, number) == (1, WHEN):
                fed["y"] = np.full_like(fed["y"], np.inf)
            (value,) = executor.run(main, feed=fed, fetch_list=[loss])
            cell = fluid.global_scope().find_var(scale)
            found.append(float(np.array(cell.get_tensor())[0]))
            finite.append(bool(np.isfinite(value).all()))
        learned, own = parameters(main), {one.name for one in main.all_parameters()}
        return Course(found, finite, {k: v for k, v in learned.items() if k in own})


def planted() -> dict[str, Course]:
    """By each strategy."""
    fleet.init(is_collective=True)
    return {name: course(*case) for name, case in {**KINDS, **APART}.items()}
