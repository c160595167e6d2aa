"""The loops of a `Model` over the batches of a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from refluid.feed.datasets import Dataset, IterableDataset
from refluid.paddle.hapi.callbacks import CallbackList, LRScheduler, ModelCheckpoint
from refluid.paddle.hapi.given import listed, parted, size_of
from refluid.paddle.hapi.monitors import EarlyStopping
from refluid.paddle.hapi.progress import ProgBarLogger
from refluid.paddle.io.loader import DataLoader
from refluid.paddle.io.samplers import DistributedBatchSampler


@dataclass(frozen=True)
class Plan:
    """How long a fit goes on, how often it is judged, and how many batches make an update."""

    epochs: int
    eval_freq: int = 1
    accumulate: int = 1
    batches: int | None = None


def loader(
    model: Any, data: Any, batch_size: int, shuffle: bool, drop_last: bool, num_workers: int
) -> Any:
    """What gives the batches of a dataset; anything else as it is. Each process has its share."""
    if not isinstance(data, Dataset):
        return data
    if isinstance(data, IterableDataset):
        return DataLoader(data, batch_size=batch_size, drop_last=drop_last, num_workers=num_workers)
    if model.processes > 1:
        sampler = DistributedBatchSampler(data, batch_size, shuffle=shuffle, drop_last=drop_last)
        return DataLoader(data, batch_sampler=sampler, num_workers=num_workers)
    return DataLoader(
        data,
        batch_size=batch_size,
        shuffle=shuffle,
        drop_last=drop_last,
        num_workers=num_workers,
    )


def length(batches: Any) -> int | None:
    """How many batches there are; None where nobody knows."""
    try:
        return len(batches)
    except (TypeError, RuntimeError, NotImplementedError):
        return None


def callbacks_of(
    model: Any, given: Any, log_freq: int, verbose: int, saving: tuple[int, Any] | None = None
) -> list[Any]:
    """The user's callbacks, with the usual ones where none of their kind is there.

    saving: how often and where, for training.
    """
    found = listed(given)
    for one in found:
        if not hasattr(one, "set_model"):
            raise TypeError(f"a callback is a paddle.callbacks.Callback, not {one!r}")
    kinds = tuple(map(type, found))
    if not any(issubclass(kind, ProgBarLogger) for kind in kinds) and verbose:
        found = [ProgBarLogger(log_freq, verbose), *found]
    if saving is not None:
        if not any(issubclass(kind, ModelCheckpoint) for kind in kinds):
            found = [*found, ModelCheckpoint(*saving)]
        if not any(issubclass(kind, LRScheduler) for kind in kinds):
            found = [*found, LRScheduler()]
        for one in found:
            if isinstance(one, EarlyStopping):
                one.save_dir = saving[1]
    return found


def _names(model: Any) -> list[str]:
    """What is logged: the loss, and each metric."""
    losses = ["loss"] if model._loss is not None else []
    return [*losses, *(name for one in model._metrics for name in listed(one.name()))]


def _bound(model: Any, callbacks: list[Any], **params: Any) -> CallbackList:
    known: dict[str, Any] = dict.fromkeys(("batch_size", "epochs", "steps"))
    known.update(verbose=0, metrics=[])
    return CallbackList(callbacks, model, {**known, **params})


def fit(model: Any, batches: Any, judged: Any, plan: Plan, told: tuple[list[Any], int]) -> None:
    """Trains on batches, and evaluates `judged` now and then. told: callbacks, verbosity."""
    callbacks, verbose = told
    steps, epochs = length(batches), plan.epochs
    left = plan.batches
    if left is not None and steps:
        epochs = -(-left // steps)
    calls = _bound(
        model, callbacks, epochs=epochs, steps=steps, verbose=verbose, metrics=_names(model)
    )
    model.stop_training = False
    logs: dict[str, Any] = {}
    calls.call("on_train_begin", None)
    for epoch in range(epochs):
        calls.call("on_epoch_begin", epoch, None)
        _shuffled(batches, epoch)
        _reset(model)
        chosen = batches if left is None else islice(iter(batches), left)
        count = _trained(model, chosen, steps, plan, (calls, logs))
        left = None if left is None else left - count
        calls.call("on_epoch_end", epoch, logs)
        if judged is not None and epoch % plan.eval_freq == 0:
            _judge(model, judged, calls, logs, None)
        if model.stop_training or (left is not None and left <= 0):
            break
    calls.call("on_train_end", logs)


def _shuffled(batches: Any, epoch: int) -> None:
    set_epoch = getattr(getattr(batches, "batch_sampler", None), "set_epoch", None)
    if set_epoch is not None:
        set_epoch(epoch)


def _reset(model: Any) -> None:
    for one in model._metrics:
        one.reset()


def _trained(
    model: Any,
    batches: Any,
    steps: int | None,
    plan: Plan,
    told: tuple[CallbackList, dict[str, Any]],
) -> int:
    """An epoch; how many batches it had."""
    calls, logs = told
    count = 0
    for step, (inputs, labels) in enumerate(_parted(model, batches)):
        calls.call("on_train_batch_begin", step, logs)
        update = (step + 1) % plan.accumulate == 0 or step + 1 == steps
        losses, _ = model._ready().train(inputs, labels, update)
        _note(model, logs, losses, step, inputs)
        calls.call("on_train_batch_end", step, logs)
        count = step + 1
    return count


def _parted(model: Any, batches: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    count = len(model._inputs) or None
    return (parted(batch, count) for batch in batches)


def _note(
    model: Any, logs: dict[str, Any], losses: list[Any], step: int, inputs: list[Any]
) -> None:
    """Losses of this batch and metrics of all so far go to the logs."""
    if model._loss is not None:
        logs["loss"] = [float(one.reshape(-1)[0]) for one in losses]
    for metric in model._metrics:
        for name, value in zip(listed(metric.name()), listed(metric.accumulate()), strict=False):
            logs[name] = value
    logs["step"], logs["batch_size"] = step, size_of(inputs)


def evaluate(
    model: Any, batches: Any, callbacks: list[Any], verbose: int, most: int | None
) -> dict[str, Any]:
    """Loss of the last batch and metrics of all."""
    calls = _bound(model, callbacks, verbose=verbose, metrics=_names(model))
    logs: dict[str, Any] = {}
    _judge(model, batches, calls, logs, most)
    return {name: logs[name] for name in _names(model) if name in logs}


def _judge(
    model: Any, batches: Any, calls: CallbackList, logs: dict[str, Any], most: int | None
) -> None:
    calls.call("on_eval_begin", {"steps": length(batches), "metrics": _names(model)})
    _reset(model)
    for step, (inputs, labels) in enumerate(_parted(model, islice(iter(batches), most))):
        calls.call("on_eval_batch_begin", step, logs)
        losses, _ = model._ready().evaluate(inputs, labels)
        _note(model, logs, losses, step, inputs)
        calls.call("on_eval_batch_end", step, logs)
    calls.call("on_eval_end", logs)


def predict(model: Any, batches: Any, callbacks: list[Any], verbose: int) -> list[list[Any]]:
    """Each result's arrays, batch by batch."""
    calls = _bound(model, callbacks, verbose=verbose)
    logs: dict[str, Any] = {}
    found: list[list[Any]] = []
    calls.call("on_predict_begin", {"steps": length(batches)})
    for step, batch in enumerate(batches):
        inputs, _ = parted(batch, len(model._inputs) or None)
        calls.call("on_predict_batch_begin", step, logs)
        outputs = model._ready().predict(inputs)
        found = found or [[] for _ in outputs]
        for kept, one in zip(found, outputs, strict=True):
            kept.append(one)
        logs["step"], logs["batch_size"] = step, size_of(inputs)
        calls.call("on_predict_batch_end", step, logs)
    calls.call("on_predict_end", logs)
    return found
