"""A classifier of which each trainer has some classes: parameters of its own, by its own name."""

from __future__ import annotations

from typing import Any

import numpy as np

import refluid.fluid as fluid
from refluid.collective.job import job_of_environment
from refluid.fluid.functions.comm import collective
from refluid.fluid.transpiler.collective import GradAllReduce, LocalSGD
from tests.collective.networks import batches, parameters, share

CLASSES, WIDTH, STEPS = 5, 4, 6  # three classes for one trainer, two for the other
_START = np.random.RandomState(3).uniform(-0.5, 0.5, (WIDTH, CLASSES)).astype("float32")


def built_part(rank: int, size: int) -> tuple[Any, Any, Any]:
    """The program of one trainer's classes; of all of them with one trainer."""
    main, startup = fluid.Program(), fluid.Program()
    part = np.array_split(np.arange(CLASSES), size)[rank]
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 6], "float32")
        word = fluid.data("word", [None, 1], "int64")
        constant = fluid.initializer.Constant(0.1)
        hidden = fluid.layers.fc(x, WIDTH, act="tanh", param_attr=fluid.ParamAttr("w", constant))
        label = fluid.layers.elementwise_mod(word, fluid.layers.fill_constant([1], "int64", 5))
        if size > 1:
            hidden = collective._c_allgather(hidden, size)
            label = collective._c_allgather(label, size)
        start = fluid.initializer.NumpyArrayInitializer(_START[:, part])
        own = fluid.layers.create_parameter(
            [WIDTH, len(part)], "float32", attr=fluid.ParamAttr(f"part{rank}", start)
        )
        own.is_distributed = size > 1
        wanted = fluid.one_hot(label - int(part[0]), len(part), allow_out_of_range=True)
        wanted = fluid.layers.reshape(wanted, [-1, len(part)])
        square = fluid.layers.square(fluid.layers.mul(hidden, own) - wanted)
        loss = fluid.layers.reduce_sum(square)
        # Two trainers divide the loss's gradient by two before they sum.
        aim = loss if size > 1 else fluid.layers.scale(loss, 0.5)
        fluid.optimizer.Momentum(0.02, 0.9).minimize(aim)
    return main, startup, loss


def _trained(main: Any, startup: Any, loss: Any, rank: int, size: int) -> Any:
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        losses = []
        for batch in batches(STEPS):
            fed = {name: share(batch, rank, size)[name] for name in ("x", "word")}
            (found,) = executor.run(main, feed=fed, fetch_list=[loss])
            losses.append(float(found.item()))
        return losses, parameters(main)


def train_parts(kind: str) -> Any:
    """Losses of this trainer's classes, and its parameters."""
    job = job_of_environment()
    assert job is not None
    rank, size = job.rank, len(job.endpoints)
    main, startup, loss = built_part(rank, size)
    made = GradAllReduce() if kind == "gradients" else LocalSGD()
    made.transpile(startup, main, rank, list(job.endpoints), None, False)
    return _trained(main, startup, loss, rank, size)


def train_whole() -> Any:
    """All classes in one process."""
    return _trained(*built_part(0, 1), 0, 1)
