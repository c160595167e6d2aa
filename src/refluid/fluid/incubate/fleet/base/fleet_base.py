"""What all fleets have: who the processes are, and optimizers that train with the others."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np

from refluid.fluid.executor import Executor
from refluid.fluid.incubate.fleet.base.asking import AsksRoleMaker
from refluid.fluid.incubate.fleet.base.mode import Mode
from refluid.fluid.incubate.fleet.base.role_maker import PaddleCloudRoleMaker, RoleMakerBase
from refluid.fluid.optimizer.base import Optimizer

__all__ = ["DistributedOptimizer", "Fleet", "Mode"]


class Fleet(AsksRoleMaker, abc.ABC):
    """The processes of a job as one of them sees them; `init` must be called first."""

    def __init__(self, mode: int) -> None:
        self._is_initialized = False
        self._mode = mode
        self._optimizer: Any = None
        self._role_maker: Any = None
        self._executor: Executor | None = None

    # -- who the processes are ------------------------------------------------

    def is_xpu(self) -> bool:
        """Whether this process computes on an XPU: never here."""
        return False

    # -- what workers do together ---------------------------------------------

    def split_files(self, files: Sequence[str]) -> list[str]:
        """This worker's share of a list of files, neighbours; the first workers get the rest.

        TypeError unless they are a list.
        """
        if not isinstance(files, list):
            raise TypeError("files should be a list of file need to be read.")
        size, rest = divmod(len(files), self.worker_num())
        rank = self.worker_index()
        begin = rank * size + min(rank, rest)
        return files[begin : begin + size + (rank < rest)]

    def all_reduce_worker(self, input: Any, output: Any) -> None:
        """Writes the sum of the workers' inputs to `output`, an array of that shape."""
        self._role().all_reduce_worker(np.asarray(input), output)

    def init(self, role_maker: RoleMakerBase | None = None) -> None:
        """Finds out what this process is. TypeError for what is no role maker."""
        self._executor = Executor()
        if role_maker is not None and not isinstance(role_maker, RoleMakerBase):
            raise TypeError(f"role_maker must be an instance of RoleMakerBase, not {role_maker!r}")
        self._role_maker = role_maker or self._default_role_maker()
        self._role_maker.generate_role()
        self._is_initialized = True

    def _default_role_maker(self) -> RoleMakerBase:
        """What says what this process is, where `init` isn't told."""
        return PaddleCloudRoleMaker(is_collective=self._mode == Mode.COLLECTIVE)

    # -- what each kind does in its own way -------------------------------------

    @abc.abstractmethod
    def init_worker(self) -> None:
        """Makes a worker ready."""

    @abc.abstractmethod
    def init_server(self, model_dir: str | None = None) -> None:
        """Makes a server ready."""

    @abc.abstractmethod
    def run_server(self) -> None:
        """Serves parameters."""

    @abc.abstractmethod
    def stop_worker(self) -> None:
        """Ends a worker."""

    @abc.abstractmethod
    def distributed_optimizer(self, optimizer: Any, strategy: Any = None) -> DistributedOptimizer:
        """The optimizer, training with the other processes."""

    @abc.abstractmethod
    def save_inference_model(
        self,
        executor: Executor,
        dirname: str,
        feeded_var_names: Sequence[str],
        target_vars: Sequence[Any],
        main_program: Any = None,
        export_for_deployment: bool = True,
    ) -> Any:
        """As `fluid.io.save_inference_model`."""

    @abc.abstractmethod
    def save_persistables(self, executor: Executor, dirname: str, main_program: Any = None) -> Any:
        """As `fluid.io.save_persistables`."""


class DistributedOptimizer(abc.ABC):
    """An optimizer around another one, which it has train with the other processes.

    TypeError for what is no optimizer.
    """

    def __init__(self, optimizer: Any, strategy: Any = None) -> None:
        if not isinstance(optimizer, Optimizer) and not hasattr(optimizer, "apply_gradients"):
            raise TypeError(f"optimizer must be an instance of Optimizer, not {optimizer!r}")
        self._optimizer = optimizer
        self._strategy = strategy

    @abc.abstractmethod
    def backward(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Any:
        """Appends gradients; (parameter, gradient) pairs."""

    @abc.abstractmethod
    def apply_gradients(self, params_grads: Any) -> Any:
        """Appends updates by gradients; the operators."""

    @abc.abstractmethod
    def minimize(
        self,
        losses: Any,
        scopes: Any = None,
        startup_programs: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> Any:
        """Appends gradients and updates; (operators, (parameter, gradient) pairs)."""
