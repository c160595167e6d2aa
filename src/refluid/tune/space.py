"""What can be tried: knobs, the values worth trying, when, and what each may change in numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from refluid.engine.choices import Choices
from refluid.engine.knobs import KnobScope
from refluid.tune import worth
from refluid.tune.evidence import BoundBy, Diagnosis
from refluid.tune.worth import Situation, WorthTrying

# A smaller part of a step wouldn't be noticed. Blocks of a trial take about so many seconds.
_LEAST, _USUAL = 0.002, 4.0
_READER, _PYTHON = BoundBy.READER, BoundBy.PYTHON
_SMALL, _KERNELS = BoundBy.SCHEDULING, BoundBy.KERNELS
_EXCHANGES = BoundBy.COMMUNICATION
_ANY = tuple(BoundBy)


class Exactness(Enum):
    """What a knob may change in losses; the value is the tolerance, relative."""

    SAME = 1e-6
    ROUNDING = 1e-3
    PRECISION = 5e-2


class TrialKind(Enum):
    """How a knob is tried: on the window, in a process started with it, or as the loop goes on."""

    WINDOW = "window"
    STARTED = "started"
    LIVE = "live"


@dataclass(frozen=True)
class TunableKnob:
    """A knob in the space.

    values: those worth trying, none where it doesn't apply. helps: the parts of a step that it may
    shorten. gain: the part of them that it takes away where it helps; replaced by what was seen.
    seconds: that a trial takes beside its blocks of steps, about: starting, compiling. compiles:
    whether each trial on top of it takes as long again. joined: a value with one more, where values
    may be chosen beside each other.
    """

    scope: KnobScope
    name: str
    values: WorthTrying
    helps: tuple[BoundBy, ...]
    gain: float
    numbers: Exactness = Exactness.SAME
    trial: TrialKind = TrialKind.WINDOW
    seconds: float = 0.0
    compiles: bool = False
    joined: Callable[[Any, Any], Any] | None = None


@dataclass(frozen=True)
class Proposal:
    """One value of a knob to try."""

    row: TunableKnob
    value: Any

    @property
    def key(self) -> str:
        """By which it is remembered, and shown."""
        return f"{self.row.name} = {self.value}"

    @property
    def side(self) -> str:
        """What is decided by it: of one side, one value is chosen at most."""
        return self.key if self.row.joined else self.row.name

    def on(self, choices: Choices) -> Choices:
        """These choices with this one."""
        scope, name = self.row.scope, self.row.name
        held, value = choices.of(scope).get(name), self.value
        if self.row.joined and held:
            value = self.row.joined(held, value)
        return choices.put(scope, name, value)


_FUSIONS = (
    "fuse_bn_add_act_ops", "fuse_bn_act_ops", "fuse_elewise_add_act_ops", "fuse_gemm_epilogue",
    "fuse_relu_depthwise_conv",
)  # fmt: skip
_EAGER = (
    "FLAGS_refluid_packed_weights", "FLAGS_refluid_eager_shared_weights",
    "FLAGS_refluid_eager_known_updates", "FLAGS_refluid_eager_direct",
)  # fmt: skip
# Flags of parameter servers, their defaults, and what else is worth trying.
_OF_SERVERS = (
    ("FLAGS_refluid_near_sockets", True, (False,)),
    ("FLAGS_refluid_prefetch_rows", True, (False,)),
    ("FLAGS_refluid_overlap_geo", True, (False,)),
    ("FLAGS_communicator_independent_recv_thread", True, (False,)),
    ("FLAGS_communicator_max_merge_var_num", 20, (4, 100)),
    ("FLAGS_communicator_send_queue_size", 20, (100,)),
    ("FLAGS_communicator_send_wait_times", 5, (1,)),
    ("FLAGS_communicator_min_send_grad_num_before_recv", 20, (4, 100)),
)
_BUILD, _EXECUTION, _FLAG = KnobScope.BUILD, KnobScope.EXECUTION, KnobScope.FLAG
_FLEET = KnobScope.FLEET

_ROUNDING, _PRECISION = Exactness.ROUNDING, Exactness.PRECISION
_STARTED, _LIVE = TrialKind.STARTED, TrialKind.LIVE
_knob = TunableKnob

SPACE: tuple[TunableKnob, ...] = (
    _knob(KnobScope.PRECISION, "decorate", worth.half, (_KERNELS,), 0.3,
        _PRECISION, _STARTED, 3.0),
    _knob(KnobScope.READER, "use_multiprocess", worth.read_by(KnobScope.READER, True),
        (_READER,), 0.6, trial=_LIVE),
    _knob(KnobScope.LOADER, "num_workers", worth.workers, (_READER,), 0.5, trial=_LIVE,
        seconds=4.0),
    _knob(KnobScope.READER, "capacity", worth.read_by(KnobScope.READER, 64), (_READER,), 0.1,
        trial=_LIVE),
    _knob(_FLAG, "FLAGS_paddle_num_threads", worth.fewer_threads, (_KERNELS, _SMALL, _EXCHANGES),
        0.15, _ROUNDING),
    _knob(_EXECUTION, "num_threads", worth.operator_threads, (_SMALL,), 0.1, _ROUNDING),
    _knob(_FLAG, "FLAGS_refluid_tier", worth.tiers, (_SMALL,), 0.2),
    _knob(_FLAG, "FLAGS_refluid_record_after", worth.record_after, (_SMALL,), 0.05,
        trial=_LIVE, seconds=4.0),
    _knob(KnobScope.DYGRAPH, "declarative", worth.at_once(True), (_SMALL,), 0.4,
        _ROUNDING, seconds=3.0),
    *(_knob(_FLAG, one, worth.at_once(False), (_SMALL, _KERNELS), 0.03, _ROUNDING, seconds=3.0)
        for one in _EAGER),
    *(_knob(_FLAG, one, worth.served(one, usual, *others), (_EXCHANGES,), 0.1, _PRECISION,
        seconds=5.0) for one, usual, others in _OF_SERVERS),
    _knob(KnobScope.DATASET, "thread", worth.dataset_threads, (_PYTHON, _SMALL, _KERNELS), 0.3,
        _PRECISION, _LIVE, 12.0),
    _knob(_BUILD, "enable_auto_fusion", worth.in_programs(True), (_SMALL, _KERNELS), 0.15,
        _ROUNDING, seconds=8.0, compiles=True),
    *(_knob(_BUILD, one, worth.fusion(one), (_KERNELS,), 0.05, _ROUNDING) for one in _FUSIONS),
    _knob(_FLAG, "FLAGS_refluid_native_kernels", worth.native_kernels, (_KERNELS, _SMALL), 0.03,
        _ROUNDING, joined=worth.join),
    _knob(_FLAG, "FLAGS_refluid_onednn_from", worth.onednn_from, (_KERNELS, _SMALL), 0.05,
        _ROUNDING),
    _knob(_FLAG, "FLAGS_refluid_panel_products", worth.without_panels, (_KERNELS,), 0.03,
        _ROUNDING),
    _knob(_FLAG, "FLAGS_refluid_channels_last", worth.layouts, (_KERNELS, _SMALL), 0.05,
        _ROUNDING),
    _knob(_BUILD, "enable_inplace", worth.in_programs(False), (_KERNELS,), 0.02),
    _knob(_BUILD, "memory_optimize", worth.where_memory_binds(True), _ANY, 0.5, _ROUNDING),
    _knob(_FLAG, "FLAGS_refluid_batch_parts", worth.in_parts, _ANY, 0.4, _ROUNDING),
    _knob(_EXECUTION, "num_iteration_per_drop_scope", worth.replicated(1), (_SMALL, _KERNELS),
        0.02),
    _knob(_FLAG, "FLAGS_eager_delete_tensor_gb", worth.freed_at_once, _ANY, 0.6),
    _knob(_FLAG, "FLAGS_use_system_allocator",
        worth.default_of("FLAGS_use_system_allocator", False), (_KERNELS,), 0.3, trial=_STARTED),
    _knob(_FLAG, "FLAGS_refluid_adaptive_threads",
        worth.default_of("FLAGS_refluid_adaptive_threads", True), (_KERNELS,), 0.1, _ROUNDING),
    _knob(KnobScope.ENVIRONMENT, "CPU_NUM", worth.replicas, (_KERNELS, _SMALL), 0.2,
        _PRECISION, _STARTED),
    _knob(_BUILD, "reduce_strategy", worth.replicated("Reduce"), (_KERNELS,), 0.05, _ROUNDING),
    _knob(_FLAG, "FLAGS_refluid_replicas", worth.replicated("threads"), (_SMALL,), 0.05,
        _ROUNDING),
    _knob(_FLAG, "FLAGS_fuse_parameter_memory_size", worth.replicated(1.0, 100.0), (_KERNELS,),
        0.02, _ROUNDING),
    _knob(_FLEET, "exchange_type", worth.together("bfloat16"), (_EXCHANGES,), 0.4, _PRECISION),
    _knob(_FLEET, "bucket_megabytes", worth.together(1.0, 8.0, 100.0), (_EXCHANGES,), 0.1,
        _ROUNDING),
    _knob(_BUILD, "nccl_comm_num", worth.together(2), (_EXCHANGES,), 0.1, _ROUNDING),
    _knob(_BUILD, "use_hierarchical_allreduce", worth.together(True, least=4), (_EXCHANGES,), 0.1,
        _ROUNDING),
    _knob(_FLAG, "FLAGS_refluid_overlap_exchange", worth.together(False), (_EXCHANGES,), 0.05,
        _ROUNDING),
)  # fmt: skip


def applicable(now: Situation, space: Sequence[TunableKnob] = SPACE) -> list[Proposal]:
    """All that changes something for this script, whatever it promises."""
    return [Proposal(row, value) for row in space for value in row.values(now)]


def proposals(
    now: Situation, seen: dict[str, float], space: Sequence[TunableKnob] = SPACE
) -> list[Proposal]:
    """What to try: what promises most for the time that it takes first, what makes all that
    follows slow to try last, and not what could gain too little to be chosen. seen: gains on this
    machine before, by key."""
    found = applicable(now, space)
    promises = {one.key: _promise(one, now.diagnosis, seen) for one in found}
    chosen = [one for one in found if promises[one.key] >= _LEAST]
    order = {one.key: -promises[one.key] / (_USUAL + one.row.seconds) for one in chosen}
    return sorted(chosen, key=lambda one: (one.row.compiles, order[one.key]))


def _promise(one: Proposal, diagnosis: Diagnosis, seen: dict[str, float]) -> float:
    share = sum(diagnosis.shares[bound] for bound in one.row.helps)
    return share * seen.get(one.key, one.row.gain)
