"""Weight decay in updates: the numbers of operators of its own, and where it stays with them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import refluid.ops  # noqa: F401
from refluid import fluid
from refluid.fluid.contrib.mixed_precision import AutoMixedPrecisionLists, decorate
from tests.choices import often
from tests.passes.rewriting import passed
from tests.passes.texts import after

layers, optimizer = fluid.layers, fluid.optimizer
_FAST = {"mul"}
L1, L2 = fluid.regularizer.L1Decay, fluid.regularizer.L2Decay
MAKERS: dict[str, Any] = {
    "SGD": lambda **given: optimizer.SGD(0.1, **given),
    "Momentum": lambda **given: optimizer.Momentum(0.1, 0.8, **given),
    "without momentum": lambda **given: optimizer.Momentum(0.1, 0.0, **given),
    "Nesterov": lambda **given: optimizer.Momentum(0.1, 0.8, use_nesterov=True, **given),
    "Adam": lambda **given: optimizer.Adam(0.01, **given),
    "lazy Adam": lambda **given: optimizer.Adam(0.01, lazy_mode=True, **given),
    "RMSProp": lambda **given: optimizer.RMSProp(0.01, **given),
    "centered": lambda **given: optimizer.RMSProp(0.01, centered=True, momentum=0.5, **given),
    "Adagrad": lambda **given: optimizer.Adagrad(0.1, **given),
    "DecayedAdagrad": lambda **given: optimizer.DecayedAdagrad(0.1, **given),
    "Adadelta": lambda **given: optimizer.Adadelta(0.1, epsilon=1e-4, **given),
    "Adamax": lambda **given: optimizer.Adamax(0.01, **given),
    "Ftrl": lambda **given: optimizer.Ftrl(0.1, **given),
}


class Drawn:
    """A network and an optimizer with decays, chosen at random."""

    def __init__(self, name: str, seed: int, *, in_branch: bool = False) -> None:
        source = random.Random(f"{name} {seed}")
        self.main, self.startup = fluid.Program(), fluid.Program()
        self.main.random_seed = self.startup.random_seed = 7
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            word, x = fluid.data("word", [None, 1], "int64"), fluid.data("x", [None, 5])
            own = [None, L1(0.03), L2(0.02), L2(0.0)]
            rows = fluid.ParamAttr(regularizer=source.choice(own))
            found = layers.embedding(word, [9, 5], is_sparse=source.random() < 0.5, param_attr=rows)
            x = layers.elementwise_add(x, found)
            for width in (source.randint(1, 9), source.randint(1, 9)):
                weights = fluid.ParamAttr(regularizer=source.choice(own))
                x = layers.fc(x, width, act="tanh", param_attr=weights)
            self.loss = layers.mean(layers.square(x))
            clips = [None, fluid.clip.GradientClipByGlobalNorm(0.1)]
            given = {"regularization": source.choice([None, L2(0.1), L1(0.1)])}
            made = MAKERS[name](**given, grad_clip=source.choice(clips))
            if in_branch:  # what mixed precision puts around updates, with nothing half
                made = decorate(made, AutoMixedPrecisionLists(custom_black_list=_FAST))
            _, pairs = made.minimize(self.loss)
        self.gradients = [gradient.name for _, gradient in pairs]
        rng = np.random.default_rng(seed)
        self.feeds = [
            {"x": rng.random((n, 5), "float32"), "word": rng.integers(0, 9, (n, 1))}
            for n in rng.integers(1, 6, 6)
        ]

    def trained(self, *seen: str, replicas: int = 1) -> dict[str, Any]:
        """All parameters and states after the steps."""
        scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        run: Any = self.main
        if replicas > 1:
            places = fluid.cpu_places(replicas)
            run = fluid.CompiledProgram(run).with_data_parallel(self.loss.name, places=places)
        with fluid.scope_guard(scope):
            exe.run(self.startup)
            for feed in self.feeds:
                many = {key: np.concatenate([value] * replicas) for key, value in feed.items()}
                exe.run(run, feed=many, fetch_list=[self.loss, *seen])
            kept = [one.name for one in self.main.list_vars() if one.persistable]
            return {name: np.array(scope.find_var(name).get_tensor()) for name in kept}


@pytest.mark.parametrize("seed", often(range(3), [0]))
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("in_branch", [False, True], ids=["plain", "in a branch"])
@pytest.mark.parametrize("name", MAKERS)
def test_numbers_stay(name: str, in_branch: bool, replicas: int, seed: int) -> None:
    """Gradients that are fetched have what is added to them, so nothing is folded then."""
    drawn = Drawn(name, seed, in_branch=in_branch)
    folded, written = drawn.trained(), drawn.trained(*drawn.gradients)
    if replicas == 2:
        folded = drawn.trained(replicas=2)
    for key, value in written.items():
        np.testing.assert_allclose(folded[key], value, rtol=1e-4, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "Ftrl"])
def test_decays_are_folded(name: str) -> None:
    def made(**given: Any) -> tuple[Any, str]:
        main = fluid.Program()
        with fluid.program_guard(main, fluid.Program()):
            loss = layers.mean(layers.fc(fluid.data("x", [None, 5]), 4))
            pairs = MAKERS[name](**given).minimize(loss)[1]
        return main, pairs[0][1].name

    main, seen = made(regularization=L2(0.1))
    assert kinds(main) == kinds(made()[0])
    assert kinds(main, kept=[seen]).count("sum") == 1


def branched(more: str = "") -> Any:
    """A layer trained in mixed precision with decay. more: a type of operator that reads the sum,
    in the branch or after it."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        loss = layers.mean(layers.fc(fluid.data("x", [None, 5]), 4))
        pairs = decorate(optimizer.Momentum(0.1, 0.8, regularization=L2(0.1))).minimize(loss)[1]
        seen = pairs[0][1].name
        if more:
            block = main.block(1) if more == "inside" else main.global_block()
            made = block.create_var(name="seen", shape=[4], dtype="float32")
            block.append_op(type="assign", inputs={"X": [seen]}, outputs={"Out": [made]})
    return main, seen


