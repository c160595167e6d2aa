"""Steps of a `Model` where functions run at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from refluid.fluid.dygraph.base import no_grad
from refluid.paddle.amp.casting import auto_cast
from refluid.paddle.amp.decorating import decorate
from refluid.paddle.amp.scaling import GradScaler
from refluid.paddle.distributed.data_parallel import DataParallel
from refluid.paddle.hapi.given import as_array, listed
from refluid.paddle.tensor.creation import to_tensor

# What of `amp_configs` is the scaler's.
_SCALING = frozenset(
    [
        "decr_every_n_nan_or_inf",
        "decr_ratio",
        "incr_every_n_steps",
        "incr_ratio",
        "init_loss_scaling",
        "use_dynamic_loss_scaling",
    ]
)


class StepsAtOnce:
    """Trains, evaluates and predicts batches. amp: of `Model.prepare`, with its level."""

    def __init__(self, model: Any, amp: dict[str, Any]) -> None:
        self._model, settings = model, dict(amp)
        level = settings.pop("level", "O0")
        scaling = {name: settings.pop(name) for name in _SCALING & settings.keys()}
        self._scaler = None if level == "O0" else GradScaler(**scaling)
        self._casting = {**settings, "level": level}
        self._parallel: Any = None
        if level == "O2":
            given = {"models": model.network, "optimizers": model._optimizer, "level": "O2"}
            decorate(**given, dtype=settings.get("dtype", "float16"))
        if model.processes > 1:
            self._parallel = DataParallel(model.network)

    def _cast(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._scaler is None else auto_cast(**self._casting)

    def _computed(self, inputs: Sequence[Any], labels: Sequence[Any]) -> tuple[list[Any], ...]:
        """Results, losses, and labels as variables."""
        model = self._model
        network = self._parallel or model.network
        given = [to_tensor(one) for one in labels]
        with self._cast():
            outputs = listed(network(*[to_tensor(one) for one in inputs]))
            losses = listed(model._loss(*outputs, *given)) if model._loss else []
        return outputs, losses, given

    def train(self, inputs: Sequence[Any], labels: Sequence[Any], update: bool) -> Any:
        """One step: losses, and what the metrics say."""
        model = self._model
        assert model._optimizer is not None, "model not ready, please call `model.prepare()` first"
        model.network.train()
        outputs, losses, given = self._computed(inputs, labels)
        assert losses, "training needs a loss: give it to `model.prepare()`"
        total = losses[0]
        for one in losses[1:]:
            total = total + one
        (total if self._scaler is None else self._scaler.scale(total)).backward()
        if update:
            self._update()
        return self._answer(outputs, losses, given)

    def _update(self) -> None:
        optimizer = self._model._optimizer
        if self._scaler is None:
            optimizer.step()
        else:
            self._scaler.step(optimizer)
            self._scaler.update()
        optimizer.clear_grad()

    def evaluate(self, inputs: Sequence[Any], labels: Sequence[Any]) -> Any:
        """Losses, and what the metrics say."""
        self._model.network.eval()
        with no_grad():
            return self._answer(*self._computed(inputs, labels))

    def predict(self, inputs: Sequence[Any]) -> list[Any]:
        """The results as arrays."""
        self._model.network.eval()
        with no_grad(), self._cast():
            outputs = listed(self._model.network(*[to_tensor(one) for one in inputs]))
        return [as_array(one) for one in outputs]

    def _answer(
        self, outputs: Sequence[Any], losses: Sequence[Any], labels: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        said = []
        for metric in self._model._metrics:
            computed = listed(metric.compute(*outputs, *labels))
            said.append(metric.update(*[as_array(one) for one in computed]))
        return [as_array(one) for one in losses], said

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Of the network and of the optimizer."""
        optimizer = self._model._optimizer
        return self._model.network.state_dict(), optimizer.state_dict() if optimizer else {}

    def load(self, optimizer_state: dict[str, Any]) -> None:
        """Has the optimizer go on from a state."""
        self._model._optimizer.set_state_dict(optimizer_state)
