"""Takes a recorded training program apart: how it was optimised, and the state before that."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refluid.core import names
from refluid.fluid import clip, optimizer, regularizer
from refluid.ir import ambient
from refluid.ir.attributes import OpRole
from refluid.ir.block import Block
from refluid.ir.defaults import program_guard
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable

RATE_SCOPE = "scale_with_param_lr"
CLIPS = {
    "clip": lambda op: clip.GradientClipByValue(op.attr("max"), op.attr("min")),
    "clip_by_norm": lambda op: clip.GradientClipByNorm(op.attr("max_norm")),
    "fill_constant": lambda op: clip.GradientClipByGlobalNorm(op.attr("value")),
}
KEPT = {
    "Moment1": r"moment1_\d+",
    "Velocity": r"velocity_\d+",
    "AvgSquaredGrad": r"_avg_squared_grad_\d+",
    "MeanSquare": r"mean_square_\d+",
    "Moment": r"moment_\d+",
}
OPTIMIZERS = {
    "sgd": lambda op, rate, **both: optimizer.SGD(rate, **both),
    "adagrad": lambda op, rate, **both: optimizer.Adagrad(rate, op.attr("epsilon"), **both),
    "adadelta": lambda op, rate, **both: optimizer.Adadelta(
        rate, op.attr("epsilon"), op.attr("rho"), **both
    ),
    "rmsprop": lambda op, rate, **both: optimizer.RMSProp(
        rate, op.attr("decay"), op.attr("epsilon"), op.attr("momentum"), op.attr("centered"), **both
    ),
    "momentum": lambda op, rate, **both: optimizer.Momentum(
        rate, op.attr("mu"), use_nesterov=op.attr("use_nesterov"), **both
    ),
    "adam": lambda op, rate, **both: optimizer.Adam(
        rate,
        beta1=op.attr("beta1"),
        beta2=op.attr("beta2"),
        epsilon=op.attr("epsilon"),
        lazy_mode=op.attr("lazy_mode"),
        **both,
    ),
}


def read_program(path: Path) -> Program:
    """A recorded program."""
    data = path.read_bytes()
    return Program.parse_from_string(gzip.decompress(data) if path.suffix == ".gz" else data)


def training_programs(model: Path) -> list[Path]:
    """The main programs of a recorded model."""
    return sorted(model.glob("main*.pb*"))


def startup_of(main: Path) -> Program:
    """The startup program beside a main program."""
    folder = main.parent
    found = sorted(folder.glob("startup*.pb*"))
    tag = main.name.removeprefix("main")
    return read_program(next((one for one in found if one.name.endswith(tag)), found[0]))


def facts(op: Operator) -> dict[str, Any]:
    """All that makes an operator equal to another, whatever its user's source line."""
    attrs = {name: value for name, value in op.attrs.items() if name != "op_callstack"}
    kinds = {name: kind.name for name, kind in op.attr_types.items() if name in attrs}
    return {
        "type": op.type,
        "inputs": op.inputs,
        "outputs": op.outputs,
        "attrs": attrs,
        "kinds": kinds,
    }


def var_facts(var: Variable) -> dict[str, Any]:
    """What a program file says of a variable."""
    return {
        "name": var.name,
        "kind": var.type,
        "shape": var.shape,
        "dtype": var.dtype,
        "persistable": var.persistable,
    }


@dataclass
class Recorded:
    """A program split where its optimizer begins."""

    block: Block
    first: int
    last: int

    @property
    def appended(self) -> list[Operator]:
        return self.block.ops[self.first : self.last]

    @property
    def updates(self) -> list[Operator]:
        return [op for op in self.appended if op.input("Param")]

    def scoped(self, scope: str) -> list[Operator]:
        return [op for op in self.appended if scope in op.attrs["op_namescope"]]


def split(program: Program) -> Recorded | None:
    """Finds the optimizer's operators; None where the program has none."""
    block = program.global_block()
    updates = [index for index, op in enumerate(block.ops) if op.input("Param")]
    if not updates:
        return None
    first = next(
        index
        for index, op in enumerate(block.ops)
        if int(op.attrs.get("op_role", 0)) & OpRole.OPTIMIZE
    )
    return Recorded(block, first, updates[-1] + 1)


def learning_rate(recorded: Recorded, startup: Program) -> float | str:
    """The number given to the optimizer, or the name of the variable."""
    scaled = {
        name: op.input("X")[0] for op in recorded.scoped(RATE_SCOPE) for name in op.output_arg_names
    }
    given = recorded.updates[0].input("LearningRate")
    unused = "learning_rate" if "learning_rate" in recorded.block.vars else "learning_rate_0"
    rate = scaled.get(given[0], given[0]) if given else unused
    if not re.fullmatch(r"learning_rate_\d+", rate):
        return rate
    return start_value(startup, rate)


