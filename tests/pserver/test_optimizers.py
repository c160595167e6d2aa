"""Every optimizer and every decay on servers gives what one process gives, of tables and slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
from tests.choices import crossed, often
from tests.pserver.jobs import Built, Job, Trainer
from tests.pserver.tables import divided

HEIGHT, STEPS = 12, 5
O = fluid.optimizer  # noqa: E741
OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "sgd": lambda rate: O.SGD(rate),
    "momentum": lambda rate: O.Momentum(rate, 0.9),
    "nesterov": lambda rate: O.Momentum(rate, 0.9, use_nesterov=True),
    "momentum of decay": lambda rate: O.Momentum(
        rate, 0.9, regularization=fluid.regularizer.L2Decay(0.1)
    ),
    "lars": lambda rate: O.LarsMomentum(rate, 0.9),
    "adagrad": lambda rate: O.Adagrad(rate),
    "adagrad from 0.3": lambda rate: O.Adagrad(rate, initial_accumulator_value=0.3),
    "decayed adagrad": lambda rate: O.DecayedAdagrad(rate),
    "adadelta": lambda rate: O.Adadelta(rate),
    "adam": lambda rate: O.Adam(rate),
    "lazy adam": lambda rate: O.Adam(rate, lazy_mode=True),
    "adamax": lambda rate: O.Adamax(rate),
    "rmsprop": lambda rate: O.RMSProp(rate),
    "centered rmsprop": lambda rate: O.RMSProp(rate, centered=True, momentum=0.5),
    "ftrl": lambda rate: O.Ftrl(rate, l1=0.01, l2=0.02),
    "lamb": lambda rate: O.Lamb(rate),
    "dpsgd": lambda rate: O.Dpsgd(rate, clip=0.3, batch_size=1.0, sigma=0.0),
}
L = fluid.layers
RATES: dict[str, Callable[[], Any]] = {
    "exponential": lambda: L.exponential_decay(0.1, 2, 0.5),
    "natural exponential": lambda: L.natural_exp_decay(0.1, 2, 0.5),
    "inverse time": lambda: L.inverse_time_decay(0.1, 2, 0.5, staircase=True),
    "polynomial": lambda: L.polynomial_decay(0.1, 4, 0.01, 2.0),
    "polynomial, again": lambda: L.polynomial_decay(0.1, 2, 0.01, cycle=True),
    "piecewise": lambda: L.piecewise_decay([2, 4], [0.1, 0.05, 0.01]),
    "noam": lambda: L.noam_decay(16, 3),
    "cosine": lambda: L.cosine_decay(0.1, 2, 4),
    "warm-up": lambda: L.linear_lr_warmup(L.exponential_decay(0.1, 2, 0.5), 2, 0.0, 0.1),
}


def network(make: Callable[..., Any], rate: Callable[[], Any], sparse: bool) -> Built:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = fluid.data("ids", [None, 1], "int64")
        label = fluid.data("label", [None, 1], "float32")
        first = fluid.ParamAttr(name="emb", initializer=fluid.initializer.Constant(0.3))
        rows = L.embedding(ids, [HEIGHT, 6], is_sparse=sparse, param_attr=first)
        weight = fluid.initializer.NumpyArrayInitializer(
            np.linspace(-1, 1, 24, dtype="f4").reshape(6, 4)
        )
        hidden = L.fc(rows, 4, param_attr=fluid.ParamAttr(name="w", initializer=weight))
        out = L.fc(hidden, 1, param_attr=fluid.initializer.Constant(0.5))
        loss = L.mean(L.square_error_cost(out, label))
        make(rate()).minimize(loss)
    return main, startup, loss


def feeds(sparse: bool, few: bool = False) -> list[dict[str, Any]]:
    """Batches that have each id, some more than once; one id each where there are few."""
    draws, found = np.random.RandomState(1), []
    for _ in range(STEPS):
        ids = np.concatenate([draws.permutation(HEIGHT), draws.randint(0, HEIGHT, 4)])[:, None]
        ids = ids[:1] if few else ids
        found.append({"ids": ids, "label": (ids % 3).astype("f4")})
    return found


def alone(build: Callable[[], Built], sparse: bool, few: bool = False) -> dict[str, Any]:
    main, startup, loss = build()
    scope, executor = fluid.Scope(), fluid.Executor()
    executor.run(startup, scope=scope)
    losses = [
        executor.run(main, feed=one, fetch_list=[loss], scope=scope)[0]
        for one in feeds(sparse, few)
    ]
    found = {name: np.array(scope.find_var(name).get_tensor()) for name in ("emb", "w")}
    return {**found, "losses": np.array(losses)}


def served(build: Callable[[], Built], sparse: bool, few: bool = False) -> dict[str, Any]:
    """The same by two servers, between which slices are cut."""
    job = Job(build, 2, 1, sync=True, min_block_size=4)

    def train(trainer: Trainer) -> dict[str, Any]:
        given = feeds(sparse, few)
        losses = [trainer.step(one, [trainer.loss])[0] for one in given]
        client = trainer.transpiler._connection.link.client
        found = {"w": trainer.value("w"), "losses": np.array(losses)}
        if client.layout.sparse:
            found["emb"] = client.rows("emb", torch.arange(HEIGHT)).numpy()
        else:
            found["emb"] = trainer.value("emb")
        return found

    (found,) = job.run(train)
    return found


DENSE = ("sgd", "momentum", "adam")


@pytest.mark.parametrize(
    ("name", "sparse"),
    crossed(
        OPTIMIZERS,
        [True, False],
        fast=[*((name, True) for name in OPTIMIZERS), *((name, False) for name in DENSE)],
    ),
)
def test_optimizers(name: str, sparse: bool) -> None:
    def build() -> Built:
        return network(OPTIMIZERS[name], lambda: 0.1, sparse)

    same(served(build, sparse), alone(build, sparse))


def test_a_step_counts_on_servers_that_have_none_of_its_ids() -> None:
    """Adam's powers of beta go on with each step, whoever has its rows."""

    def build() -> Built:
        return network(OPTIMIZERS["lazy adam"], lambda: 0.1, sparse=True)

    same(served(build, True, few=True), alone(build, True, few=True))


def test_a_table_is_not_updated_as_a_whole() -> None:
    """Lamb and LARS look at norms of parameters: tables are sent whole then, or refused."""
    job = Job(lambda: network(OPTIMIZERS["lamb"], lambda: 0.1, sparse=True), 1, 1, sync=True)
    layout = job.trainers[0].transpiler._split.layout
    assert not layout.sparse and {"emb", "w"} <= {one.name for one in layout.dense}
    job.run(lambda trainer: None)
    with pytest.raises(EnforceNotMet, match="another optimizer than Lamb, LARS and Dpsgd"):
        divided(optimizer=O.Lamb(0.1))


@pytest.mark.parametrize("name", often(RATES, ["polynomial", "piecewise", "noam", "warm-up"]))
def test_rates(name: str) -> None:
    def build() -> Built:
        return network(OPTIMIZERS["momentum"], RATES[name], sparse=True)

    same(served(build, sparse=True), alone(build, sparse=True))


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    assert np.ptp(expected["losses"]) > 1e-3
