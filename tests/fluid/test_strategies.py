"""Every option of both strategies has an effect, or says in the log that it has none here."""

from __future__ import annotations

import json
import logging
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.engine import conditions, replicated
from refluid.engine.replicated import Replicated
from refluid.engine.strategy import BUILD as BUILD_KNOBS
from refluid.engine.strategy import EXECUTION as EXECUTION_KNOBS
from refluid.engine.subgraphs import unconnected
from refluid.ir.attributes import ROLE, OpRole
from refluid.passes.data_parallel import Parallel, data_parallel
from refluid.runtime.either_order import EitherOrder
from refluid.runtime.plan import Plan
from refluid.runtime.steps import Function
from refluid.runtime.threaded import Schedule
from tests.fluid.mixed_networks import Training, batches, mlp, training
from tests.fluid.strategy_pairs import OTHER
from tests.golden import GOLDEN, needs_golden

# Options with an effect, and where it is tested.
BUILD = {
    "debug_graphviz_path": "test_pipeline",
    "build_cinn_pass": "test_recorded",
    "enable_auto_fusion": "test_fusions",
    "enable_backward_optimizer_op_deps": "here",
    "enable_inplace": "test_memory",
    "enable_sequential_execution": "here",
    "fuse_all_optimizer_ops": "test_pipeline",
    "fuse_all_reduce_ops": "test_data_parallel",
    "fuse_bn_act_ops": "test_fusions",
    "fuse_bn_add_act_ops": "test_fusions",
    "fuse_broadcast_ops": "here",
    "fuse_elewise_add_act_ops": "test_fusions",
    "fuse_gemm_epilogue": "test_fusions",
    "fuse_relu_depthwise_conv": "test_fusions",
    "gradient_scale_strategy": "test_data_parallel",
    "memory_optimize": "test_memory",
    "mkldnn_enabled_op_types": "test_kernels",
    "hierarchical_allreduce_inter_nranks": "comm/test_topology",
    "nccl_comm_num": "comm/test_topology",
    "use_hierarchical_allreduce": "comm/test_topology",
    "num_trainers": "collective/test_trainers",
    "trainer_id": "collective/test_trainers",
    "trainers_endpoints": "collective/test_fleet",
    "reduce_strategy": "test_data_parallel",
    "sync_batch_norm": "test_data_parallel",
}
EXECUTION = {
    "num_iteration_per_drop_scope": "test_memory",
    "num_iteration_per_run": "here",
    "num_threads": "test_threaded",
}
IGNORED = {name: knob for name, knob in (BUILD_KNOBS | EXECUTION_KNOBS).items() if knob.ignored}


def compiled(
    run: Training, places: int = 1, *, threads: int = 0, iterations: int = 1, **options: Any
) -> fluid.CompiledProgram:
    build, execution = fluid.BuildStrategy(), fluid.ExecutionStrategy()
    execution.num_threads, execution.num_iteration_per_run = threads, iterations
    for name, value in options.items():
        setattr(execution if name in execution._options() else build, name, value)
    return fluid.CompiledProgram(run.main).with_data_parallel(
        run.loss.name, build, execution, places=fluid.cpu_places(places)
    )


def momentum() -> Any:
    return fluid.optimizer.Momentum(0.1, 0.9)


def plans(program: fluid.CompiledProgram) -> list[Plan]:
    """The plans of the last run, by replica."""
    found = program._replicated
    assert isinstance(found, Replicated)
    *_, last = found.group.cache.values()
    *_, step = last.steps.values()
    return [one.several if isinstance(one, EitherOrder) else one for one in step.plans]


@needs_golden
def test_options_and_defaults_are_those_of_fluid() -> None:
    recorded = json.loads((GOLDEN / "api_surface.json").read_text())["defaults"]
    for name, made in (
        ("BuildStrategy", fluid.BuildStrategy()),
        ("ExecutionStrategy", fluid.ExecutionStrategy()),
    ):
        for option, value in recorded[name].items():
            found = getattr(made, option)
            assert value == (found if isinstance(value, bool | int | list) else value), option
            if isinstance(value, str) and "." in value:
                assert f"{type(found).__name__}.{found.name}" == value
            elif not isinstance(value, bool | int | list):
                assert str(found) == str(value), option


