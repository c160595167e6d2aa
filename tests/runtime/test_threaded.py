"""Plans that run out of order compute what they compute in order."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.ops import registry
from refluid.ops.effects import Effect
from refluid.ops.registry import operator
from refluid.runtime.dependencies import predecessors
from refluid.runtime.steps import Call, Free, If, Load, Step, Store
from refluid.runtime.threaded import Schedule
from refluid.runtime.trees import CellName, Known, Name


def _step(target: str, function: str = "make", *given: str, **options: str) -> Call:
    names = tuple(map(Name, given))
    changes = frozenset(names if function.endswith("_") else ())
    return Call(Name(target), Known(function), names, options, changes=changes)


def _waits(*found: Step) -> list[set[int]]:
    return predecessors(found, lambda one: Name("a") if one == "view_of_a" else one)


def test_a_step_waits_for_what_it_reads() -> None:
    assert _waits(_step("a"), _step("b"), _step("c", "use", "a", "b")) == [set(), set(), {0, 1}]


def test_a_name_gets_another_value_when_all_have_read_it() -> None:
    waits = _waits(_step("a"), _step("b", "use", "a"), _step("a"), Free((Name("b"),)))
    assert waits == [set(), {0}, {0, 1}, {1}]


def test_memory_is_overwritten_when_all_have_read_it() -> None:
    view, use = _step("view_of_a", "use", "a"), _step("b", "use", "view_of_a")
    change = _step("c", "change_", "a")
    assert _waits(_step("a"), view, use, change)[3] == {0, 1, 2}
    assert _waits(_step("a"), change, use)[2] == {1}


def test_what_waits_as_garbage_is_read() -> None:
    waits = _waits(_step("g"), _step("a"), Free((Name("a"),), Name("g")))
    assert waits[2] == {0, 1}


def test_a_block_waits_for_all_that_its_steps_use() -> None:
    inner = [_step("b", "use", "a"), Store(CellName(0), Name("b"))]
    block = If(Name("test"), inner, [_step("b", "use", "c")])
    waits = _waits(_step("a"), _step("c"), _step("test"), block, Load(Name("p"), CellName(0)))
    assert waits[3:] == [{0, 1, 2}, {3}]


def test_steps_of_one_effect_keep_their_order() -> None:
    steps = [_step(name) for name in "abcd"]
    effects = Effect.RANDOM, Effect.HOST, Effect.RANDOM | Effect.COMM, Effect.COMM
    for step, effect in zip(steps, effects, strict=True):
        step.acts = effect
    assert _waits(*steps) == [set(), set(), {0}, {2}]


def test_cells_of_the_scope_are_variables() -> None:
    p0, p1 = Name("p0"), Name("p1")
    cells = [Store(CellName(number), p1) for number in (0, 1)]
    waits = _waits(Load(p0, CellName(0)), _step("p1", "use", "p0"), *cells)
    assert waits[2] == {0, 1}
    assert waits[3] == {1}


def test_every_function_runs_once_after_what_it_waits_for() -> None:
    draw = np.random.RandomState(0)
    waits = [{int(one) for one in draw.randint(0, n, 3)} if n else set() for n in range(200)]
    for threads in (1, 2, 8):
        done: list[int] = []
        lock = threading.Lock()

        def work(number: int, done: list[int] = done, lock: threading.Lock = lock) -> None:
            with lock:
                assert waits[number] <= set(done)
                done.append(number)

        Schedule(waits, threads)([lambda n=n: work(n) for n in range(200)])
        assert sorted(done) == list(range(200))


def test_the_first_error_is_raised_and_the_schedule_goes_on_working() -> None:
    schedule = Schedule([set(), {0}, {1}, set()], 4)

    def fail() -> None:
        raise ValueError("number 1")

    ran: list[int] = []
    with pytest.raises(ValueError, match="number 1"):
        schedule([lambda: None, fail, lambda: ran.append(2), lambda: None])
    assert not ran
    schedule([lambda: None, lambda: None, lambda: ran.append(2), lambda: None])
    assert ran == [2]


class Branches:
    """Several branches that meet in one loss, in a scope of their own."""

    def __init__(self, threads: int, places: int = 1) -> None:
        main, startup = fluid.Program(), fluid.Program()
        self.scope = fluid.Scope()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            x = fluid.data("x", [None, 8])
            outs = []
            for _ in range(5):
                hidden = x
                for _ in range(3):
                    hidden = fluid.layers.fc(hidden, 8, act="tanh")
                outs.append(hidden)
            joined = fluid.layers.concat([*outs, fluid.layers.sums(outs)], axis=1)
            self.loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(joined, 1)))
            fluid.optimizer.Momentum(0.001, 0.9).minimize(self.loss)
        self.executor = fluid.Executor(fluid.CPUPlace())
        self.executor.run(startup, scope=self.scope)
        for index, param in enumerate(main.all_parameters()):
            values = np.random.RandomState(index).randn(*param.shape).astype("float32") * 0.4
            self.scope.find_var(param.name).get_tensor().set(values, fluid.CPUPlace())
        strategy = fluid.ExecutionStrategy()
        strategy.num_threads = threads
        self.program = fluid.CompiledProgram(main).with_data_parallel(
            loss_name=self.loss.name, exec_strategy=strategy, places=fluid.cpu_places(places)
        )

    def step(self, x: np.ndarray) -> float:
        found = self.executor.run(
            self.program, feed={"x": x}, fetch_list=[self.loss], scope=self.scope
        )
        return float(found[0].mean())


def test_two_hundred_steps_are_equal_in_any_number_of_threads() -> None:
    data = np.random.RandomState(1).randn(200, 4, 8).astype("float32")
    nets = {threads: Branches(threads) for threads in (1, 2, 4, 8)}
    for x in data:
        losses = {threads: net.step(x) for threads, net in nets.items()}
        assert len(set(losses.values())) == 1, losses


@pytest.mark.parametrize(
    ("threads", "places"),
    [
        (2, 1),
        (8, 2),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((8, 1), (2, 2), (4, 2))),
    ],
)
def test_errors_of_workers_name_the_operator_and_leave_all_usable(
    threads: int, places: int
) -> None:
    """Again and again, each time in another branch; nothing waits for ever."""
    data = np.random.RandomState(2).randn(20, 4, 8).astype("float32")
    net, undisturbed = Branches(threads, places), Branches(threads, places)
    net.step(data[0])
    undisturbed.step(data[0])
    names = [one.name for one in net.program._program.all_parameters() if one.name.endswith("w_0")]
    for number, x in enumerate(data):
        cell = net.scope.find_var(names[number % len(names)])
        good, cell.value = cell.value, torch.zeros(3, 3)
        with pytest.raises(EnforceNotMet, match=r"operator \w+ failed[\s\S]*test_threaded.py"):
            net.step(x)
        cell.value = good
        np.testing.assert_allclose(net.step(x), undisturbed.step(x), rtol=1e-6)


@pytest.fixture
def waiting_update() -> Iterator[str]:
    """An update that adds one as soon as two of its kind run at the same time."""
    meeting = threading.Barrier(2)

    @operator("waiting_update", outputs="ParamOut", uses=None, mutates={"ParamOut": "Param"})
    def body(Param: torch.Tensor) -> torch.Tensor:
        if not Param.is_meta:
            meeting.wait(120)
        return Param.add_(1)

    yield "waiting_update"
    registry.forget("waiting_update")


def test_updates_of_different_parameters_run_at_the_same_time(waiting_update: str) -> None:
    """What they change they say, so no other order holds them up."""
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        params = [fluid.layers.create_parameter([4], "float32") for _ in range(2)]
        total = fluid.layers.mean(fluid.layers.sums(params))
        for param in params:
            main.global_block().append_op(
                type=waiting_update,
                inputs={"Param": param},
                outputs={"ParamOut": param},
            )
    executor, strategy = fluid.Executor(fluid.CPUPlace()), fluid.ExecutionStrategy()
    executor.run(startup, scope=scope)
    strategy.num_threads = 2
    program = fluid.CompiledProgram(main).with_data_parallel(
        exec_strategy=strategy, places=fluid.cpu_places(1)
    )
    before = [np.array(scope.find_var(one.name).get_tensor()) for one in params]
    executor.run(program, fetch_list=[total], scope=scope)
    for one, was in zip(params, before, strict=True):
        np.testing.assert_array_equal(np.array(scope.find_var(one.name).get_tensor()), was + 1)
