"""Networks written with the layers become the very programs that Fluid made of them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import pytest

from refluid import fluid
from refluid.core import names
from refluid.ir.ambient import reset_name_scopes
from refluid.ir.program import Program
from tests.choices import often
from tests.fluid.recorded_training import facts, read_program, var_facts
from tests.golden import GOLDEN, LARGE, needs_golden
from tests.networks import cifar, classifier, digits, fit_a_line, imagenet

Train = Callable[[], fluid.Variable]


def _digits(network: classifier.Network) -> Train:
    return functools.partial(classifier.train, network, "img", digits.SHAPE)


def _cifar(network: classifier.Network) -> Train:
    return functools.partial(classifier.train, network, "pixel", cifar.SHAPE)


def _imagenet(
    network: imagenet.Network, size: int, rate: Callable[[], fluid.Variable] = imagenet.in_steps
) -> Train:
    return functools.partial(imagenet.train, network, size, rate)


MODELS: dict[str, Train] = {
    "book_fit_a_line": fit_a_line.train,
    "book_mnist_softmax": _digits(digits.softmax_regression),
    "book_mnist_mlp": _digits(digits.perceptron),
    "book_mnist_cnn": _digits(digits.convolutional),
    "book_vgg_bn_drop": _cifar(cifar.vgg),
    "book_resnet_cifar10": _cifar(cifar.resnet),
    "resnet50": _imagenet(imagenet.resnet50, 64),
    "mobilenet_v1": _imagenet(imagenet.mobilenet_v1, 64),
    "vgg11": _imagenet(imagenet.vgg11, 32, imagenet.along_a_cosine),
}


# Slots in which Fluid lists variables in the order of a Python set.
UNORDERED = {
    "while": (("inputs", "X"), ("outputs", "Out")),
    "recurrent": (("inputs", "parameters"),),
    "conditional_block": (("inputs", "Input"), ("outputs", "Out")),
}


def build(train: Train) -> tuple[Program, Program]:
    """The main and startup program of a network, with names counted from 0."""
    main, startup = fluid.Program(), fluid.Program()
    reset_name_scopes()
    with names.guard(), fluid.program_guard(main, startup):
        train()
    return main, startup


def operators(program: Program) -> list[dict[str, Any]]:
    """All that a program's operators say, blocks by their number."""
    found = [facts(op) for block in program.blocks for op in block.ops]
    for one in found:
        if "sub_block" in one["attrs"]:
            one["attrs"]["sub_block"] = one["attrs"]["sub_block"].idx
        for side, slot in UNORDERED.get(one["type"], ()):
            one[side] = {**one[side], slot: sorted(one[side][slot])}
    return found


def _variables(program: Program) -> dict[str, Any]:
    return {
        name: var_facts(var)
        for block in program.blocks
        for name, var in block.vars.items()
        if "@GRAD" not in name
    }


def _recorded(model: str, program: str) -> Program:
    return read_program(GOLDEN / "zoo" / model / f"{program}.pb")


def _zero_dropout(program: Program, model: str) -> None:
    """Dropout was turned off in recordings."""
    meta = json.loads((GOLDEN / "zoo" / model / "meta.json").read_text())
    if meta["dropout_zeroed"]:
        for op in program.global_block().ops:
            if op.has_attr("dropout_prob"):
                op.set_attr("dropout_prob", 0.0)


@needs_golden
@pytest.mark.parametrize("model", often(MODELS, MODELS.keys() - LARGE))
def test_operators_are_fluids(model: str) -> None:
    main, startup = build(MODELS[model])
    _zero_dropout(main, model)
    for program, name in ((main, "main"), (startup, "startup")):
        wanted = operators(_recorded(model, name))
        for made, recorded in zip(operators(program), wanted, strict=False):
            assert made == recorded
        assert len(operators(program)) == len(wanted)


@needs_golden
@pytest.mark.parametrize("model", often(MODELS, MODELS.keys() - LARGE))
def test_variables_are_fluids(model: str) -> None:
    for program, name in zip(build(MODELS[model]), ("main", "startup"), strict=True):
        assert _variables(program) == _variables(_recorded(model, name))
