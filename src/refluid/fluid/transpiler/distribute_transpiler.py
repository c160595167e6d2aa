"""`DistributeTranspiler`: programs of one process become those of a job's trainers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from refluid.fluid.transpiler.collective import Collective, GradAllReduce, LocalSGD
from refluid.ir.defaults import default_main_program, default_startup_program
from refluid.ir.program import Program

__all__ = ["DistributeTranspiler", "DistributeTranspilerConfig"]


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


class DistributeTranspiler:
    """Makes the default programs those of one trainer of several.

    config.mode: nccl2 says to ParallelExecutor and CompiledProgram who the trainers are, which then
    exchange gradients; collective appends operators that exchange them, by config.collective_mode
    (grad_allreduce or local_sgd); pserver is still to come.
    """

    def __init__(self, config: DistributeTranspilerConfig | None = None) -> None:
        self.config = config or DistributeTranspilerConfig()
        self.trainer_id = 0
        self.trainer_num: Any = 1
        self.origin_program: Program | None = None

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
        """Rewrites the programs, in place. trainers: of all, `host:port,host:port,..` by number.

        TypeError where they are a number; ValueError where trainer_id's is not current_endpoint.
        """
        mode = self.config.mode
        if mode not in ("nccl2", "collective"):
            raise NotImplementedError(_PSERVER.format("transpile"))
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
        main = self.origin_program = program or default_main_program()
        startup = startup_program or default_startup_program()
        self.trainer_id, self.trainer_num = trainer_id, trainers
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

    def get_trainer_program(self, wait_port: bool = True) -> Program:
        """What a trainer runs beside servers."""
        raise NotImplementedError(_PSERVER.format("get_trainer_program"))

    def get_pserver_program(self, endpoint: str) -> Program:
        """What a server runs."""
        raise NotImplementedError(_PSERVER.format("get_pserver_program"))

    def get_pserver_programs(self, endpoint: str) -> tuple[Program, Program]:
        """What a server runs, and what makes its parameters."""
        raise NotImplementedError(_PSERVER.format("get_pserver_programs"))

    def get_startup_program(
        self,
        endpoint: str,
        pserver_program: Program | None = None,
        startup_program: Program | None = None,
    ) -> Program:
        """What makes a server's parameters."""
        raise NotImplementedError(_PSERVER.format("get_startup_program"))


_KINDS: dict[str, type[Collective]] = {
    "grad_allreduce": GradAllReduce,
    "local_sgd": LocalSGD,
}
_PSERVER = (
    "DistributeTranspiler.{} with servers is still to come; config.mode='nccl2' and 'collective' "
    "train without them"
)


class VarBlock:
    """A part of a variable that one server holds: `name:number:size`."""

    def __init__(self, varname: str, offset: int, size: int) -> None:
        self.varname = varname
        self.offset = offset
        self.size = size

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
