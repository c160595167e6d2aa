"""Strategies of a fleet with servers: how programs are parted, and how trainers wait."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from refluid.core import flags
from refluid.core.flags import environment_int
from refluid.fluid.compiler import BuildStrategy, ExecutionStrategy
from refluid.fluid.transpiler.distribute_transpiler import (
    DistributedMode,
    DistributeTranspilerConfig,
    ServerRuntimeConfig,
)

__all__ = [
    "AsyncStrategy",
    "DistributedStrategy",
    "GeoStrategy",
    "HalfAsyncStrategy",
    "StrategyFactory",
    "SyncStrategy",
    "TrainerRuntimeConfig",
]

_log = logging.getLogger("refluid")
_PREFIX = "communicator_"
# By which of CPU_NUM's replicas' gradients are counted, unless their flags were set.
_BY_REPLICAS = ("max_merge_var_num", "send_queue_size", "min_send_grad_num_before_recv")
_OTHERS = ("independent_recv_thread", "thread_pool_size", "send_wait_times", "is_sgd_optimizer")


class TrainerRuntimeConfig:
    """How an asynchronous trainer merges and sends gradients: `runtime_configs`, by flags' names.

    Counts are CPU_NUM's unless their flags were set.
    """

    def __init__(self) -> None:
        self.mode: int | None = None
        replicas = environment_int("CPU_NUM", 1) or 1
        self.runtime_configs: dict[str, Any] = {}
        for name in (*_BY_REPLICAS, *_OTHERS):
            full = _PREFIX + name
            own = name in _BY_REPLICAS and not flags.was_set(full)
            self.runtime_configs[full] = replicas if own else flags.value(full)

    def get_communicator_flags(self) -> dict[str, Any]:
        """What the trainer's way to wait looks at, as text by the names of flags."""
        wanted = _SEEN.get(self.mode, ())
        return {_PREFIX + name: str(int(self.runtime_configs[_PREFIX + name])) for name in wanted}

    def display(self, configs: Mapping[str, Any]) -> str:
        """A table of names and values."""
        width = max([len(name) for name in configs] + [30])
        lines = [f"{name:<{width}}  {value}" for name, value in configs.items()]
        return "\n".join([f"{'communicator':<{width}}  value", "-" * (width + 10), *lines])

    def __repr__(self) -> str:
        return self.display(self.get_communicator_flags())

    def update(self, values: Mapping[str, Any]) -> None:
        """Sets several. ValueError for a name that there isn't."""
        for name, value in values.items():
            full = name if name.startswith(_PREFIX) else _PREFIX + name
            if full not in self.runtime_configs:
                known = ", ".join(self.runtime_configs)
                raise ValueError(f"TrainerRuntimeConfig doesn't have key: {name}; it has {known}")
            self.runtime_configs[full] = value


_SEEN: dict[int | None, tuple[str, ...]] = {
    DistributedMode.ASYNC: (*_BY_REPLICAS, *_OTHERS),
    DistributedMode.HALF_ASYNC: ("max_merge_var_num", "send_queue_size", "send_wait_times"),
    DistributedMode.SYNC: ("max_merge_var_num", "send_queue_size", "send_wait_times"),
    DistributedMode.GEO: ("thread_pool_size", "send_wait_times"),
}
_DEBUG = ("dump_param", "dump_fields", "dump_fields_path")


class DistributedStrategy:
    """What all strategies have; each `set_` takes an object or a dict, and then checks."""

    mode: int | None = None

    def __init__(self) -> None:
        self._program_config = DistributeTranspilerConfig()
        self._trainer_runtime_config = TrainerRuntimeConfig()
        self._server_runtime_config = ServerRuntimeConfig()
        self._execute_strategy = ExecutionStrategy()
        self._build_strategy = BuildStrategy()
        self._trainer_runtime_config.mode = self.mode
        self._execute_strategy.num_threads = environment_int("CPU_NUM", 1) or 1
        self.debug_opt: dict[str, Any] | None = None

    # -- what is asked for ----------------------------------------------------

    def get_program_config(self) -> DistributeTranspilerConfig:
        """How programs are parted."""
        return self._program_config

    def set_program_config(self, config: Any) -> None:
        """Takes a DistributeTranspilerConfig or a dict. TypeError, ValueError for others."""
        self._program_config = _taken(config, self._program_config)
        self.check_program_config()

    def get_trainer_runtime_config(self) -> TrainerRuntimeConfig:
        """How gradients are merged and sent."""
        return self._trainer_runtime_config

    def set_trainer_runtime_config(self, config: Any) -> None:
        """Takes a TrainerRuntimeConfig or a dict. TypeError, ValueError for others."""
        if isinstance(config, dict):
            self._trainer_runtime_config.update(config)
        else:
            self._trainer_runtime_config = _taken(config, self._trainer_runtime_config)
            self._trainer_runtime_config.mode = self.mode
        self.check_trainer_runtime_config()

    def get_server_runtime_config(self) -> ServerRuntimeConfig:
        """By how many threads a server answers."""
        return self._server_runtime_config

    def set_server_runtime_config(self, config: Any) -> None:
        """Takes a ServerRuntimeConfig or a dict. TypeError, ValueError for others."""
        self._server_runtime_config = _taken(config, self._server_runtime_config)
        self.check_server_runtime_config()

    def get_execute_strategy(self) -> ExecutionStrategy:
        """For CompiledProgram."""
        return self._execute_strategy

    def set_execute_strategy(self, config: Any) -> None:
        """Takes an ExecutionStrategy or a dict. TypeError, ValueError for others."""
        self._execute_strategy = _taken(config, self._execute_strategy)
        self.check_execute_strategy()

    def get_build_strategy(self) -> BuildStrategy:
        """For CompiledProgram."""
        return self._build_strategy

    def set_build_strategy(self, config: Any) -> None:
        """Takes a BuildStrategy or a dict. TypeError, ValueError for others."""
        self._build_strategy = _taken(config, self._build_strategy)
        self.check_build_strategy()

    def set_debug_opt(self, opt_info: Mapping[str, Any]) -> None:
        """Keeps dump_param, dump_fields and dump_fields_path; nothing is dumped."""
        _log.warning("set_debug_opt has no effect here: fetch what is to be looked at")
        self.debug_opt = {name: opt_info[name] for name in _DEBUG if name in opt_info}

    def get_debug_opt(self) -> dict[str, Any]:
        """What `set_debug_opt` kept."""
        return self.debug_opt or {}

    # -- what a kind of strategy insists on -------------------------------------

    def check_program_config(self) -> None:
        """Sets what makes the strategy what it is."""
        raise NotImplementedError(_MADE_BY)

    def check_trainer_runtime_config(self) -> None:
        """Sets what makes the strategy what it is."""
        raise NotImplementedError(_MADE_BY)

    def check_server_runtime_config(self) -> None:
        """Sets what makes the strategy what it is."""
        raise NotImplementedError(_MADE_BY)

    def check_execute_strategy(self) -> None:
        """Sets what makes the strategy what it is."""
        raise NotImplementedError(_MADE_BY)

    def check_build_strategy(self) -> None:
        """Sets what makes the strategy what it is."""
        raise NotImplementedError(_MADE_BY)


