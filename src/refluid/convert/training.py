"""The optimizer of a training program, as a function that makes PyTorch's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from refluid.convert.checking import run_program
from refluid.convert.members import Written
from refluid.convert.printer import wrapped
from refluid.convert.site import short
from refluid.convert.source import Source
from refluid.convert.table import NoCounterpart
from refluid.ir.attributes import OpRole
from refluid.ir.operator import Operator
from refluid.passes.prune import prune

WrittenOptions = Callable[[Operator], str]


def _momentum(op: Operator) -> str:
    nesterov = ", nesterov=True" if op.attrs.get("use_nesterov") else ""
    return f", momentum={short(op.attrs['mu'])!r}{nesterov}"


def _adam(op: Operator) -> str:
    betas = short(op.attrs.get("beta1", 0.9)), short(op.attrs.get("beta2", 0.999))
    return f", betas={betas}, eps={short(op.attrs.get('epsilon', 1e-8))!r}"


# Fluid's operator -> PyTorch's optimizer, and the options that follow the learning rate.
_OPTIMIZERS: Mapping[str, tuple[str, WrittenOptions]] = {
    "sgd": ("SGD", lambda _op: ""),
    "momentum": ("SGD", _momentum),
    "adam": ("Adam", _adam),
    "adamax": ("Adamax", _adam),
    "adagrad": ("Adagrad", lambda op: f", eps={short(op.attrs.get('epsilon', 1e-6))!r}"),
}


def updates_of(source: Source) -> list[Operator]:
    """The operators that update parameters."""
    assert source.whole is not None
    ops = [op for block in source.whole.blocks for op in block.ops]
    return [op for op in ops if op.role & OpRole.OPTIMIZE and op.input("Param")]


def print_optimizer(source: Source, written: Written) -> str:
    """The text of `make_optimizer`; empty where nothing is updated.

    Raises NoCounterpart for optimizers of several kinds, and for one that PyTorch lacks.
    """
    updates = updates_of(source)
    if not updates:
        return ""
    kinds = sorted({op.type for op in updates})
    if len(kinds) > 1 or kinds[0] not in _OPTIMIZERS:
        raise NoCounterpart(f"no PyTorch for the optimizer {' + '.join(kinds)}")
    name, options = _OPTIMIZERS[kinds[0]]
    keys = keys_of(written)
    groups: dict[float, list[str]] = defaultdict(list)
    for op in updates:
        parameter = op.input("Param")[0]
        if parameter in keys:
            groups[_decay(source, op)].extend(keys[parameter])
    rate, notes = _rate(source, updates[0])
    notes = [*notes, *_clipping(source)]
    known = set(written.origins) - set(written.untrained) - set(written.ties)
    known = {key for key in known if not key.endswith((".running_mean", ".running_var"))}
    whole = len(groups) == 1 and {*groups[next(iter(groups))]} == known
    lines = ["", "", "def make_optimizer(model):"]
    lines.append(f'    """{name} as the Fluid program has it."""')
    lines += [f"    # {note}" for note in notes]
    tail = f"lr={rate!r}{options(updates[0])}"
    if whole:
        decay = next(iter(groups))
        decayed = f", weight_decay={decay!r}" if decay else ""
        call = f"    return torch.optim.{name}(model.parameters(), {tail}{decayed})"
        lines += wrapped(call)
    else:
        lines.append("    parameters = dict(model.named_parameters())")
        lines.append("    groups = [")
        for decay, names in groups.items():
            listed = ", ".join(f'"{one}"' for one in names)
            lines.append("        {")
            lines.append(f'            "params": [parameters[name] for name in ({listed},)],')
            lines.append(f'            "weight_decay": {decay!r},')
            lines.append("        },")
        lines.append("    ]")
        lines.append(f"    return torch.optim.{name}(groups, {tail})")
    return "\n".join(lines) + "\n"


def keys_of(written: Written) -> dict[str, list[str]]:
    """Fluid's name of a variable -> its parts in the state_dict."""
    found: dict[str, list[str]] = defaultdict(list)
    for key, origin in written.origins.items():
        if key not in written.ties:
            found[origin.weight.name].append(key)
    return found


def _makers(source: Source) -> dict[str, Operator]:
    assert source.whole is not None
    return {name: op for op in source.whole.global_block().ops for name in op.output_arg_names}


def _decay(source: Source, update: Operator) -> float:
    """The coefficient of L2Decay: gradient + coefficient * parameter."""
    parameter, gradient = update.input("Param")[0], update.input("Grad")[0]
    makers = {}
    assert source.whole is not None
    for op in source.whole.global_block().ops:
        if op is update:
            break
        makers.update(dict.fromkeys(op.output_arg_names, op))
    maker = makers.get(gradient)
    if maker is None or maker.type != "sum":
        return 0.0
    for name in maker.input("X"):
        one = makers.get(name)
        if one is not None and one.type == "scale" and one.input("X") == [parameter]:
            return float(short(one.attrs["scale"]))
        if one is not None and one.type == "scale" and one.input("X") != [parameter]:
            inner = makers.get(one.input("X")[0])
            if inner is not None and inner.type == "sign":
                raise NoCounterpart("no PyTorch for L1Decay in an optimizer")
    return 0.0


def _rate(source: Source, update: Operator) -> tuple[float, list[str]]:
    """The learning rate of the first step, and what is to be said of it."""
    name = update.input("LearningRate")[0]
    if name in source.values and name not in _makers(source):
        return float(short(float(source.values[name].flatten()[0]))), []
    assert source.whole is not None
    program = prune(source.whole.clone(), [name], [])
    schedule = Source("rate", program, source.values, (), (name,))
    value = float(run_program(schedule, {})[0].flatten()[0])
    kinds = ", ".join(dict.fromkeys(op.type for op in schedule.ops))
    note = f"The rate of the first step; Fluid's operators change it ({kinds}):"
    return float(short(value)), [note, "choose a torch.optim.lr_scheduler for it."]


def _clipping(source: Source) -> list[str]:
    assert source.whole is not None
    kinds = {
        op.type
        for op in source.whole.global_block().ops
        if op.role & (OpRole.BACKWARD | OpRole.OPTIMIZE)
    }
    if "clip_by_norm" in kinds:
        return ["Fluid clips each gradient by its norm: torch.nn.utils.clip_grad_norm_ for each."]
    if {"elementwise_max", "sqrt", "elementwise_div"} <= kinds:
        return ["Fluid clips gradients by their global norm: torch.nn.utils.clip_grad_norm_."]
    if "clip" in kinds:
        return ["Fluid clips gradients by value: torch.nn.utils.clip_grad_value_."]
    return []
