"""What is said of a job with servers and can't be is refused before anybody waits for anybody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
from refluid.fluid.contrib.mixed_precision import decorate
from tests.pserver.test_optimizers import OPTIMIZERS, network

HERE = "127.0.0.1:6174"


def _transpiled(
    pservers: Any = HERE, trainers: Any = 1, number: Any = 0, **settings: Any
) -> fluid.DistributeTranspiler:
    main, startup, _ = network(OPTIMIZERS["sgd"], lambda: 0.1, sparse=True)
    config = fluid.DistributeTranspilerConfig()
    for name, value in settings.items():
        setattr(config, name, value)
    made = fluid.DistributeTranspiler(config)
    made.transpile(
        number, program=main, pservers=pservers, trainers=trainers, startup_program=startup
    )
    return made


# Arguments -> the error.
WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no servers": ({"pservers": ""}, ValueError, "'' is no address of a server"),
    "no port": ({"pservers": f"{HERE},10.0.0.1"}, ValueError, "'10.0.0.1' is no address"),
    "a port in letters": ({"pservers": "host:http"}, ValueError, "each is host:port"),
    "one twice": ({"pservers": f"{HERE},{HERE}"}, ValueError, "an address of its own"),
    "a list": ({"pservers": [HERE]}, TypeError, "pservers has to be text"),
    "no trainers": ({"trainers": 0}, ValueError, "at least one trainer"),
    "trainers as text": ({"trainers": "a:1,b:1"}, TypeError, "trainers is a number"),
    "a number as text": ({"number": "0"}, TypeError, "trainer_id is a number, not '0'"),
    "a size as text": ({"min_block_size": "8"}, TypeError, "number of elements, and not '8'"),
    "a class's name": ({"split_method": "HashName"}, TypeError, "split_method is a class"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused(case: str) -> None:
    given, kind, words = WRONG[case]
    with pytest.raises(kind, match=words):
        _transpiled(**given)


@pytest.mark.parametrize("number", [-1, 2])
def test_no_trainer_has_such_a_number(number: int) -> None:
    """A server may have it: its number isn't looked at."""
    made = _transpiled(trainers=2, number=number)
    made.get_pserver_program(HERE)
    with pytest.raises(ValueError, match="of 2 trainers each has one from 0 to 1"):
        made.get_trainer_program()


def test_a_distributed_table_has_rows_for_a_gradient() -> None:
    """Else servers refused the first push, at an operator that nobody wrote. GEO pushes none."""
    for geo in (False, True):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup):
            ids = fluid.data("ids", [None, 1], "int64")
            rows = fluid.layers.embedding(ids, [9, 2], is_distributed=True)
            fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(rows))
        config = fluid.DistributeTranspilerConfig()
        config.geo_sgd_mode = geo
        made = fluid.DistributeTranspiler(config)
        if geo:
            made.transpile(0, program=main, startup_program=startup)
            continue
        with pytest.raises(EnforceNotMet, match="without is_sparse=True") as caught:
            made.transpile(0, program=main, startup_program=startup)
        assert "rows = fluid.layers.embedding(" in str(caught.value)


BRANCHES: dict[str, Callable[[Any], Any]] = {
    "merged gradients": lambda inner: fluid.optimizer.GradientMergeOptimizer(inner, k_steps=2),
    "dynamic scaling": lambda inner: decorate(inner, use_dynamic_loss_scaling=True),
}


@pytest.mark.parametrize("case", BRANCHES)
def test_updates_in_a_branch_are_refused(case: str) -> None:
    """Servers had nothing to keep, and each trainer trained for itself."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.data("x", [None, 3], "float32")
        loss = fluid.layers.mean(fluid.layers.fc(x, 1, param_attr="w"))
        BRANCHES[case](fluid.optimizer.SGD(0.1)).minimize(loss)
    with pytest.raises(EnforceNotMet, match=r"is updated in a branch \(by operator sgd\)"):
        fluid.DistributeTranspiler().transpile(0, program=main, startup_program=startup)


def test_blanks_between_addresses() -> None:
    made = _transpiled("127.0.0.1:6174, 127.0.0.1:6175")
    assert made.get_pserver_program("127.0.0.1:6175").global_block().ops


def _warned(make: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> str:
    main, startup, _ = network(make, lambda: 0.1, sparse=False)
    caplog.clear()
    with caplog.at_level("WARNING", "refluid"):
        fluid.DistributeTranspiler().transpile(0, main, HERE, 1, startup_program=startup)
    return caplog.text


ON_TRAINERS: dict[str, Callable[..., Any]] = {
    "Lookahead": lambda rate: fluid.optimizer.LookaheadOptimizer(OPTIMIZERS["sgd"](rate)),
    "decoupled decay": lambda rate: fluid.contrib.extend_with_decoupled_weight_decay(
        fluid.optimizer.Adam
    )(weight_decay=0.1, learning_rate=rate),
}


@pytest.mark.parametrize("name", ON_TRAINERS)
def test_what_trainers_alone_change_is_said(name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert "in the trainer alone" not in _warned(OPTIMIZERS["adam"], caplog)
    text = _warned(ON_TRAINERS[name], caplog)
    assert "changes emb" in text
    assert "in the trainer alone" in text


def test_what_hands_a_parameter_on_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x, label = fluid.data("x", [None, 4]), fluid.data("label", [None, 1], "int64")
        cost = fluid.layers.hsigmoid(fluid.layers.fc(x, 3), label, 6, is_sparse=True)
        OPTIMIZERS["sgd"](0.1).minimize(fluid.layers.mean(cost))
    fluid.DistributeTranspiler().transpile(0, main, HERE, 1, startup_program=startup)
    assert "in the trainer alone" not in caplog.text


def test_tables_that_are_kept_as_a_whole_are_said(caplog: pytest.LogCaptureFixture) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        ids, start = fluid.data("ids", [None, 1], "int64"), np.ones((5, 2), "float32")
        kept = fluid.ParamAttr("emb", fluid.initializer.NumpyArrayInitializer(start))
        rows = fluid.layers.embedding(ids, [5, 2], is_sparse=True, param_attr=kept)
        other = fluid.layers.embedding(ids, [5, 2], is_sparse=True)
        OPTIMIZERS["sgd"](0.1).minimize(fluid.layers.mean(rows * other))
    fluid.DistributeTranspiler().transpile(0, main, HERE, 1, startup_program=startup)
    assert caplog.text.count("as a dense parameter") == 1
    assert "emb is looked up" in caplog.text
