"""Programs whose own operators exchange gradients, or parameters, with the other trainers.

Run by a plain `Executor` in a process of a job.
"""

from __future__ import annotations

from collections.abc import Sequence

from refluid.build import apply
from refluid.collective.job import joined_as
from refluid.core.errors import EnforceNotMet
from refluid.fluid.functions.control.branching import cond
from refluid.fluid.functions.math.comparison import equal, less_equal
from refluid.fluid.functions.math.elementwise import elementwise_mod, logical_or
from refluid.fluid.functions.tensor.counting import autoincreased_step_counter
from refluid.fluid.functions.tensor.creation import fill_constant
from refluid.ir.attributes import ROLE, OpRole
from refluid.ir.block import Block
from refluid.ir.defaults import default_main_program, default_startup_program, program_guard
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from refluid.passes.data_parallel import gradient_block, parameter_gradients

__all__ = ["GradAllReduce", "LocalSGD", "MultiThread"]

_UPDATE = {ROLE: OpRole.OPTIMIZE}


class Collective:
    """What these have in common: all trainers begin with the parameters of the first.

    Parameters with `is_distributed` are each trainer's own: a part of a layer that is split among
    them, under a name of its own. They are neither sent nor are their gradients summed.

    nrings: among how many groups exchanges take turns; there is one here, in which they go on while
    the program computes.
    """

    def __init__(self, nrings: int) -> None:
        self.nrings = nrings
        self.nranks = 1
        self.rank = 0
        self.startup_program: Program
        self.main_program: Program

    def transpile(
        self,
        startup_program: Program | None,
        main_program: Program | None,
        rank: int,
        endpoints: str | Sequence[str],
        current_endpoint: str | None,
        wait_port: bool,
    ) -> None:
        """Rewrites both programs, in place, for trainer `rank` of those at `endpoints`.

        Joins the other trainers. ValueError where the current endpoint is not that trainer's.
        """
        where = endpoints.split(",") if isinstance(endpoints, str) else list(endpoints)
        if current_endpoint and where[rank : rank + 1] != [current_endpoint]:
            raise ValueError(f"current_endpoint {current_endpoint} is not endpoints[{rank}]")
        if rank < 0:
            raise ValueError(f"rank must be at least 0, not {rank}")
        self.rank, self.nranks = rank, len(where)
        self.startup_program = startup_program or default_startup_program()
        self.main_program = main_program or default_main_program()
        if self.nranks > 1:
            joined_as(rank, self.nranks, where)
        self._begin_alike()
        self._transpile_main_program()

    def _shared_parameters(self) -> list[Variable]:
        """Those that all trainers have alike."""
        return [one for one in self.main_program.all_parameters() if not one.is_distributed]

    def _begin_alike(self) -> None:
        block = self.startup_program.global_block()
        for param in self._shared_parameters():
            if block.has_var(param.name):
                own = block.var(param.name)
                apply("c_broadcast", {"X": own}, {"Out": own}, {"root": 0}, block=block)

    def _transpile_main_program(self) -> None:
        raise NotImplementedError


class GradAllReduce(Collective):
    """Gradients are summed over all trainers, as soon as each is there; the loss is the mean."""

    def __init__(self, nrings: int = 2) -> None:
        super().__init__(nrings)

    def _transpile_main_program(self) -> None:
        block = gradient_block(self.main_program)
        starts = [op for op in block.ops if op.role == OpRole.BACKWARD | OpRole.LOSS]
        for op in starts:
            name = op.output_arg_names[0]
            self._scaled(block, block.var(name), op.idx + 1)
        shared = {one.name for one in self._shared_parameters()}
        for param, name in parameter_gradients(block):
            if param not in shared:
                continue
            last = max(op.idx for op in block.ops if name in op.output_arg_names)
            self._summed(block, block.var(name), last + 1)

    def _scaled(self, block: Block, grad: Variable, index: int) -> None:
        settings = {"scale": 1.0 / self.nranks, ROLE: OpRole.BACKWARD}
        apply("scale", {"X": grad}, {"Out": grad}, settings, block=block, index=index)

    def _summed(self, block: Block, grad: Variable, index: int) -> None:
        settings = {"ring_id": 0, ROLE: OpRole.BACKWARD}
        apply("c_allreduce_sum", {"X": grad}, {"Out": grad}, settings, block=block, index=index)


