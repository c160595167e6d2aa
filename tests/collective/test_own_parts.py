"""Parameters that are each trainer's own stay so, while the others are trained together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from refluid.fluid.transpiler.collective import GradAllReduce, LocalSGD
from tests.collective.jobs import as_trainers
from tests.collective.own_parts import CLASSES, built_part, train_parts, train_whole


def test_a_classifier_split_by_classes_trains_as_the_whole(tmp_path: Path) -> None:
    """Each part has a name and a width of its own."""
    trained = as_trainers(2, train_parts, "gradients", folder=tmp_path)
    for one in trained:
        assert isinstance(one, tuple), one
    (losses, first), (others, second) = trained
    whole, learned = train_whole()
    np.testing.assert_allclose(np.add(losses, others), whole, rtol=1e-5)
    parts = np.hstack([first["part0"], second["part1"]])
    assert parts.shape[1] == CLASSES
    np.testing.assert_allclose(parts, learned["part0"], rtol=1e-5, atol=1e-6)
    for one in (first, second):
        np.testing.assert_allclose(one["w"], learned["w"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["gradients", "parameters"])
def test_parts_are_neither_sent_nor_summed(kind: str) -> None:
    main, startup, _ = built_part(1, 2)
    made = GradAllReduce() if kind == "gradients" else LocalSGD()
    made.nranks, made.startup_program, made.main_program = 2, startup, main
    made._begin_alike()
    made._transpile_main_program()
    exchanged = {
        name
        for program in (main, startup)
        for op in program.global_block().ops
        if op.type in ("c_broadcast", "c_allreduce_sum", "fused_all_reduce")
        for name in op.input_arg_names
    }
    assert exchanged
    assert not [name for name in exchanged if name.startswith("part")]
