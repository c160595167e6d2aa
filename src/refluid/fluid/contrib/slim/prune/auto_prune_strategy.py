"""`AutoPruneStrategy`: searches how much of each parameter is cut out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from refluid.fluid.contrib.slim.prune.cutting import prunable
from refluid.fluid.contrib.slim.prune.prune_strategy import PruneStrategy
from refluid.fluid.contrib.slim.prune.pruner import StructurePruner

__all__ = ["AutoPruneStrategy"]

_log = logging.getLogger("refluid.slim")
# Tokens are hundredths of a parameter's filters.
_WHOLE = 100


class AutoPruneStrategy(PruneStrategy):
    """From `start_epoch` on tries ratios that a controller proposes; at `end_epoch` the best stay.

    Each is trained for `retrain_epoch` epochs (0: none), evaluated, and undone. min_ratio,
    max_ratio: share of the FLOPS that goes. uniform_range: the most that goes of a parameter.
    init_tokens: hundredths by parameter to begin with; by default all alike.
    """

    def __init__(
        self,
        pruner: StructurePruner | None = None,
        controller: Any = None,
        start_epoch: int = 0,
        end_epoch: int = 10,
        min_ratio: float = 0.5,
        max_ratio: float = 0.7,
        metric_name: str = "top1_acc",
        pruned_params: str = "conv.*_weights",
        retrain_epoch: int = 0,
        uniform_range: float | None = None,
        init_tokens: Sequence[int] | None = None,
    ) -> None:
        super().__init__(pruner, start_epoch, end_epoch, 0.0, metric_name, pruned_params)
        if not 0 <= min_ratio <= max_ratio < 1:
            raise ValueError(f"min_ratio {min_ratio} and max_ratio {max_ratio}: 0 to 1, in order")
        self.controller, self.retrain_epoch = controller, retrain_epoch
        self.min_ratio, self.max_ratio = min_ratio, max_ratio
        self.uniform_range, self.init_tokens = uniform_range, init_tokens
        self._names: list[str] = []
        self._tokens: list[int] = []
        self._before: Any = None

    def on_compression_begin(self, context: Any) -> None:
        if self.controller is None:
            raise ValueError("AutoPruneStrategy needs a controller: a SAController")
        self._names = prunable(context.eval_graph, self.pruned_params)
        most = round(_WHOLE * (0.95 if self.uniform_range is None else self.uniform_range))
        tokens = self.init_tokens or self._alike(context, most)
        self.controller.reset(
            [most + 1] * len(self._names), list(tokens), lambda one: self._allows(context, one)
        )
        self._tokens = list(tokens)

    def on_epoch_begin(self, context: Any) -> None:
        if context.epoch_id == self.end_epoch:
            best = self.controller.best_tokens
            _log.info(
                "the best ratios, of %.4f: %s", self.controller.max_reward, self._ratios(best)
            )
            self._prune(context, self._ratios(best))
        elif self._searches(context) and self._before is None:
            self._before = context.snapshot()
            self._prune(context, self._ratios(self._tokens))
        context.skip_training = self._searches(context) and not self.retrain_epoch

    def on_epoch_end(self, context: Any) -> None:
        if not self._searches(context):
            return
        context.skip_training = False
        if (context.epoch_id - self.start_epoch + 1) % max(self.retrain_epoch, 1):
            return
        results, names = context.run_eval_graph()
        reward = float(results[list(names).index(self.metric_name)])
        self.controller.update(self._tokens, reward)
        _log.info("%.4f by %s", reward, self._ratios(self._tokens))
        context.restore(self._before)
        self._before = None
        if context.epoch_id + 1 < self.end_epoch:
            self._tokens = self.controller.next_tokens()

    def _searches(self, context: Any) -> bool:
        return bool(self.start_epoch <= context.epoch_id < self.end_epoch)

    def _ratios(self, tokens: Sequence[int]) -> dict[str, float]:
        return {name: one / _WHOLE for name, one in zip(self._names, tokens, strict=True)}

    def _allows(self, context: Any, tokens: Sequence[int]) -> bool:
        saved = self._saved_by(context, self._ratios(tokens))
        return self.min_ratio <= saved <= self.max_ratio

    def _alike(self, context: Any, most: int) -> list[int]:
        for one in range(most + 1):
            tokens = [one] * len(self._names)
            if self._allows(context, tokens):
                return tokens
        raise ValueError(
            f"no ratio up to {most}% of all of pruned_params {self.pruned_params!r} saves "
            f"{self.min_ratio:.0%} to {self.max_ratio:.0%} of the FLOPS: widen the range"
        )
