"""What is done to a model before it is run, as a list of names that users may change.

The names are Fluid's. Of Fluid's passes those are here that gain something on torch's kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from refluid.core.errors import EnforceNotMet
from refluid.core.notices import tell_once
from refluid.engine.strategy import DEFAULT, Strategy
from refluid.fluid.inference.quantizing import no_quantizer

# Computes with parameters: predictors do it once, to their own copy.
FOLD = "conv_bn_fuse_pass"
# Name -> the option of a strategy that does it.
OPTIONS = {
    "fc_fuse_pass": "fuse_gemm_epilogue",
    "conv_elementwise_add_act_fuse_pass": "fuse_elewise_add_act_ops",
}
KNOWN = (FOLD, *OPTIONS)


class PaddlePassBuilder:
    """Names of passes, in their order."""

    def __init__(self, passes: Sequence[str]) -> None:
        self._passes = list(passes)
        self._analysis: list[str] = []
        self._debug = False

    def set_passes(self, passes: Sequence[str]) -> None:
        """Has these passes and no others."""
        self._passes = [_known(name) for name in passes]

    def append_pass(self, name: str) -> None:
        """Adds a pass at the end; EnforceNotMet for one that refluid lacks."""
        self._passes.append(_known(name))

    def insert_pass(self, index: int, name: str) -> None:
        """Adds a pass before the one at `index`."""
        self._passes.insert(index, _known(name))

    def delete_pass(self, name: str) -> None:
        """Leaves a pass out; one that isn't there is said once in the log."""
        if name not in self._passes:
            tell_once(
                f"delete_pass({name!r}): there is no such pass here, so it isn't done anyway; "
                f"there are {', '.join(KNOWN)}"
            )
        self._passes = [one for one in self._passes if one != name]

    def append_analysis_pass(self, name: str) -> None:
        """Fluid's analyses are parts of how refluid prepares a program: an error."""
        raise EnforceNotMet(f"there are no analysis passes to add to (asked for: {name!r})")

    def all_passes(self) -> list[str]:
        """The names in their order."""
        return list(self._passes)

    def analysis_passes(self) -> list[str]:
        """None: see `append_analysis_pass`."""
        return list(self._analysis)

    def turn_on_debug(self) -> None:
        """Writes the graphs of the stages beside the program, as `switch_ir_debug` does."""
        self._debug = True

    def debug_string(self) -> str:
        """The names, one per line."""
        return "\n".join(["Passes to apply:", *(f"  - {name}" for name in self._passes)])


class PassStrategy(PaddlePassBuilder):
    """The passes of a place."""

    _gpu = False

    def use_gpu(self) -> bool:
        """Whether the model runs on a GPU."""
        return self._gpu

    def enable_cudnn(self) -> None:
        """torch chooses cuDNN by itself."""
        tell_once("PassStrategy.enable_cudnn has no effect here: torch uses cuDNN by itself")

    def enable_mkldnn(self) -> None:
        """torch chooses oneDNN by itself."""
        tell_once("PassStrategy.enable_mkldnn has no effect here: torch uses oneDNN by itself")

    def enable_mkldnn_quantizer(self) -> None:
        """Raises EnforceNotMet."""
        raise no_quantizer()


class CpuPassStrategy(PassStrategy):
    """The passes on the CPU."""

    def __init__(self, passes: Sequence[str] | CpuPassStrategy = KNOWN) -> None:
        super().__init__(passes.all_passes() if isinstance(passes, PassStrategy) else passes)


class GpuPassStrategy(PassStrategy):
    """The passes on GPUs."""

    _gpu = True

    def __init__(self, passes: Sequence[str] | GpuPassStrategy = KNOWN) -> None:
        super().__init__(passes.all_passes() if isinstance(passes, PassStrategy) else passes)


def strategy_of(passes: Sequence[str], graphs: str = "", onednn: frozenset[str] = frozenset()
) -> Strategy:  # fmt: skip
    """The strategy that does these passes. graphs: where drawings of the stages go."""
    wanted: dict[str, Any] = {OPTIONS[name]: True for name in passes if name in OPTIONS}
    if not wanted and not graphs and not onednn:
        return DEFAULT
    return replace(DEFAULT, **wanted, debug_graphviz_path=graphs, mkldnn_enabled_op_types=onednn)


def _known(name: str) -> str:
    if name not in KNOWN:
        raise EnforceNotMet(f"there is no pass {name!r} here; there are {', '.join(KNOWN)}")
    return name
