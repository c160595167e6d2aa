"""`DistributeTranspiler`: programs of one process become those of a job's trainers and servers."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

from refluid.core import flags
from refluid.fluid.transpiler.collective import Collective, GradAllReduce, LocalSGD
from refluid.fluid.transpiler.unheeded import complaints
from refluid.ir.defaults import default_main_program, default_startup_program
from refluid.ir.program import Program

__all__ = ["DistributeTranspiler", "DistributeTranspilerConfig"]

_log = logging.getLogger("refluid")


class DistributeTranspilerConfig:
    """How parameters are spread over servers, and how trainers and servers wait for each other.

    slice_var_up: parameters are cut into blocks of at least `min_block_size` elements.
    split_method: RoundRobin or HashName. sync_mode: servers wait for all trainers.
    runtime_split_send_recv: trainers cut gradients when they send them, without synchronous mode.
    """

    slice_var_up = True
    split_method: Any = None
    min_block_size = 8192
    enable_dc_asgd = False
    mode = "pserver"
    print_log = False
    wait_port = True
    half_async = False
    completely_not_async = False
    geo_sgd_mode = False
    geo_sgd_need_push_nums = 100
    nccl_comm_num = 1
    use_hierarchical_allreduce = False
    hierarchical_allreduce_inter_nranks = 0
    collective_mode: str | None = None

    def __init__(self) -> None:
        self.__sync_mode = True
        self.__runtime_split_send_recv = False

    @property
    def runtime_split_send_recv(self) -> bool:
        """Whether trainers cut gradients at the time they send them."""
        return self.__runtime_split_send_recv

    @runtime_split_send_recv.setter
    def runtime_split_send_recv(self, value: bool) -> None:
        if value and self.__sync_mode:
            raise ValueError(
                "if you want to set runtime_split_send_recv to be true, make ensure "
                "config.sync_mode is false at first"
            )
        self.__runtime_split_send_recv = value

    @property
    def sync_mode(self) -> bool:
        """Whether servers wait for the gradients of all trainers."""
        return self.__sync_mode

    @sync_mode.setter
    def sync_mode(self, value: bool) -> None:
        if value and self.__runtime_split_send_recv:
            raise ValueError(
                "if you want to set sync_mode to be true, make ensure "
                "config.runtime_split_send_recv is false at first"
            )
        self.__sync_mode = value


class DistributedMode:
    """How trainers and servers wait for each other."""

    SYNC = 0
    ASYNC = 1
    HALF_ASYNC = 2
    GEO = 3


class ServerRuntimeConfig:
    """By how many threads a server answers: as many as these together, at least two a trainer."""

    def __init__(self) -> None:
        self._rpc_send_thread_num = int(flags.value("rpc_send_thread_num"))
        self._rpc_get_thread_num = int(flags.value("rpc_get_thread_num"))
        self._rpc_prefetch_thread_num = int(flags.value("rpc_prefetch_thread_num"))


class DistributeTranspiler:
    """Makes the default programs those of one trainer of several.

    config.mode: nccl2 says to ParallelExecutor and CompiledProgram who the trainers are, which then
    exchange gradients; collective appends operators that exchange them, by config.collective_mode
    (grad_allreduce or local_sgd); pserver parts parameters among servers.
    """

    def __init__(self, config: DistributeTranspilerConfig | None = None) -> None:
        self.config = config or DistributeTranspilerConfig()
        self.trainer_id = 0
        self.trainer_num: Any = 1
        self.origin_program: Program | None = None
        self._server_config = ServerRuntimeConfig()
        self._split: Any = None
        self._connection: Any = None

    def _set_server_config(self, server_config: ServerRuntimeConfig | None = None) -> None:
        """By how many threads servers answer: as flags say without a config."""
        server_config = ServerRuntimeConfig() if server_config is None else server_config
        if not isinstance(server_config, ServerRuntimeConfig):
            raise TypeError(f"a ServerRuntimeConfig is needed, and not {server_config!r}")
        self._server_config = server_config

    def transpile(
        self,
        trainer_id: int,
        program: Program | None = None,
        pservers: str = "127.0.0.1:6174",
        trainers: str | int = 1,
        sync_mode: bool = True,
        startup_program: Program | None = None,
        current_endpoint: str = "127.0.0.1:6174",
    ) -> None:
        """Rewrites the programs, in place.

        trainers: how many there are, beside servers; else where all are, `host:port,..` by number.
        pservers: where the servers are. TypeError for trainers that don't fit the mode; ValueError
        where trainer_id's is not current_endpoint; EnforceNotMet for what servers can't update.
        """
        mode = self.config.mode
        main = self.origin_program = program or default_main_program()
        startup = startup_program or default_startup_program()
        self.trainer_id, self.trainer_num = trainer_id, trainers
        if mode == "pserver":
            self._part(main, startup, pservers, sync_mode=sync_mode)
            return
        if mode not in ("nccl2", "collective"):
            raise ValueError(f"config.mode {mode!r}: there are pserver, nccl2 and collective")
        if not isinstance(trainers, str):
            raise TypeError(
                f"DistributeTranspiler in {mode} mode needs trainers='host:port,host:port,..', "
                f"not {trainers!r}"
            )
        endpoints = trainers.split(",")
        if endpoints[trainer_id : trainer_id + 1] != [current_endpoint]:
            raise ValueError(
                f"trainer {trainer_id} of {trainers} is not at current_endpoint {current_endpoint}"
            )
        if mode == "collective":
            self._collective(startup, main, endpoints)
            return
        main._trainers = trainer_id, tuple(endpoints)
        config = self.config
        main._exchange_options = {
            "nccl_comm_num": config.nccl_comm_num,
            "use_hierarchical_allreduce": config.use_hierarchical_allreduce,
            "hierarchical_allreduce_inter_nranks": config.hierarchical_allreduce_inter_nranks,
        }

    def _collective(self, startup: Program, main: Program, endpoints: Sequence[str]) -> None:
        kind = self.config.collective_mode
        if kind is None or kind not in _KINDS:
            raise ValueError(f"invalid collective_mode: {kind}; there are {', '.join(_KINDS)}")
        made = _KINDS[kind](self.config.nccl_comm_num)
        where = endpoints[self.trainer_id]
        made.transpile(startup, main, self.trainer_id, endpoints, where, self.config.wait_port)

    def _part(self, main: Program, startup: Program, pservers: str, *, sync_mode: bool) -> None:
        from refluid.pserver import arguments
        from refluid.pserver.connecting import Connection  # most jobs have no servers
        from refluid.pserver.layout import TrainingMode
        from refluid.pserver.split import SplitOptions, split

        config = self.config
        for line in complaints(config):
            _log.warning(line)
        if config.enable_dc_asgd:
            raise NotImplementedError("enable_dc_asgd: refluid's servers don't compensate delays")
        servers = arguments.server_addresses(pservers)
        arguments.check_number(self.trainer_num, self.trainer_id)
        arguments.check_cutting(config.min_block_size, config.split_method)
        any_ids, dealt = getattr(config, "_any_ids", False), _dealing(config.split_method, servers)
        options = SplitOptions(config.slice_var_up, config.min_block_size, dealt, any_ids)
        mode = TrainingMode(_mode(config, sync_mode=sync_mode))
        who = self.trainer_num, self.trainer_id
        self._split = split(main, startup, servers, *who, mode, options)
        self._connection = Connection(self._split, config.geo_sgd_need_push_nums)
        self._connection.serve(main, startup)

    def _parted(self) -> Any:
        if self._split is None:
            raise RuntimeError("call transpile, with config.mode 'pserver', first")
        return self._split

    def get_trainer_program(self, wait_port: bool = True) -> Program:
        """What a trainer runs beside servers: the program that was transpiled.

        It waits for servers by itself, `wait_port` or not. ValueError for no trainer's number.
        """
        from refluid.pserver.arguments import check_trainer

        self._parted()
        check_trainer(self.trainer_id, self.trainer_num)
        assert self.origin_program is not None
        return self.origin_program

    def get_pserver_program(self, endpoint: str) -> Program:
        """What the server at `endpoint` runs: `Executor.run` of it ends when all trainers did."""
        from refluid.pserver.loading import load_saved_before
        from refluid.pserver.serving import Serving

        made: Program = self._parted().program(endpoint)
        head, config = made.global_block().ops[-1], self._server_config
        for name in ("rpc_send_thread_num", "rpc_get_thread_num", "rpc_prefetch_thread_num"):
            head.set_attr(name, getattr(config, f"_{name}"))
        made._run_as = Serving(made, self._split.side, load_saved_before(self._split))
        return made

    def get_pserver_programs(self, endpoint: str) -> tuple[Program, Program]:
        """What the server at `endpoint` runs, and what makes its parameters."""
        return self.get_pserver_program(endpoint), self.get_startup_program(endpoint)

    def get_startup_program(
        self,
        endpoint: str,
        pserver_program: Program | None = None,
        startup_program: Program | None = None,
    ) -> Program:
        """What makes the parameters of the server at `endpoint`; the programs needn't be given."""
        made: Program = self._parted().startup(endpoint)
        return made


