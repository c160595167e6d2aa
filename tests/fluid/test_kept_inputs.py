"""Inputs that are persistable keep what was last fed or read, also in replicas."""

from __future__ import annotations

import numpy as np
import pytest

from refluid import fluid


@pytest.mark.parametrize("places", [1, 2])
def test_what_is_fed_to_a_kept_variable_stays(places: int) -> None:
    """Scripts save persistable inputs along with the parameters; one place alone keeps them too."""
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.scope_guard(scope):
        x = fluid.data("x", [None, 2])
        x.persistable = True
        loss = fluid.layers.mean(fluid.layers.fc(x, 1))
        fluid.optimizer.SGD(0.1).minimize(loss)
        exe = fluid.Executor()
        exe.run(startup)
        program = fluid.CompiledProgram(main).with_data_parallel(
            loss.name, places=[fluid.CPUPlace()] * places
        )
        for step in range(8):
            exe.run(program, {"x": np.full((4, 2), step, "float32")}, [loss])
            kept = scope.find_var("x")
            assert kept is not None
            assert np.array(kept.get_tensor()).tolist() == [[step] * 2] * (4 // places)


@pytest.mark.parametrize("replicas", [0, 1, 2])
def test_what_is_read_into_a_kept_variable_stays(replicas: int) -> None:
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.scope_guard(scope):
        x = fluid.data("x", [None, 2])
        loader = fluid.io.DataLoader.from_generator(feed_list=[x], capacity=2, iterable=False)
        x.persistable = True
        loss = fluid.layers.mean(fluid.layers.fc(x, 1))
        fluid.optimizer.SGD(0.1).minimize(loss)
        places = [fluid.CPUPlace()] * max(replicas, 1)
        exe, program = fluid.Executor(), fluid.CompiledProgram(main)
        if replicas:
            program = program.with_data_parallel(loss.name, places=places)
        exe.run(startup)
        batches = [[np.full((4, 2), step, "float32")] for step in range(8)]
        loader.set_batch_generator(lambda: iter(batches), places)
        loader.start()
        for _ in range(8 // len(places)):
            exe.run(program, fetch_list=[loss])
        kept = scope.find_var("x")
        assert kept is not None
        found = np.array(kept.get_tensor())  # of the last batches, as replicas came for them
        assert found.tolist() in [[[step] * 2] * 4 for step in range(8 - len(places), 8)]
        loader.reset()


def test_sequences_of_a_kept_variable_stay() -> None:
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.scope_guard(scope):
        x = fluid.data("x", [None, 2], lod_level=1)
        x.persistable = True
        loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.sequence_pool(x, "sum"), 1))
        fluid.optimizer.SGD(0.1).minimize(loss)
        exe, place = fluid.Executor(), fluid.CPUPlace()
        exe.run(startup)
        program = fluid.CompiledProgram(main).with_data_parallel(loss.name, places=[place] * 2)
        batch = fluid.create_lod_tensor(np.ones((6, 2), "float32"), [[1, 2, 2, 1]], place)
        exe.run(program, {"x": batch}, [loss])
        kept = scope.find_var("x")
        assert kept is not None
        assert kept.get_tensor().lod() == [[0, 1, 3]]
