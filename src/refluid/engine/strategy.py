"""`Strategy`: how a program is built and run. Fluid's mutable strategies are written into it.

Names and defaults are those of Fluid 1.8; each field has its knob, see docs/knobs.md.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Annotated

from refluid.core.bounds import MOST_PLACES, MOST_THREADS
from refluid.engine.knobs import About, KnobScope, knobs_of
from refluid.passes.data_parallel import GradientScaleStrategy as GradientScaleStrategy


class ReduceStrategy(IntEnum):
    """AllReduce: every replica updates all parameters. Reduce: each updates its share of them."""

    AllReduce = 0
    Reduce = 1


_build = partial(About, KnobScope.BUILD)
_execution = partial(About, KnobScope.EXECUTION)
_fleet = partial(About, KnobScope.FLEET)
_BETWEEN = "acts between processes: see collective.md"
_MEASURED = "measured over emulated hosts: see scaling.md"
_SHARES = "for memory, among processes: see collective.md"
NUMBERS = "changes the numbers, not the speed"


@dataclass(frozen=True)
class Strategy:
    """All options that a program is built and run by; equal ones ask for the same."""

    # -- what is rewritten ----------------------------------------------------
    build_cinn_pass: Annotated[
        bool,
        _build(
            "chains of small operators become compiled code, as by `enable_auto_fusion`",
            unmeasured="as `enable_auto_fusion`",
        ),
    ] = False
    debug_graphviz_path: Annotated[
        str,
        _build(
            "writes the graphs before and after passes", unmeasured="for the eye, not for speed"
        ),
    ] = ""
    enable_auto_fusion: Annotated[
        bool,
        _build(
            "`softmax` and `cross_entropy` become one operator; chains of small operators become "
            "compiled code"
        ),
    ] = False
    fuse_all_optimizer_ops: Annotated[
        bool,
        _build(
            "updates of one kind are one multi-tensor call; always done, so this only logs it",
            unmeasured="done in any case",
        ),
    ] = False
    fuse_bn_act_ops: Annotated[bool, _build("batch norm and activation are one operator")] = False
    fuse_bn_add_act_ops: Annotated[
        bool, _build("batch norm, sum and activation are one operator")
    ] = False
    fuse_elewise_add_act_ops: Annotated[
        bool, _build("a sum and its activation are one operator")
    ] = False
    fuse_gemm_epilogue: Annotated[bool, _build("product, bias and activation are one operator")] = (
        False
    )
    fuse_relu_depthwise_conv: Annotated[
        bool, _build("relu before a depthwise convolution isn't kept")
    ] = False
    mkldnn_enabled_op_types: Annotated[
        frozenset[str], _build("which operators use oneDNN's kernels")
    ] = frozenset()

    # -- memory and order -----------------------------------------------------
    enable_backward_optimizer_op_deps: Annotated[
        bool,
        _build(
            "with several threads, updates wait for all gradients",
            unmeasured="False lets updates start early where threads are idle",
        ),
    ] = True
    enable_inplace: Annotated[
        bool, _build("operators write over inputs that nobody needs any more")
    ] = True
    enable_sequential_execution: Annotated[
        bool,
        _build(
            "one thread per place, in the order of the program",
            unmeasured="the way back from `num_threads`",
        ),
    ] = False
    memory_optimize: Annotated[
        bool | None,
        _build(
            "cheap activations are computed again; unset: where garbage isn't freed, values pass "
            "their memory on; False: updates wait for all gradients"
        ),
    ] = None
    num_iteration_per_drop_scope: Annotated[
        int, _execution("after how many runs freed memory goes back to the system")
    ] = 100
    num_iteration_per_run: Annotated[int, _execution("steps for each call of `run`")] = 1
    num_threads: Annotated[
        int,
        _execution("threads that run operators out of order, over all places", most=MOST_THREADS),
    ] = 0

    # -- replicas -------------------------------------------------------------
    fuse_all_reduce_ops: Annotated[bool, _build("gradients are exchanged several at a time")] = True
    fuse_broadcast_ops: Annotated[
        bool,
        _build(
            "in Reduce mode, updated parameters are sent together",
            unmeasured="the replicas of one process share parameters, so nothing is sent",
        ),
    ] = True
    gradient_scale_strategy: Annotated[
        GradientScaleStrategy,
        _build("mean, sum or own scale of the replicas' gradients", unmeasured=NUMBERS),
    ] = GradientScaleStrategy.CoeffNumDevice
    reduce_strategy: Annotated[
        ReduceStrategy,
        _build("AllReduce: every place updates all parameters; Reduce: each its share"),
    ] = ReduceStrategy.AllReduce
    sync_batch_norm: Annotated[
        bool, _build("statistics over all places' batches", unmeasured=NUMBERS)
    ] = False

    # -- processes ------------------------------------------------------------
    hierarchical_allreduce_inter_nranks: Annotated[
        int,
        _build(
            "with `use_hierarchical_allreduce` on one host: into how many groups",
            most=MOST_PLACES,
            unmeasured=_BETWEEN,
        ),
    ] = 0
    nccl_comm_num: Annotated[
        int,
        _build(
            "how many exchanges of gradients go on beside each other",
            most=MOST_THREADS,
            unmeasured=_MEASURED,
        ),
    ] = 1
    use_hierarchical_allreduce: Annotated[
        bool,
        _build("gradients are reduced within each host first", unmeasured=_MEASURED),
    ] = False
    num_trainers: Annotated[
        int, _build("how many processes train together", unmeasured=NUMBERS)
    ] = 1
    trainer_id: Annotated[int, _build("which of the processes this is", unmeasured=NUMBERS)] = 0
    trainers_endpoints: Annotated[
        tuple[str, ...],
        _build("where the processes are; else the environment says", unmeasured=NUMBERS),
    ] = ()

    # -- processes, of fleets only ---------------------------------------------
    bucket_megabytes: Annotated[
        float,
        _fleet(
            "`fuse_grad_size_in_MB`: an exchange is begun at so many; negative: as flags say",
            unmeasured=_MEASURED,
        ),
    ] = -1.0
    bucket_gradients: Annotated[
        int,
        _fleet(
            "`_fuse_grad_size_in_TFLOPS`: or at so many gradients; 0: at any number",
            unmeasured=_BETWEEN,
        ),
    ] = 0
    exchange_type: Annotated[
        str,
        _fleet(
            "`fp16_allreduce`: gradients are exchanged as float16 or bfloat16",
            unmeasured=_MEASURED,
        ),
    ] = ""
    sharding_stage: Annotated[
        int,
        _fleet(
            "`sharding`: 1: optimizer state, 2: and gradients, 3: and parameters have owners",
            most=3,
            unmeasured=_SHARES,
        ),
    ] = 0
    sharding_degree: Annotated[
        int,
        _fleet(
            "among how many trainers they are shared; 0: all",
            most=MOST_PLACES,
            unmeasured=_SHARES,
        ),
    ] = 0
    segment_megabytes: Annotated[
        float,
        _fleet("in stage 3 so many MB of parameters come at a time", unmeasured=_SHARES),
    ] = 32.0
    segment_anchors: Annotated[
        tuple[str, ...],
        _fleet("or those that operators with these outputs begin", unmeasured=_SHARES),
    ] = ()

    # -- without effect -------------------------------------------------------
    allow_cuda_graph_capture: Annotated[
        bool, _build(ignored="`FLAGS_refluid_cuda_graphs` asks for graphs of recorded steps")
    ] = False
    async_mode: Annotated[
        bool, _build(ignored="the replicas of one process always work in step")
    ] = False
    cache_runtime_context: Annotated[
        bool, _build(ignored="plans keep what their operators need between runs anyhow")
    ] = False
    enable_addto: Annotated[
        bool, _build(ignored="gradients of several sources are added up in place anyhow")
    ] = False
    fix_op_run_order: Annotated[
        bool, _build(ignored="a plan of one thread runs in the order of the program")
    ] = False
    fused_attention: Annotated[
        bool, _build(ignored="`incubate.nn`'s operators are fused ones; no other are made so")
    ] = False
    fused_feedforward: Annotated[bool, _build(ignored="as `fused_attention`")] = False
    is_distribution: Annotated[
        bool, _build(ignored="`num_trainers` says whether there are several processes")
    ] = False
    remove_unnecessary_lock: Annotated[bool, _build(ignored="plans have no locks")] = True
    allow_op_delay: Annotated[
        bool, _execution(ignored="operators run as soon as what they need is there")
    ] = False
    use_cuda: Annotated[bool, _execution(ignored="the places say where a program runs")] = True
    use_experimental_executor: Annotated[
        bool, _execution(ignored="there is one way to run a plan")
    ] = True
    use_thread_barrier: Annotated[
        bool, _execution(ignored="a run ends when all its replicas have ended")
    ] = False

    @property
    def compiles(self) -> bool:
        """Whether chains of small operators become compiled code."""
        return self.enable_auto_fusion or self.build_cinn_pass


DEFAULT = Strategy()
BUILD = knobs_of(Strategy, KnobScope.BUILD)
EXECUTION = knobs_of(Strategy, KnobScope.EXECUTION)
FLEET = knobs_of(Strategy, KnobScope.FLEET)