def test_every_option_is_accounted_for() -> None:
    assert set(BUILD) == set(BUILD_KNOBS) - set(IGNORED)
    assert set(EXECUTION) == set(EXECUTION_KNOBS) - set(IGNORED)


@pytest.mark.parametrize("name", IGNORED)
def test_options_without_effect_say_so_once(name: str, caplog: pytest.LogCaptureFixture) -> None:
    run = training(mlp, momentum)
    owner, reason = IGNORED[name].scope.value, IGNORED[name].ignored
    default = getattr(getattr(fluid, owner)(), name)
    program = compiled(run, **{name: OTHER[type(default)](default)})
    with caplog.at_level(logging.WARNING, "refluid"):
        for feed in batches(2):
            run.run([feed], program)
    assert caplog.messages.count(f"{owner}.{name} has no effect here: {reason}.") == 1


# -- options of ExecutionStrategy ---------------------------------------------------


@pytest.mark.parametrize("places", [1, 2])
def test_iterations_per_run(places: int) -> None:
    feed = batches(1)[0]
    one = training(mlp, momentum)
    expected = one.run([feed] * 6, compiled(one, places))
    many = training(mlp, momentum)
    found = many.run([feed] * 2, compiled(many, places, iterations=3))
    np.testing.assert_allclose(found, expected[2::3], rtol=1e-6)
    for name, value in one.parameters().items():
        np.testing.assert_allclose(many.parameters()[name], value, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("count", [0, -1])
def test_a_run_has_at_least_one_iteration(count: int) -> None:
    run = training(mlp, momentum)
    with pytest.raises(EnforceNotMet, match=f"num_iteration_per_run.* not {count}"):
        run.run(batches(1), compiled(run, iterations=count))


# -- options of BuildStrategy -------------------------------------------------------


def test_sequential_execution_is_one_chain() -> None:
    run = training(mlp, momentum)
    program = compiled(run, threads=4)
    run.run(batches(1), program)
    assert "schedule" in plans(program)[0].text
    chain = compiled(run, threads=4, enable_sequential_execution=True)
    run.run(batches(1), chain)
    assert "schedule" not in plans(chain)[0].text


def two_losses() -> Training:
    """An update that doesn't depend on the whole backward pass: of another type of optimizer."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 9
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        image = fluid.data("image", [None, 1, 14, 14])
        label = fluid.data("label", [None, 1], "int64")
        rare = fluid.ParamAttr(learning_rate=0.5)
        hidden = fluid.layers.fc(image, 8, act="tanh", param_attr=rare)
        cost = fluid.layers.softmax_with_cross_entropy(fluid.layers.fc(hidden, 10), label)
        loss = fluid.layers.mean(cost)
        optimizer = fluid.optimizer.DecayedAdagrad(0.1)
        optimizer.minimize(loss)
    scope, executor = fluid.Scope(), fluid.Executor()
    executor.run(startup, scope=scope)
    return Training(main, loss, optimizer, scope, executor)


@pytest.mark.parametrize("last", [True, False])
def test_updates_wait_for_the_backward_pass_or_not(last: bool) -> None:
    run = two_losses()
    program = compiled(run, threads=2, enable_backward_optimizer_op_deps=last)
    losses = run.run(batches(3), program)
    plain = two_losses()
    np.testing.assert_allclose(losses, plain.run(batches(3)), rtol=1e-5)
    (plan,) = plans(program)
    schedule = plan.written.source.constants["schedule"]
    assert isinstance(schedule, Schedule)
    roles = _roles(plan)
    backward = {number for number, role in enumerate(roles) if role & OpRole.BACKWARD}
    updates = [number for number, role in enumerate(roles) if role & OpRole.OPTIMIZE]
    assert backward
    assert updates
    held = [backward <= _before(schedule, number) for number in updates]
    assert all(held) if last else not all(held)


def _roles(plan: Plan) -> list[int]:
    """The role of each of the plan's functions."""
    steps = [one for one in plan.written.source.steps if isinstance(one, Function)]
    return [int(one.body[0].op.attrs[ROLE]) if one.body[0].op else 0 for one in steps]


def _before(schedule: Schedule, number: int) -> set[int]:
    """All that must have run before this one."""
    earlier = set(schedule.waits[number])
    return earlier.union(*(_before(schedule, one) for one in schedule.waits[number]))


@pytest.mark.parametrize(("fuse", "exchanges"), [(True, 2), (False, 8)])
def test_parameters_are_broadcast_together_or_one_by_one(fuse: bool, exchanges: int) -> None:
    """Reduce mode where each replica has parameters of its own, as on GPUs."""
    program = training(mlp, momentum)
    for rank in range(2):
        copy = program.main.clone()
        parallel = Parallel(
            2, program.loss.name, rank, owned=True, broadcasts=True, fuse_broadcasts=fuse
        )
        data_parallel(copy, parallel)
        ops = copy.global_block().ops
        sent = [op for op in ops if op.type == "replica_broadcast"]
        assert len(sent) == exchanges
        assert {op.attr("root") for op in sent} == {0, 1}
        names = {name for op in sent for name in op.input("X")}
        assert {param.name for param in program.main.all_parameters()} < names


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("threads", [2, 8])
def test_replicas_with_their_own_parameters_train_alike(
    fuse: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "shares_parameters", lambda strategy, devices: False)
    monkeypatch.setattr(replicated, "shares_parameters", lambda strategy, devices: False)
    reduce = fluid.BuildStrategy.ReduceStrategy.Reduce
    run, plain = training(mlp, momentum), training(mlp, momentum)
    program = compiled(run, 2, threads=threads, reduce_strategy=reduce, fuse_broadcast_ops=fuse)
    np.testing.assert_allclose(run.run(batches(5), program), plain.run(batches(5)), rtol=1e-5)
    scopes = program._replicated.scopes  # type: ignore[union-attr]
    for var in run.main.list_vars():
        if var.persistable:
            first, second = (scope.find_var(var.name) for scope in scopes)
            assert first is not second
            assert (first.value == second.value).all(), var.name


def test_broadcasting_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    run = training(mlp, momentum)
    with caplog.at_level(logging.WARNING, "refluid"):
        run.run(batches(1), compiled(run, 2, fuse_broadcast_ops=False))
    said = "Currently, fuse_broadcast_ops only works under Reduce mode."
    assert sum(message.startswith(said) for message in caplog.messages) == 1


# -- flags that belong to strategies ------------------------------------------------


def test_unconnected_parts_are_written(tmp_path: Any) -> None:
    path = tmp_path / "graphs.txt"
    with flags.override({"FLAGS_print_sub_graph_dir": str(path)}):
        run = training(mlp, momentum)
        run.run(batches(1), compiled(run))
        assert not path.exists()
        with fluid.program_guard(run.main):
            fluid.layers.scale(fluid.data("alone", [1]), 2.0)
        assert len(unconnected(run.main.global_block())) == 2
        run.executor.run(
            compiled(run),
            feed={**batches(1)[0], "alone": np.ones(1, "float32")},
            scope=run.scope,
        )
    assert "sub-graph 2 of 2:\n  scale(X=alone" in path.read_text()


def test_a_flag_that_asks_for_what_is_always_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "FLAGS_enable_parallel_graph"
    monkeypatch.setattr(flags, "_said", set())
    plain, run = training(mlp, momentum), training(mlp, momentum)
    expected = plain.run(batches(2), compiled(plain, 2))
    with caplog.at_level(logging.WARNING, "refluid"), flags.override({name: True}):
        assert run.run(batches(2), compiled(run, 2)) == expected
    assert [f"{name}=True asks for what refluid does in any case"] == [
        message for message in caplog.messages if name in message
    ]
