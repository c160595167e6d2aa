"""What can be tried: knobs, the values worth trying, when, and what each may change in numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from refluid.engine.choices import Choices
from refluid.engine.knobs import KnobScope
from refluid.tune.evidence import BoundBy, Diagnosis, Evidence

# A smaller part of a step wouldn't be noticed. Blocks of a trial take about so many seconds.
_LEAST, _USUAL = 0.002, 4.0
_READER, _PYTHON = BoundBy.READER, BoundBy.PYTHON
_SMALL, _KERNELS = BoundBy.SCHEDULING, BoundBy.KERNELS
_EXCHANGES = BoundBy.COMMUNICATION


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
class Situation:
    """What is known when values are proposed."""

    seen: Evidence
    diagnosis: Diagnosis


@dataclass(frozen=True)
class TunableKnob:
    """A knob in the space.

    values: those worth trying, none where it doesn't apply. helps: the parts of a step that it may
    shorten. gain: the part of them that it takes away where it helps; replaced by what was seen.
    seconds: that a trial takes beside its blocks of steps, about: starting, compiling. compiles:
    whether each trial on top of it takes as long again.
    """

    scope: KnobScope
    name: str
    values: Callable[[Situation], Sequence[Any]]
    helps: tuple[BoundBy, ...]
    gain: float
    numbers: Exactness = Exactness.SAME
    trial: TrialKind = TrialKind.WINDOW
    seconds: float = 0.0
    compiles: bool = False


@dataclass(frozen=True)
class Proposal:
    """One value of a knob to try."""

    row: TunableKnob
    value: Any

    @property
    def key(self) -> str:
        """By which it is remembered, and shown."""
        return f"{self.row.name} = {self.value}"

    def on(self, choices: Choices) -> Choices:
        """These choices with this one."""
        return choices.put(self.row.scope, self.row.name, self.value)


def _half(now: Situation) -> Sequence[Any]:
    worth = now.seen.half > 1.15 and not now.seen.profile.half
    return [True] if worth and now.seen.profile.updates else []


def _fewer_threads(now: Situation) -> Sequence[int]:
    threads, cores = now.seen.host.threads, now.seen.host.cores
    set_now = int(now.seen.flags.get("FLAGS_paddle_num_threads", threads))
    found, count = {cores}, cores
    while count > 1:
        count //= 2
        found.add(count)
    return sorted(found - {set_now})


def _operator_threads(now: Situation) -> Sequence[int]:
    said, cores = now.seen.profile.threads, now.seen.host.cores
    many = [cores] if cores > 1 and said != cores and not now.seen.life.kind.at_once else []
    return ([1] if said > 1 else []) + many


def _tiers(now: Situation) -> Sequence[str]:
    said = now.seen.flags.get("FLAGS_refluid_tier", "auto")
    return [one for one in ("auto", "interpreted") if one != said]


def _fusion(name: str) -> Callable[[Situation], Sequence[bool]]:
    return lambda now: [True] if name in now.seen.profile.fusions else []


def _replicated(*values: Any) -> Callable[[Situation], Sequence[Any]]:
    return lambda now: values if now.seen.profile.replicas > 1 else ()


def _replicas(now: Situation) -> Sequence[int]:
    if not now.seen.profile.everywhere or len(now.seen.lives) > 1:
        return ()
    wanted = {1, now.seen.host.cores}
    return sorted(wanted - {now.seen.profile.replicas})


def _together(*values: Any, least: int = 2) -> Callable[[Situation], Sequence[Any]]:
    """Where so many trainers exchange gradients."""
    return lambda now: (
        values if len(now.seen.lives) >= least and not now.seen.life.kind.servers else ()
    )


def _freed_at_once(now: Situation) -> Sequence[float]:
    keeps = float(now.seen.flags.get("FLAGS_eager_delete_tensor_gb", 0.0)) != 0.0
    return [0.0] if keeps else []


def _computed_again(now: Situation) -> Sequence[bool]:
    """Where memory binds; a loop of dygraph keeps what it keeps."""
    binds = any(one.name in ("memory", "garbage kept") for one in now.diagnosis.causes)
    return [True] if binds and not now.seen.life.kind.at_once else []


def _on(flag: str, default: Any) -> Callable[[Situation], Sequence[Any]]:
    """Back to the default where a script or the environment set something else."""
    return lambda now: [default] if now.seen.flags.get(flag, default) != default else []


def _in_programs(*values: Any) -> Callable[[Situation], Sequence[Any]]:
    """Where the loop runs programs."""
    return lambda now: () if now.seen.life.kind.at_once else values


def _at_once(*values: Any) -> Callable[[Situation], Sequence[Any]]:
    """Where the loop is one of dygraph."""
    return lambda now: values if now.seen.life.kind.at_once else ()


def _served(name: str, usual: Any, *values: Any) -> Callable[[Situation], Sequence[Any]]:
    """Where steps talk to servers of tables; other values of a flag than it has."""
    return lambda now: (
        [one for one in values if now.seen.flags.get(name, usual) != one]
        if now.seen.life.kind.servers
        else ()
    )


def _dataset_threads(now: Situation) -> Sequence[int]:
    kind, cores = now.seen.life.kind, now.seen.host.cores
    wanted = {1, min(cores, kind.possible), min(2 * cores, kind.possible)}
    return sorted(wanted - {kind.beside}) if kind.possible > 1 and not kind.servers else ()


def _workers(now: Situation) -> Sequence[int]:
    return [1, now.seen.host.cores] if loads(now) and now.seen.life.reader.startswith(
        "DataLoader") else ()  # fmt: skip


def loads(now: Situation) -> bool:
    """Whether steps wait for a reader, so that only the loop as it goes on tells what is faster."""
    return bool(now.seen.life.reader) and now.diagnosis.shares[BoundBy.READER] > 0.05


_FUSIONS = (
    "fuse_bn_add_act_ops", "fuse_bn_act_ops", "fuse_elewise_add_act_ops", "fuse_gemm_epilogue",
    "fuse_relu_depthwise_conv",
)  # fmt: skip
_EAGER = (
    "FLAGS_refluid_eager_packed_weights", "FLAGS_refluid_eager_shared_weights",
    "FLAGS_refluid_eager_known_updates", "FLAGS_refluid_eager_direct",
)  # fmt: skip
# Flags of parameter servers, their defaults, and what else is worth trying.
_OF_SERVERS = (
    ("FLAGS_refluid_near_sockets", False, (True,)),
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
    _knob(KnobScope.PRECISION, "decorate", _half, (_KERNELS,), 0.3,
        _PRECISION, _STARTED, 3.0),
    _knob(KnobScope.READER, "use_multiprocess", lambda now: [True] if loads(now) else [],
        (_READER,), 0.6, trial=_LIVE),
    _knob(KnobScope.LOADER, "num_workers", _workers, (_READER,), 0.5, trial=_LIVE, seconds=4.0),
    _knob(KnobScope.READER, "capacity", lambda now: [64] if loads(now) else [],
        (_READER,), 0.1, trial=_LIVE),
    _knob(_FLAG, "FLAGS_paddle_num_threads", _fewer_threads, (_KERNELS, _SMALL, _EXCHANGES),
        0.15, _ROUNDING),
    _knob(_EXECUTION, "num_threads", _operator_threads, (_SMALL,), 0.1, _ROUNDING),
    _knob(_FLAG, "FLAGS_refluid_tier", _tiers, (_SMALL,), 0.2),
    _knob(KnobScope.DYGRAPH, "declarative", _at_once(True), (_SMALL,), 0.4,
        _ROUNDING, seconds=3.0),
    *(_knob(_FLAG, one, _at_once(False), (_SMALL, _KERNELS), 0.03, _ROUNDING, seconds=3.0)
        for one in _EAGER),
    *(_knob(_FLAG, one, _served(one, usual, *others), (_EXCHANGES,), 0.1, _PRECISION, seconds=5.0)
        for one, usual, others in _OF_SERVERS),
    _knob(KnobScope.DATASET, "thread", _dataset_threads, (_PYTHON, _SMALL, _KERNELS), 0.3,
        _PRECISION, _LIVE, 12.0),
    _knob(_BUILD, "enable_auto_fusion", _in_programs(True), (_SMALL, _KERNELS), 0.15,
        _ROUNDING, seconds=8.0, compiles=True),
    *(_knob(_BUILD, one, _fusion(one), (_KERNELS,), 0.05, _ROUNDING) for one in _FUSIONS),
    _knob(_FLAG, "FLAGS_use_mkldnn", lambda now: [] if now.seen.flags.get("FLAGS_use_mkldnn")
        else [True], (_KERNELS,), 0.05, _ROUNDING),
    _knob(_BUILD, "enable_inplace", _in_programs(False), (_KERNELS,), 0.02),
    _knob(_BUILD, "memory_optimize", _computed_again, (_KERNELS,), 0.02, _ROUNDING),
    _knob(_EXECUTION, "num_iteration_per_drop_scope", _replicated(1), (_SMALL, _KERNELS), 0.02),
    _knob(_FLAG, "FLAGS_eager_delete_tensor_gb", _freed_at_once, (_KERNELS,), 0.1),
    _knob(_FLAG, "FLAGS_use_system_allocator", _on("FLAGS_use_system_allocator", False),
        (_KERNELS,), 0.3, trial=_STARTED),
    _knob(_FLAG, "FLAGS_refluid_adaptive_threads", _on("FLAGS_refluid_adaptive_threads", True),
        (_KERNELS,), 0.1, _ROUNDING),
    _knob(KnobScope.ENVIRONMENT, "CPU_NUM", _replicas, (_KERNELS, _SMALL), 0.2,
        _PRECISION, _STARTED),
    _knob(_BUILD, "reduce_strategy", _replicated("Reduce"), (_KERNELS,), 0.05, _ROUNDING),
    _knob(_FLAG, "FLAGS_refluid_replicas", _replicated("threads"), (_SMALL,), 0.05,
        _ROUNDING),
    _knob(_FLAG, "FLAGS_fuse_parameter_memory_size", _replicated(1.0, 100.0), (_KERNELS,), 0.02,
        _ROUNDING),
    _knob(_FLEET, "exchange_type", _together("bfloat16"), (_EXCHANGES,), 0.4, _PRECISION),
    _knob(_FLEET, "bucket_megabytes", _together(1.0, 8.0, 100.0), (_EXCHANGES,), 0.1, _ROUNDING),
    _knob(_BUILD, "nccl_comm_num", _together(2), (_EXCHANGES,), 0.1, _ROUNDING),
    _knob(_BUILD, "use_hierarchical_allreduce", _together(True, least=4), (_EXCHANGES,), 0.1,
        _ROUNDING),
    _knob(_FLAG, "FLAGS_refluid_overlap_exchange", _together(False), (_EXCHANGES,), 0.05,
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
    worth = [one for one in found if promises[one.key] >= _LEAST]
    order = {one.key: -promises[one.key] / (_USUAL + one.row.seconds) for one in worth}
    return sorted(worth, key=lambda one: (one.row.compiles, order[one.key]))


def _promise(one: Proposal, diagnosis: Diagnosis, seen: dict[str, float]) -> float:
    share = sum(diagnosis.shares[bound] for bound in one.row.helps)
    return share * seen.get(one.key, one.row.gain)