_MADE_BY = "a strategy is made by StrategyFactory.create_sync_strategy() and its like"


def _taken(given: Any, own: Any) -> Any:
    """`given` where it is of the kind of `own`; else `own` with what a dict says."""
    if isinstance(given, type(own)):
        return given
    name = type(own).__name__
    if not isinstance(given, dict):
        raise TypeError(f"only dict and {name} are accepted, not {type(given).__name__}")
    for key, value in given.items():
        if not hasattr(own, key):
            raise ValueError(f"{name} doesn't have key: {key}")
        setattr(own, key, value)
    return own


class _ModeStrategy(DistributedStrategy):
    """A strategy of one mode. settings: of the transpiler."""

    settings: ClassVar[Mapping[str, Any]]

    def __init__(self) -> None:
        super().__init__()
        self.check_program_config()

    def check_program_config(self) -> None:
        config = self._program_config
        config.runtime_split_send_recv = False
        for name, value in self.settings.items():
            setattr(config, name, value)

    def check_trainer_runtime_config(self) -> None:
        self._trainer_runtime_config.mode = self.mode

    def check_server_runtime_config(self) -> None:
        """Any number of threads goes with any mode."""

    def check_execute_strategy(self) -> None:
        self._execute_strategy.use_thread_barrier = self.mode == DistributedMode.SYNC

    def check_build_strategy(self) -> None:
        self._build_strategy.async_mode = self.mode != DistributedMode.SYNC


_LATER = {"sync_mode": False, "runtime_split_send_recv": True}
_SYNC: Mapping[str, Any] = {"sync_mode": True, "half_async": False, "completely_not_async": True}
_ASYNC: Mapping[str, Any] = {
    **_LATER,
    "half_async": False,
    "completely_not_async": False,
}
_HALF: Mapping[str, Any] = {
    **_LATER,
    "half_async": True,
    "completely_not_async": False,
}
_GEO: Mapping[str, Any] = {**_LATER, "half_async": False, "geo_sgd_mode": True}


class SyncStrategy(_ModeStrategy):
    """Each step waits for all trainers; their mean is one update."""

    mode = DistributedMode.SYNC
    settings = _SYNC


class AsyncStrategy(_ModeStrategy):
    """Gradients are sent in the background and applied in full."""

    mode = DistributedMode.ASYNC
    settings = _ASYNC


class HalfAsyncStrategy(_ModeStrategy):
    """A step waits for its own push and pull, not for other trainers."""

    mode = DistributedMode.HALF_ASYNC
    settings = _HALF


class GeoStrategy(_ModeStrategy):
    """Trainers update by themselves, and exchange every `update_frequency` steps."""

    mode = DistributedMode.GEO
    settings = _GEO

    def __init__(self, update_frequency: int = 100) -> None:
        super().__init__()
        self._program_config.geo_sgd_need_push_nums = update_frequency


class StrategyFactory:
    """Makes strategies."""

    def __init__(self) -> None:
        """Has no state: its functions are static."""

    @staticmethod
    def create_sync_strategy() -> SyncStrategy:
        """Each step waits for all trainers."""
        return SyncStrategy()

    @staticmethod
    def create_half_async_strategy() -> HalfAsyncStrategy:
        """A step waits for its own push and pull."""
        return HalfAsyncStrategy()

    @staticmethod
    def create_async_strategy() -> AsyncStrategy:
        """No step waits."""
        return AsyncStrategy()

    @staticmethod
    def create_geo_strategy(update_frequency: int = 100) -> GeoStrategy:
        """Steps are the trainer's own, exchanged every so often."""
        return GeoStrategy(update_frequency)
