"""Passes by Fluid's names, for scripts that ask for them."""

from __future__ import annotations

from typing import Any


class Pass:
    """A pass of Fluid's by its name, with the settings that it was given."""

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._settings: dict[str, Any] = {}

    def type(self) -> str:
        """Its name."""
        return self._name

    def has(self, name: str) -> bool:
        """Whether a setting was given."""
        return name in self._settings

    def set(self, name: str, value: Any) -> None:
        """Gives a setting."""
        self._settings[name] = value


class PassBuilder:
    """Passes by Fluid's names: what is asked for in vain raises, as refluid has passes of its own.

    The strategy's options, and optimizers that wrap others, ask for what refluid has.
    """

    def __init__(self) -> None:
        self._passes: list[Pass] = []

    def all_passes(self) -> list[Pass]:
        """The passes that were added."""
        return list(self._passes)

    def append_pass(self, name: str) -> Pass:
        """Asks for a pass, after the others."""
        return self.insert_pass(len(self._passes), name)

    def insert_pass(self, index: int, name: str) -> Pass:
        """Asks for a pass: NotImplementedError unless it only draws or frees."""
        if name not in _IDLE_PASSES:
            instead = _INSTEAD.get(name, "docs/passes.md lists those that run by strategies")
            raise NotImplementedError(f"refluid has no pass {name!r}: {instead}")
        self._passes.insert(index, Pass(name))
        return self._passes[index]

    def remove_pass(self, index: int) -> None:
        """Takes a pass out again."""
        del self._passes[index]


# What refluid does in any case, or what only draws.
_IDLE_PASSES = {
    "eager_deletion_pass",
    "graph_print_pass",
    "graph_to_program_pass",
    "graph_viz_pass",
    "inplace_pass",
    "lock_free_optimize_pass",
    "memory_optimize_pass",
    "reference_count_pass",
}
_INSTEAD = {
    "multi_batch_merge_pass": "fluid.optimizer.GradientMergeOptimizer(optimizer, k_steps) has "
    "several batches make one step",
}
