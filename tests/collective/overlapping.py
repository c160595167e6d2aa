"""A trainer that tells in which order its plan exchanges, computes and updates."""

from __future__ import annotations

import numpy as np

import refluid.fluid as fluid
from refluid.collective.job import job_of_environment

WIDTH = 1200  # a layer's weights are more than what updates wait for elsewhere


def plan_lines() -> list[str]:
    """Which exchanges are begun and waited for, and what else touches gradients, in the order."""
    job = job_of_environment()
    assert job is not None
    fluid.set_flags({"FLAGS_fuse_parameter_memory_size": 1.0})
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        hidden = fluid.data("x", [None, WIDTH], "float32")
        for _ in range(3):
            hidden = fluid.layers.fc(hidden, WIDTH, act="relu", bias_attr=False)
        loss = fluid.layers.reduce_mean(hidden)
        fluid.optimizer.SGD(0.1).minimize(loss)
    strategy = fluid.BuildStrategy()
    strategy.num_trainers, strategy.trainer_id = job.size, job.rank
    program = fluid.CompiledProgram(main).with_data_parallel(
        loss.name, strategy, places=[fluid.CPUPlace()]
    )
    executor = fluid.Executor()
    executor.run(startup)
    executor.run(program, feed={"x": np.ones((2, WIDTH), "float32")}, fetch_list=[loss])
    ready = program._replicated._prepared(("x",), (loss.name,))
    (plan,) = ready.step(frozenset()).plans
    lines = plan.text.splitlines()
    kinds = {"_started(": "begins", ".wait()": "waits", "mul_grad(": "computes", "sgd": "updates"}
    return [kind for line in lines for mark, kind in kinds.items() if mark in line]