def _mode(config: DistributeTranspilerConfig, *, sync_mode: bool) -> int:
    if config.geo_sgd_mode:
        return DistributedMode.GEO
    if sync_mode and config.sync_mode:
        return DistributedMode.SYNC
    return DistributedMode.HALF_ASYNC if config.half_async else DistributedMode.ASYNC


def _dealing(method: Any, servers: Sequence[str]) -> Any:
    """Slices dealt to servers, by number, as a PSDispatcher does; None for one after the other."""
    if method is None:
        return None
    dispatcher = method(list(servers))

    def deal(names: Sequence[str]) -> list[int]:
        chosen = dispatcher.dispatch([VarBlock(name, 0, 0) for name in names])
        return [servers.index(one) for one in chosen]

    return deal


_KINDS: dict[str, type[Collective]] = {
    "grad_allreduce": GradAllReduce,
    "local_sgd": LocalSGD,
}


class VarBlock:
    """A part of a variable that one server holds: `name:number:size`."""

    def __init__(self, varname: str, offset: int, size: int) -> None:
        self.varname = varname
        self.offset = offset
        self.size = size

    @property
    def name(self) -> str:
        """The variable's."""
        return self.varname

    def __str__(self) -> str:
        return f"{self.varname}:{self.offset}:{self.size}"


def slice_variable(var_list: Sequence[Any], slice_count: int, min_block_size: int) -> list[str]:
    """Cuts variables into at most `slice_count` blocks each, of whole rows.

    A block has at least `min_block_size` elements, so a small variable has fewer blocks.
    """
    blocks = []
    for var in var_list:
        total = math.prod(var.shape)
        count = min(slice_count, max(1, total // min_block_size))
        size = math.ceil(total / count)
        if len(var.shape) >= 2:
            row = math.prod(var.shape[1:])
            size = math.ceil(size / row) * row
        for number in range(math.ceil(total / size)):
            blocks.append(str(VarBlock(var.name, number, min(size, total - number * size))))
    return blocks
