"""`Model`: a network that is trained, evaluated and saved by one call each."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from refluid.build import at_once
from refluid.fluid.dygraph.parallel import ParallelEnv
from refluid.paddle.framework import states
from refluid.paddle.hapi import looping
from refluid.paddle.hapi.given import listed, specs
from refluid.paddle.hapi.summaries import summary
from refluid.paddle.metric import Metric
from refluid.paddle.nn.layer.layers import Layer


class Model:
    """A network with its loss, optimizer and metrics; at once, or as programs.

        model = paddle.Model(network, inputs=InputSpec([None, 784], "float32", "x"),
                             labels=InputSpec([None, 1], "int64", "label"))
        model.prepare(paddle.optimizer.Adam(parameters=model.parameters()),
                      paddle.nn.CrossEntropyLoss(), paddle.metric.Accuracy())
        model.fit(dataset, epochs=2, batch_size=64)

    inputs, labels: what it is given; programs need them. Whether it is programs is decided when
    it is made. In several processes each trains on its share of a dataset.
    """

    def __init__(self, network: Any, inputs: Any = None, labels: Any = None) -> None:
        if not isinstance(network, Layer):
            raise TypeError(f"network is a paddle.nn.Layer, not {type(network).__name__}")
        self.network = network
        self._inputs, self._labels = specs(inputs, "inputs"), specs(labels, "labels")
        self._optimizer: Any = None
        self._loss: Any = None
        self._metrics: list[Any] = []
        self.stop_training = False
        self._at_once = at_once()
        self._steps: Any = None
        if not self._at_once and not self._inputs:
            raise TypeError(
                "'inputs' must be list or dict of InputSpec, and couldn't be None, "
                "where the model is a program"
            )

    # -- what it consists of --------------------------------------------------

    @property
    def processes(self) -> int:
        """How many processes train together."""
        return ParallelEnv().nranks

    @property
    def writes(self) -> bool:
        """Whether this process is the one that saves."""
        return ParallelEnv().local_rank == 0

    def parameters(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The network's parameters."""
        return self.network.parameters(*args, **kwargs)

    def prepare(
        self,
        optimizer: Any = None,
        loss: Any = None,
        metrics: Any = None,
        amp_configs: Any = None,
    ) -> None:
        """Says how it is trained and judged.

        loss: called with results and labels. metrics: of `paddle.metric`. amp_configs: a level of
        mixed precision, or a dict with `level` and arguments of `auto_cast` and `GradScaler`.
        """
        if loss is not None and not isinstance(loss, Layer) and not callable(loss):
            raise TypeError(
                "'loss' must be sub classes of `paddle.nn.Layer` or any callable function."
            )
        for one in listed(metrics):
            assert isinstance(one, Metric), f"{type(one).__name__} is not sub class of Metric"
        amp = {"level": amp_configs} if isinstance(amp_configs, str) else dict(amp_configs or {})
        if amp and amp.get("level", "O1") not in ("O0", "O1", "O2"):
            raise ValueError("The level of amp_configs should be 'O0', 'O1' or 'O2'.")
        if amp:
            amp.setdefault("level", "O1")
        self._optimizer, self._loss, self._metrics = optimizer, loss, listed(metrics)
        self._steps = self._made_steps(amp)

    def _made_steps(self, amp: dict[str, Any]) -> Any:
        if self._at_once:
            from refluid.paddle.hapi.at_once import StepsAtOnce

            return StepsAtOnce(self, amp)
        from refluid.paddle.hapi.in_programs import StepsInPrograms

        return StepsInPrograms(self, amp)

    def _ready(self) -> Any:
        if self._steps is None:
            raise RuntimeError("model not ready, please call `model.prepare()` first")
        return self._steps

    # -- a batch --------------------------------------------------------------

    def train_batch(self, inputs: Any, labels: Any = None, update: bool = True) -> Any:
        """Losses of one step, and what the metrics say of it, if there are any.

        update: whether the optimizer is called; else gradients add up.
        """
        losses, said = self._ready().train(listed(inputs), listed(labels), update)
        return (losses, said) if self._metrics else losses

    def eval_batch(self, inputs: Any, labels: Any = None) -> Any:
        """As `train_batch`, without training."""
        losses, said = self._ready().evaluate(listed(inputs), listed(labels))
        if not losses:
            return said
        return (losses, said) if self._metrics else losses

    def predict_batch(self, inputs: Any) -> list[Any]:
        """The network's results as arrays."""
        found: list[Any] = self._ready().predict(listed(inputs))
        return found

    # -- a dataset ------------------------------------------------------------

    def fit(
        self,
        train_data: Any = None,
        eval_data: Any = None,
        batch_size: Any = 1,
        epochs: int = 1,
        eval_freq: int = 1,
        log_freq: int = 10,
        save_dir: str | None = None,
        save_freq: int = 1,
        verbose: int = 2,
        drop_last: bool = False,
        shuffle: bool = True,
        num_workers: int = 0,
        callbacks: Any = None,
        accumulate_grad_batches: int = 1,
        num_iters: int | None = None,
    ) -> None:
        """Trains on a dataset, or the batches of a loader.

        eval_data: evaluated every `eval_freq` epochs. batch_size: of both, or a list of two.
        save_dir: gets a checkpoint every `save_freq` epochs. verbose: as of `ProgBarLogger`.
        accumulate_grad_batches: so many batches make one update. num_iters: so many batches in
        all, whatever `epochs` says.
        """
        assert train_data is not None, "train_data must be given!"
        sizes = batch_size if isinstance(batch_size, list | tuple) else [batch_size] * 2
        plan = looping.Plan(epochs, eval_freq, accumulate_grad_batches, num_iters)
        batches = looping.loader(self, train_data, sizes[0], shuffle, drop_last, num_workers)
        judged = None
        if eval_data is not None:
            judged = looping.loader(self, eval_data, sizes[1], False, False, num_workers)
        told = looping.callbacks_of(self, callbacks, log_freq, verbose, (save_freq, save_dir))
        looping.fit(self, batches, judged, plan, (told, verbose))

    def evaluate(
        self,
        eval_data: Any,
        batch_size: int = 1,
        log_freq: int = 10,
        verbose: int = 2,
        num_workers: int = 0,
        callbacks: Any = None,
        num_iters: int | None = None,
    ) -> dict[str, Any]:
        """Loss of the last batch and metrics of all, by name."""
        batches = looping.loader(self, eval_data, batch_size, False, False, num_workers)
        told = looping.callbacks_of(self, callbacks, log_freq, verbose)
        return looping.evaluate(self, batches, told, verbose, num_iters)

    def predict(
        self,
        test_data: Any,
        batch_size: int = 1,
        num_workers: int = 0,
        stack_outputs: bool = False,
        verbose: int = 1,
        callbacks: Any = None,
    ) -> list[Any]:
        """For each of the network's results a list of arrays, one for each batch.

        stack_outputs: one array instead of the list.
        """
        batches = looping.loader(self, test_data, batch_size, False, False, num_workers)
        told = looping.callbacks_of(self, callbacks, 2, verbose)
        found = looping.predict(self, batches, told, verbose)
        return [np.concatenate(one) for one in found] if stack_outputs else found

    # -- files ----------------------------------------------------------------

    def save(self, path: str, training: bool = True) -> None:
        """Writes `path`.pdparams and .pdopt; for inference .pdmodel and .pdiparams.

        training: which of the two. Inference needs `inputs`, where functions run at once.
        """
        if not self.writes:
            return
        if not os.path.basename(path):
            raise ValueError("path should be of 'dirname/file_prefix' format, but is a folder")
        if training:
            network, optimizer = self._of_steps().state()
            states.save(network, f"{path}.pdparams")
            if optimizer:
                states.save(optimizer, f"{path}.pdopt")
            return
        if not self._at_once:
            self._ready().save_for_inference(path)
            return
        from refluid.paddle.jit.saving import save

        if not self._inputs:
            raise RuntimeError(
                "Saving inference model needs 'inputs' as InputSpec: give them to paddle.Model"
            )
        save(self.network, path, self._inputs)

    def _of_steps(self) -> Any:
        return self._made_steps({}) if self._steps is None else self._steps

    def load(self, path: str, skip_mismatch: bool = False, reset_optimizer: bool = False) -> None:
        """Reads what `save` wrote for training.

        skip_mismatch: a parameter that is missing, or of another shape, stays as it is, instead
        of a ValueError. reset_optimizer: the optimizer's state isn't read.
        """
        stem = path.removesuffix(".pdparams").removesuffix(".pdopt")
        assert os.path.exists(f"{stem}.pdparams"), "Failed to load parameters, please check path."
        given, own = states.load(f"{stem}.pdparams"), self.network.state_dict()
        fitting = {}
        for name, one in own.items():
            problem = _problem(name, one, given)
            if problem and not skip_mismatch:
                raise ValueError(problem)
            if problem:
                warnings.warn(f"Skip loading for {name}. {problem}", stacklevel=2)
            else:
                fitting[name] = given[name]
        self.network.set_state_dict(fitting)
        if not reset_optimizer and self._optimizer is not None and os.path.exists(f"{stem}.pdopt"):
            self._of_steps().load(states.load(f"{stem}.pdopt"))

    def summary(self, input_size: Any = None, dtype: Any = None) -> dict[str, int]:
        """Prints the network's layers, as `paddle.summary`; of its `inputs` unless given."""
        assert input_size is not None or self._inputs, "'input_size' or 'self._input' must be set"
        return summary(self.network, self._inputs if input_size is None else input_size, dtype)


def _problem(name: str, own: Any, given: dict[str, Any]) -> str:
    if name not in given:
        return f"{name} is not found in the providing file."
    shape = list(given[name].shape)
    if shape == list(own.shape):
        return ""
    return f"{name} receives a shape {shape}, but the expected shape is {list(own.shape)}."