def start_value(startup: Program, name: str) -> float:
    """What the startup program fills a variable with."""
    ops = startup.global_block().ops
    return float(next(op.attrs["value"] for op in ops if op.output("Out") == [name]))


def own_rates(recorded: Recorded) -> dict[str, float]:
    """Factors of the learning rate by parameter."""
    scales = {op.output("Out")[0]: op.attrs["scale"] for op in recorded.scoped(RATE_SCOPE)}
    return {
        op.input("Param")[0]: scales[rate]
        for op in recorded.updates
        for rate in op.input("LearningRate")
        if rate in scales
    }


def decays(recorded: Recorded) -> dict[str, Any]:
    """Regularizers by parameter."""
    ops = recorded.scoped("/regularization/")
    signed = {op.attrs["op_role_var"][0] for op in ops if op.type == "sign"}
    return {
        param: (regularizer.L1Decay if param in signed else regularizer.L2Decay)(op.attrs["scale"])
        for op in ops
        if op.type == "scale"
        for param in [op.attrs["op_role_var"][0]]
    }


def gradient_clip(recorded: Recorded) -> tuple[Any, bool]:
    """The gradient clip, and whether it was given to the optimizer."""
    ops = [op for op in recorded.appended if "ent_clip" in op.attrs["op_namescope"]]
    found = next((CLIPS[op.type](op) for op in ops if op.type in CLIPS), None)
    return found, bool(ops) and "@CLIP" not in ops[0].attrs["op_namescope"]


def given_name(update: Operator) -> str | None:
    """The optimizer's `name`, as its accumulators show it."""
    for slot, kind in KEPT.items():
        for var in update.input(slot):
            found = re.fullmatch(
                f"(?:(.+)_)?{kind}", var.removeprefix(update.input("Param")[0] + "_")
            )
            return found[1] if found else None
    return None


def count_names_from(recorded: Iterable[Operator], known: Iterable[str]) -> None:
    """Lets generated names go on where they went on in the recording."""
    numbers = names._generator.ids
    old = set(known)
    used = {name for op in recorded for name in op.output_arg_names + op.input_arg_names}
    for name in used - old:
        found = re.match(r"(.*?)_(\d+)(?=\.|$)", name)
        if found:
            number = int(found[2])
            numbers[found[1]] = min(numbers.get(found[1], number), number)


def count_scopes_from(first: Operator) -> None:
    """Lets the name scopes of optimizers go on where they went on in the recording."""
    ambient.reset_name_scopes()
    found = re.search(r"/optimizer_(\d+)/", first.attrs["op_namescope"])
    for _ in range(int(found[1]) if found else 0):
        with ambient.name_scope("optimizer"):
            pass


def rebuild(recorded: Recorded, startup: Program, main: Program) -> tuple[Any, list[Any]]:
    """Undoes the optimizer in `main` and makes it anew: (optimizer, pairs to apply it to)."""
    block = recorded.block
    rate = learning_rate(recorded, startup)
    rates, penalties = own_rates(recorded), decays(recorded)
    clipping, to_optimizer = gradient_clip(recorded)
    options = {
        "grad_clip": clipping if to_optimizer else None,
        "name": given_name(recorded.updates[0]),
    }
    if recorded.updates[0].type == "adagrad":
        moment = recorded.updates[0].input("Moment")[0]
        options["initial_accumulator_value"] = start_value(startup, moment)
    pairs = []
    for op in recorded.updates:
        old = block.vars[op.input("Param")[0]]
        param = Parameter(
            block,
            shape=old.shape,
            dtype=old.dtype,
            name=old.name,
            optimize_attr={"learning_rate": rates.get(old.name, 1.0)},
            regularizer=penalties.get(old.name),
            gradient_clip_attr=None if to_optimizer else clipping,
        )
        block.add_var(param)
        pairs.append((param, block.vars[old.name + "@GRAD"]))
    update = recorded.updates[0]
    kept = block.ops[: recorded.first]
    known = {name for one in kept for name in one.output_arg_names + one.input_arg_names}
    known |= {var for pair in pairs for var in (pair[0].name, pair[1].name)}
    for op in recorded.appended:
        for name in op.output_arg_names + op.input_arg_names:
            if name not in known and name != rate:
                block.vars.pop(name, None)
    count_names_from(recorded.appended, known)
    with program_guard(main, Program()):
        given = block.vars[rate] if isinstance(rate, str) else rate
        made = OPTIMIZERS[update.type](update, given, **options)
    return made, pairs
