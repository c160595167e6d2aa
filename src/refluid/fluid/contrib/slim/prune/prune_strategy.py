"""Strategies that cut filters out of convolutions: all alike, or by what each costs."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from refluid.fluid.contrib.slim.core.strategy import Strategy
from refluid.fluid.contrib.slim.graph.resizing import declare
from refluid.fluid.contrib.slim.prune.cutting import choose, cut_values, prunable, put_back
from refluid.fluid.contrib.slim.prune.pruner import StructurePruner

__all__ = ["PruneStrategy", "SensitivePruneStrategy", "UniformPruneStrategy"]

_log = logging.getLogger("refluid.slim")
# A ratio is searched until FLOPS are so near to what was asked for, or so many times.
_NEAR, _MOST = 0.002, 30
# What a ratio costs at least, as a share of the metric.
_SLOPE = 1e-3
Curve = dict[float, float]


class PruneStrategy(Strategy):
    """What cutting strategies share.

    pruner: a `StructurePruner`. target_ratio: share of the FLOPS that goes. metric_name: the title
    of what evaluation is judged by. pruned_params: a regular expression of whole names.
    """

    def __init__(
        self,
        pruner: StructurePruner | None = None,
        start_epoch: int = 0,
        end_epoch: int = 0,
        target_ratio: float = 0.5,
        metric_name: str | None = None,
        pruned_params: str = "conv.*_weights",
    ) -> None:
        super().__init__(start_epoch, end_epoch)
        if not 0 <= target_ratio < 1:
            raise ValueError(
                f"target_ratio is a share of the FLOPS from 0 to 1, not {target_ratio}"
            )
        self.pruner, self.target_ratio = pruner, target_ratio
        self.metric_name, self.pruned_params = metric_name, pruned_params

    def _saved_by(self, context: Any, ratios: Mapping[str, float]) -> float:
        """The share of the FLOPS that these ratios save."""
        graph = context.eval_graph.clone()
        before = graph.flops()
        declare(graph, choose(graph, self._pruner(), ratios, context.scope))
        return float(1 - graph.flops() / before)

    def _prune(self, context: Any, ratios: Mapping[str, float]) -> None:
        """Cuts all graphs and the values in the scope."""
        pruner = self._pruner()
        before, elements = context.eval_graph.flops(), context.eval_graph.numel_params()
        marks = choose(context.eval_graph, pruner, ratios, context.scope)
        graphs = context.graphs()
        cut_values(graphs, marks, pruner, context.scope, context.place)
        for graph in graphs:
            declare(graph, marks)
        after = context.eval_graph.flops()
        _log.info(
            "pruned: FLOPS %s -> %s (-%.1f%%), parameters %s -> %s",
            f"{before:,}",
            f"{after:,}",
            100 * (1 - after / before),
            f"{elements:,}",
            f"{context.eval_graph.numel_params():,}",
        )
        context.changed()

    def _pruner(self) -> StructurePruner:
        if self.pruner is None:
            raise ValueError(f"{self.__class__.__name__} needs a pruner: a StructurePruner")
        return self.pruner

    def _search(self, context: Any, ratios_at: Any, goal: float, most: float) -> dict[str, float]:
        """The ratios that save `goal` of the FLOPS, of those that a number up to `most` gives."""
        low, high = 0.0, most
        ratios: dict[str, float] = ratios_at(high)
        if self._saved_by(context, ratios) < goal:
            raise ValueError(
                f"pruned_params {self.pruned_params!r} can't save {goal:.0%} of the FLOPS: all of "
                f"them together save {self._saved_by(context, ratios):.0%}"
            )
        for _ in range(_MOST):
            middle = (low + high) / 2
            ratios = ratios_at(middle)
            saved = self._saved_by(context, ratios)
            if abs(saved - goal) <= _NEAR:
                break
            low, high = (middle, high) if saved < goal else (low, middle)
        return ratios


class UniformPruneStrategy(PruneStrategy):
    """At `start_epoch` cuts the same share out of each parameter, so that FLOPS are as asked."""

    def on_epoch_begin(self, context: Any) -> None:
        if context.epoch_id != self.start_epoch:
            return
        names = prunable(context.eval_graph, self.pruned_params)
        ratios = self._search(
            context, lambda ratio: dict.fromkeys(names, ratio), self.target_ratio, 0.95
        )
        _log.info("each of %d parameters loses %.1f%%", len(names), 100 * ratios[names[0]])
        self._prune(context, ratios)


class SensitivePruneStrategy(PruneStrategy):
    """At `start_epoch`, and in `num_steps - 1` epochs after it, cuts more out of parameters that
    the model can better do without.

    delta_rate: step of the ratios at which the loss of the metric is measured for each parameter
    alone. sensitivities_file: a JSON file where the measured losses are kept, and taken from.
    num_steps: in each, so much goes that all together are `target_ratio`. eval_rate: share of the
    evaluation's batches that a measurement takes; None for all.
    """

    def __init__(
        self,
        pruner: StructurePruner | None = None,
        start_epoch: int = 0,
        end_epoch: int = 0,
        delta_rate: float = 0.2,
        target_ratio: float = 0.5,
        metric_name: str = "top1_acc",
        pruned_params: str = "conv.*_weights",
        sensitivities_file: str = "./sensitivities.data",
        sensitivities: Mapping[str, Mapping[float, float]] = {},
        num_steps: int = 1,
        eval_rate: float | None = None,
    ) -> None:
        super().__init__(pruner, start_epoch, end_epoch, target_ratio, metric_name, pruned_params)
        if not 0 < delta_rate < 1:
            raise ValueError(f"delta_rate is a step between 0 and 1, not {delta_rate}")
        if num_steps < 1:
            raise ValueError(f"num_steps is at least 1, not {num_steps}")
        self.delta_rate, self.num_steps, self.eval_rate = delta_rate, num_steps, eval_rate
        self.sensitivities_file = sensitivities_file
        self.sensitivities = {name: dict(curve) for name, curve in sensitivities.items()}

    def on_epoch_begin(self, context: Any) -> None:
        step = context.epoch_id - self.start_epoch
        if not 0 <= step < self.num_steps:
            return
        if step:
            self.sensitivities = {}  # of the model as it was
        names = prunable(context.eval_graph, self.pruned_params)
        curves = self._measured(context, names, kept=not step)
        goal = 1 - (1 - self.target_ratio) ** (1 / self.num_steps)
        most = max(max(curve.values()) for curve in curves.values()) + _SLOPE

        def ratios_at(loss: float) -> dict[str, float]:
            return {name: ratio_for(curve, loss) for name, curve in curves.items()}

        ratios = self._search(context, ratios_at, goal, most)
        _log.info("ratios: %s", {name: round(ratio, 3) for name, ratio in ratios.items()})
        self._prune(context, ratios)

    def _measured(self, context: Any, names: list[str], *, kept: bool) -> dict[str, Curve]:
        """For each parameter how much of the metric is lost, as a share, by the ratio cut."""
        file = Path(self.sensitivities_file)
        curves = dict(self.sensitivities)
        if kept and file.is_file():
            curves |= _read(file)
        ratios = np.arange(self.delta_rate, 1, self.delta_rate)
        base: float | None = None
        for name in names:
            curve = curves.setdefault(name, {})
            for ratio in (round(float(one), 6) for one in ratios):
                if ratio in curve:
                    continue
                if base is None:
                    base = self._evaluated(context)
                curve[ratio] = (base - self._without(context, name, ratio)) / abs(base or 1.0)
                _log.info("%s without %.0f%%: %.4f lost", name, 100 * ratio, curve[ratio])
                if kept:
                    _write(file, curves)
        return {name: curves[name] for name in names}

    def _without(self, context: Any, name: str, ratio: float) -> float:
        pruner = self._pruner()
        graph = context.eval_graph
        value = np.array(context.scope.find_var(name).get_tensor())
        axis = pruner.axis_of(name)
        indices = pruner.cal_pruned_idx(name, value, ratio, axis)
        marks = {(name, axis): set(map(int, indices))}
        former = cut_values([graph], marks, pruner, context.scope, context.place, lazy=True)
        try:
            return self._evaluated(context)
        finally:
            put_back(former, context.scope, context.place)

    def _evaluated(self, context: Any) -> float:
        results, names = context.run_eval_graph(self.eval_rate)
        if self.metric_name not in names:
            raise ValueError(
                f"metric_name {self.metric_name!r} is not evaluated; there are {list(names)}"
            )
        return float(np.mean(results[list(names).index(self.metric_name)]))


def ratio_for(curve: Mapping[float, float], loss: float) -> float:
    """The largest ratio whose loss is at most `loss`, by straight lines between what was measured.

    Losses count as growing: a ratio costs a little more than a smaller one, whatever was measured.
    """
    ratios = np.array([0.0, *sorted(curve)])
    losses = np.maximum.accumulate([0.0, *(max(curve[one], 0.0) for one in sorted(curve))])
    losses = losses + _SLOPE * ratios
    if loss >= losses[-1]:
        return float(ratios[-1])
    after = int(np.searchsorted(losses, loss, "right"))
    share = (loss - losses[after - 1]) / (losses[after] - losses[after - 1])
    return float(ratios[after - 1] + share * (ratios[after] - ratios[after - 1]))


def _read(file: Path) -> dict[str, Curve]:
    try:
        found = json.loads(file.read_text())
        return {name: {float(at): float(v) for at, v in one.items()} for name, one in found.items()}
    except (ValueError, AttributeError, UnicodeDecodeError):
        raise ValueError(f"{file} holds no sensitivities that were measured here") from None


def _write(file: Path, curves: Mapping[str, Curve]) -> None:
    file.write_text(json.dumps(curves, indent=1))
