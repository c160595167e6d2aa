"""Which kernels torch uses for an operator: cuDNN, oneDNN or its own, and how those choose.

An operator of which a program, a strategy or a flag says something is called under settings of
torch (`kernels/settings.py`). What nothing is said of is torch's choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import torch

from refluid.analysis.uses import find_variable
from refluid.core import flags
from refluid.core.dtypes import VarType
from refluid.core.threads import is_repeatable
from refluid.core.whole_threads import interrupts_later
from refluid.ir.operator import Operator
from refluid.kernels.products import limits
from refluid.kernels.rounded import sizes
from refluid.kernels.settings import KernelFunction, TorchSettings, in_force, under
from refluid.ops.registry import facts_of

# What a program calls float32 is computed in it, as Fluid did: TF32 only where a flag asks for it.
torch.backends.cudnn.allow_tf32 = False

_WORKSPACE = "CUDNN_CONV_WSCAP_DBG"
_HALVES = (VarType.FP16, VarType.BF16)


@dataclass(frozen=True)
class KernelSettings:
    """What flags and a strategy say.

    onednn: oneDNN's kernels, for the operators in `onednn_types`, or for all where there are none;
    the others then use torch's own. search: time cuDNN's algorithms. deterministic: only
    repeatable ones. tensor_math: TF32 and short accumulation on GPUs. native: operators left to
    torch's own kernels on the CPU. layout: of filters, as in `runtime.layout`.
    """

    onednn: bool = False
    onednn_types: frozenset[str] = frozenset()
    search: bool = False
    deterministic: bool = False
    tensor_math: bool = False
    native: frozenset[str] = frozenset()
    layout: str = "auto"


TORCHS_CHOICE = KernelSettings()


def asked_for(onednn_types: Iterable[str] = ()) -> KernelSettings:
    """What the flags say at the moment, and a strategy's `mkldnn_enabled_op_types`."""
    if flags.was_set("conv_workspace_size_limit"):
        flags.export(_WORKSPACE, str(flags.value("conv_workspace_size_limit")))
    sizes.active = bool(flags.value("refluid_rounded_products"))
    limits.told = int(flags.value("refluid_onednn_from"))
    limits.repeatable = is_repeatable()
    limits.panels = bool(flags.value("refluid_panel_products")) and not limits.repeatable
    return _kernels(
        flags.value("use_mkldnn"),
        frozenset(onednn_types),
        flags.value("cudnn_exhaustive_search"),
        flags.value("cudnn_deterministic"),
        flags.value("enable_cublas_tensor_op_math"),
        frozenset(named(flags.value("refluid_native_kernels"))),
        flags.value("refluid_channels_last"),
    )


def named(listed: str) -> list[str]:
    """The names in a list of them by commas."""
    return [name.strip() for name in listed.split(",") if name.strip()]


_kernels = cache(KernelSettings)


def without_choice(op_types: Iterable[str]) -> list[str]:
    """Those of the operator types that have one kernel on the CPU, or are none at all."""
    return sorted(kind for kind in op_types if not has_choice(kind))


def has_choice(kind: str, device: str = "cpu") -> bool:
    """Whether operators of this type have several kernels on such devices."""
    facts = facts_of(kind)
    return facts.amp == "fast" or device in facts.chooses_on


def settings_for(op: Operator, device: torch.device, kernels: KernelSettings) -> TorchSettings:
    """The settings under which an operator is to be called, none where it is torch's choice."""
    kind = op.type.removesuffix("_grad")
    if not has_choice(kind, device.type):
        return ()
    return _ON[device.type](op, kind, kernels) if device.type in _ON else ()


def _on_cpu(op: Operator, kind: str, kernels: KernelSettings) -> TorchSettings:
    types, called = kernels.onednn_types, (kind, *facts_of(kind).made_of)
    if not kernels.native.isdisjoint(called):
        return (("onednn", False),)
    is_named = not types.isdisjoint(called)
    if op.attrs.get("use_mkldnn") or is_named or (kernels.onednn and not types):
        return (("onednn", True),)
    if _is_plain_product(op, kind) or not (types or kernels.native):
        return ()
    return (("onednn", not types),)


def _on_gpu(op: Operator, kind: str, kernels: KernelSettings) -> TorchSettings:
    if "cuda" not in facts_of(kind).chooses_on and "Filter" not in op.inputs:
        return _of_products(op, kernels)
    if not op.attrs.get("use_cudnn", True):
        return (("cudnn", False),)
    asked = {
        "search": kernels.search or bool(op.attrs.get("exhaustive_search")),
        "deterministic": kernels.deterministic,
        "convolutions in TF32": kernels.tensor_math,
    }
    return tuple((name, True) for name, wanted in asked.items() if wanted)


def _is_plain_product(op: Operator, kind: str) -> bool:
    """Whether it is a product of float32 numbers, which torch leaves to MKL in any case."""
    return facts_of(kind).amp == "fast" and "Filter" not in op.inputs and not _takes_halves(op)


def _takes_halves(op: Operator) -> bool:
    found = (find_variable(op.block, name) for name in op.input_arg_names)
    return any(var is not None and var.dtype in _HALVES for var in found)


def _of_products(op: Operator, kernels: KernelSettings) -> TorchSettings:
    if _takes_halves(op):
        names = ("sums of float16", "sums of bfloat16")
        return tuple((name, kernels.tensor_math) for name in names)
    return (("products", "tf32"),) if kernels.tensor_math else ()


_ON: dict[str, Callable[[Operator, str, KernelSettings], TorchSettings]] = {
    "cpu": _on_cpu,
    "cuda": _on_gpu,
}


class KernelChoice:
    """Makes functions of operators run under the settings that are asked for.

    alone: no other operators are called meanwhile.
    """

    def __init__(
        self, device: torch.device, kernels: KernelSettings, *, alone: bool = False
    ) -> None:
        self._device, self._kernels, self._alone = device, kernels, alone
        self._made: dict[tuple[KernelFunction, TorchSettings], KernelFunction] = {}

    def __call__(self, op: Operator, function: KernelFunction) -> KernelFunction:
        """The function itself where nothing is asked for but what torch does anyhow."""
        settings = settings_for(op, self._device, self._kernels)
        # Where others are called under other settings, in threads, what torch does changes.
        others = (self._kernels.onednn_types or self._kernels.native) and not self._alone
        if not settings or (in_force(settings) and not others):
            return function
        # In whole: Ctrl-C would leave torch with the settings, and others waiting for their own.
        whole = interrupts_later()(under(settings, function))
        return self._made.setdefault((function, settings), whole)