def kinds(main: Any, **given: Any) -> list[str]:
    program = passed(main, "fold_weight_decay", **given).program
    return [op.type for block in program.blocks for op in block.ops]


def test_decays_before_a_branch_are_folded() -> None:
    main, seen = branched()
    found = passed(main, "fold_weight_decay").program
    assert [op.attrs["l2_decay"] for op in found.block(1).ops] == [np.float32(0.1)] * 2
    assert not {"sum", "scale"} & {*kinds(main)}
    assert kinds(main, kept=[seen]).count("sum") == 1
    for where in ("inside", "after"):
        assert kinds(branched(where)[0]).count("sum") == 1


DECAYED = """var w: float32[4, 4]
var g: float32[4, 4]
var decay: float32[4, 4]
matmul(X=x, Y=y) -> Out=g
scale(X=w) -> Out=decay {scale=0.5}
sum(X=[decay, g]) -> Out=g
sgd(Param=w, Grad=g, LearningRate=rate) -> ParamOut=w {op_role=2}"""
OTHERS = {
    "the parameter changes": ("sum(", "increment(X=w) -> Out=w\nsum("),
    "the penalty is read": ("sum(", "print(In=decay) -> Out=p\nsum("),
    "the sum is read": ("sgd(", "print(In=g) -> Out=p\nsgd("),
    "the sum is read later": ("{op_role=2}", "{op_role=2}\nprint(In=g) -> Out=p"),
    "the penalty is read later": ("{op_role=2}", "{op_role=2}\nprint(In=decay) -> Out=p"),
    "a number is added": ("{scale=0.5}", "{scale=0.5, bias=1.0}"),
    "the factor is a tensor": ("scale(X=w)", "scale(X=w, ScaleTensor=s)"),
    "another parameter decays": ("scale(X=w)", "scale(X=u)"),
    "more is added": ("[decay, g]", "[decay, g, more]"),
    "the gradient is of float16": ("var g: float32", "var g: float16"),
    "the gradient is of rows": ("var g: float32", "var g: SELECTED_ROWS float32"),
    "the update takes none": ("sgd(", "proximal_gd("),
    "it is no update": ("{op_role=2}", "{op_role=0}"),
    "the gradient changes": (
        "sum(X=[decay, g]) -> Out=g\nsgd(Param=w, Grad=g",
        "sum(X=[decay, g]) -> Out=t\nincrement(X=g) -> Out=g\nsgd(Param=w, Grad=t",
    ),
    "the decay is kept": ("var decay: float32[4, 4]", "var decay: float32[4, 4] persistable=true"),
}