class SingleProcessMultiThread(GradAllReduce):
    """Replicas in one process; those are what `CompiledProgram.with_data_parallel` runs."""

    def __init__(self) -> None:
        super().__init__(1)

    def _transpile_main_program(self) -> None:
        raise EnforceNotMet(
            "SingleProcessMultiThread: run fluid.CompiledProgram(program).with_data_parallel("
            "loss_name=loss.name) instead, which has replicas in one process"
        )


class MultiThread(GradAllReduce):
    """As GradAllReduce; `trans_mode` says how gradients are exchanged, all of which are summed."""

    def __init__(self, nrings: int = 1, trans_mode: str = "all_reduce") -> None:
        super().__init__(nrings)
        if trans_mode not in ("all_reduce", "fuse_all_reduce"):
            raise EnforceNotMet(f"trans_mode {trans_mode!r}: refluid has all_reduce")
        self.mode = trans_mode


class LocalSGD(Collective):
    """Each trainer updates by its own gradients, and takes the mean of all trainers' parameters.

    steps: after how many updates. warm_steps: for so many at the beginning, after each.
    """

    def __init__(self, nrings: int = 2) -> None:
        super().__init__(nrings)
        self.snapshot_key = "@SNAPSHOT"
        self.steps, self.warm_steps = 1, 0

    def snapshot_name(self, param_name: str) -> str:
        """What holds the parameter as all trainers last had it."""
        return f"{param_name}{self.snapshot_key}"

    def _begin_alike(self) -> None:
        super()._begin_alike()
        block = self.startup_program.global_block()
        for param in self._shared_parameters():
            if block.has_var(param.name):
                kept = self._snapshot(block, param)
                apply("assign", {"X": block.var(param.name)}, {"Out": kept}, block=block)

    def _snapshot(self, block: Block, param: Variable) -> Variable:
        name = self.snapshot_name(param.name)
        if block.has_var(name):
            return block.var(name)
        return block.create_var(
            name=name, shape=param.shape, dtype=param.dtype, persistable=True, stop_gradient=True
        )

    def _transpile_main_program(self) -> None:
        main = self.main_program
        block = main.global_block()
        pairs = [(one, self._snapshot(block, one)) for one in self._shared_parameters()]
        with program_guard(main, self.startup_program), main._optimized_guard([]):
            if self.steps == 1:
                self._take_means(pairs)
                return
            updates = autoincreased_step_counter("@LOCAL_SGD_UPDATES@")
            every, none, warm = (
                fill_constant([1], "int64", one) for one in (self.steps, 0, self.warm_steps)
            )
            due = logical_or(
                equal(elementwise_mod(updates, every), none), less_equal(updates, warm)
            )
            cond(due, lambda: self._take_means(pairs))

    def _take_means(self, pairs: Sequence[tuple[Variable, Variable]]) -> None:
        # By what each has moved: far smaller numbers than the parameters.
        for param, kept in pairs:
            apply("elementwise_sub", {"X": kept, "Y": param}, {"Out": param}, _UPDATE)
        params = [param for param, _ in pairs]
        apply("fused_all_reduce", {"X": params}, {"Out": params}, _UPDATE)
        for param, kept in pairs:
            apply("scale", {"X": param}, {"Out": param}, {"scale": 1.0 / self.nranks, **_UPDATE})
            apply("elementwise_sub", {"X": kept, "Y": param}, {"Out": param}, _UPDATE)
            apply("assign", {"X": param}, {"Out": kept}, _UPDATE)