@pytest.mark.parametrize("why", OTHERS)
def test_others_stay(why: str) -> None:
    old, new = OTHERS[why]
    text = DECAYED.replace(old, new).replace("\nmatmul", "\nvar t: float32[4, 4]\nmatmul")
    assert new in text and "l2_decay=0.5" in after(DECAYED, "fold_weight_decay")[0][-1]
    found, done = after(text, "fold_weight_decay")
    assert not done.reports.get("fold_weight_decay")
    assert any(line.startswith("scale") for line in found)


BRANCHED = """block 0 parent=-1
var w: float32[4, 4]
var g: float32[4, 4]
var t: float32[4, 4]
var decay: float32[4, 4]
matmul(X=x, Y=y) -> Out=g
scale(X=w) -> Out=decay {scale=0.5}
sum(X=[decay, g]) -> Out=t
conditional_block(Cond=c, Input=[t, w, rate]) -> Out=w, Scope=s {sub_block=@1}
block 1 parent=0
sgd(Param=w, Grad=t, LearningRate=rate) -> ParamOut=w {op_role=2}"""
IN_BRANCHES = {
    "the gradient changes in it": ("\nsgd(", "\nincrement(X=g) -> Out=g\nsgd("),
    "the parameter changes in it": ("\nsgd(", "\nincrement(X=w) -> Out=w\nsgd("),
    "the sum changes in it": ("\nsgd(", "\nincrement(X=t) -> Out=t\nsgd("),
    "the sum is read in it": ("\nsgd(", "\nprint(In=t) -> Out=p\nsgd("),
    "the sum is read after it": ("\nblock 1", "\nprint(In=t) -> Out=p\nblock 1"),
    "it is a loop": (
        "conditional_block(Cond=c, Input=[t, w, rate]) -> Out=w, Scope=s",
        "while(X=[t, w, rate], Condition=c) -> Out=w, StepScopes=s",
    ),
    "it runs twice": (
        "\nblock 1",
        "\nconditional_block(Cond=c, Input=[t, w, rate]) -> Out=w, Scope=s {sub_block=@1}\nblock 1",
    ),
}


def test_a_sum_before_a_branch_is_folded() -> None:
    assert after(BRANCHED, "fold_weight_decay")[0] == [
        "matmul(X=x, Y=y) -> Out=g",
        "conditional_block(Cond=c, Input=[w, rate, g]) -> Out=w, Scope=s {sub_block=@1}",
        "sgd(Param=w, Grad=g, LearningRate=rate) -> ParamOut=w {l2_decay=0.5}",
    ]


@pytest.mark.parametrize("why", IN_BRANCHES)
def test_others_before_branches_stay(why: str) -> None:
    old, new = IN_BRANCHES[why]
    text = BRANCHED.replace(old, new)
    assert new in text
    found, done = after(text, "fold_weight_decay")
    assert not done.reports.get("fold_weight_decay")
    assert any(line.startswith("scale") for line in found)


def test_a_sum_of_another_name_is_folded() -> None:
    text = DECAYED.replace("Out=g\nsgd(Param=w, Grad=g", "Out=t\nsgd(Param=w, Grad=t")
    text = text.replace("\nmatmul", "\nvar t: float32[4, 4]\nmatmul")
    assert after(text, "fold_weight_decay")[0] == [
        "matmul(X=x, Y=y) -> Out=g",
        "sgd(Param=w, Grad=g, LearningRate=rate) -> ParamOut=w {l2_decay=0.5}",
    ]
