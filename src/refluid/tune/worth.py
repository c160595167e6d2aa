"""Which values of each knob are worth trying in a situation: none where it doesn't apply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from refluid.engine.knobs import KnobScope
from refluid.runtime.kernels import named
from refluid.tune.evidence import BoundBy, Diagnosis, Evidence

WorthTrying = Callable[["Situation"], Sequence[Any]]


@dataclass(frozen=True)
class Situation:
    """What is known when values are proposed."""

    seen: Evidence
    diagnosis: Diagnosis


def half(now: Situation) -> Sequence[Any]:
    """Where bfloat16 is faster, and the script has no half precision of its own."""
    worth = now.seen.half > 1.15 and not now.seen.profile.half
    return [True] if worth and now.seen.profile.updates else []


def fewer_threads(now: Situation) -> Sequence[int]:
    """As many as cores, half of that, and so on, but for what is set."""
    threads, cores = now.seen.host.threads, now.seen.host.cores
    set_now = int(now.seen.flags.get("FLAGS_paddle_num_threads", threads))
    found, count = {cores}, cores
    while count > 1:
        count //= 2
        found.add(count)
    return sorted(found - {set_now})


def operator_threads(now: Situation) -> Sequence[int]:
    """One that runs operators, where the script says several, and as many as cores."""
    said, cores = now.seen.profile.threads, now.seen.host.cores
    many = [cores] if cores > 1 and said != cores and not now.seen.life.kind.at_once else []
    return ([1] if said > 1 else []) + many


def tiers(now: Situation) -> Sequence[str]:
    """The tiers that come and go at once; compiling has a knob of its own."""
    said = now.seen.flags.get("FLAGS_refluid_tier", "auto")
    return [one for one in ("auto", "interpreted") if one != said]


def fusion(name: str) -> WorthTrying:
    """Where its pass finds something."""
    return lambda now: [True] if name in now.seen.profile.fusions else []


def replicated(*values: Any) -> WorthTrying:
    """Where there are replicas."""
    return lambda now: values if now.seen.profile.replicas > 1 else ()


def replicas(now: Situation) -> Sequence[int]:
    """How many there may be, where the environment says it."""
    if not now.seen.profile.everywhere or len(now.seen.lives) > 1:
        return ()
    wanted = {1, now.seen.host.cores}
    return sorted(wanted - {now.seen.profile.replicas})


def together(*values: Any, least: int = 2) -> WorthTrying:
    """Where so many trainers exchange gradients."""
    return lambda now: (
        values if len(now.seen.lives) >= least and not now.seen.life.kind.servers else ()
    )


def freed_at_once(now: Situation) -> Sequence[float]:
    """Where garbage is kept."""
    keeps = float(now.seen.flags.get("FLAGS_eager_delete_tensor_gb", 0.0)) != 0.0
    return [0.0] if keeps else []


def where_memory_binds(*values: Any) -> WorthTrying:
    """A loop of dygraph keeps what it keeps."""
    return lambda now: () if now.seen.life.kind.at_once or not _memory_binds(now) else values


def in_parts(now: Situation) -> Sequence[int]:
    """Parts of a batch, where memory binds and one process runs the program once."""
    profile, kind = now.seen.profile, now.seen.life.kind
    alone = profile.plain and profile.updates and not kind.passes and len(now.seen.lives) < 2
    rows = {shape[0] for shape in profile.fed.values() if shape}
    if not alone or not _memory_binds(now) or len(rows) != 1:
        return ()
    return [parts for parts in (2, 4) if not min(rows) % parts]


def _memory_binds(now: Situation) -> bool:
    return any(one.name in ("memory", "garbage kept") for one in now.diagnosis.causes)


def native_kernels(now: Situation) -> Sequence[str]:
    """Operators of which oneDNN and torch both have kernels."""
    held = named(str(now.seen.flags.get("FLAGS_refluid_native_kernels", "")))
    return [one for one in now.seen.profile.kernels.chosen if one not in held]


def onednn_from(now: Situation) -> Sequence[int]:
    """Small and large products, where there are some that a kernel could be chosen for."""
    said = now.seen.flags.get("FLAGS_refluid_onednn_from")
    sizes = (2**18, 2**22) if now.seen.profile.kernels.multiplies else ()
    return [one for one in sizes if one != said]


def without_panels(now: Situation) -> Sequence[bool]:
    """torch's products instead of refluid's own, where there are some that might be either's."""
    said = now.seen.flags.get("FLAGS_refluid_panel_products", True)
    return [False] if said and now.seen.profile.kernels.multiplies else []


def layouts(now: Situation) -> Sequence[str]:
    """The other one than that by which filters lie."""
    kernels = now.seen.profile.kernels
    return ["never" if kernels.laid else "always"] if kernels.convolves else ()


def record_after(now: Situation) -> Sequence[int]:
    """Sooner and later, where shapes vary, so that many steps are recorded."""
    said = int(now.seen.flags.get("FLAGS_refluid_record_after", 3))
    return [one for one in (0, 12) if one != said] if now.seen.profile.varied else ()


def join(held: str, more: str) -> str:
    """A list by commas with one more."""
    names = named(held)
    return ",".join([*names, more] if more not in names else names)


def default_of(flag: str, default: Any) -> WorthTrying:
    """Back to the default where a script or the environment set something else."""
    return lambda now: [default] if now.seen.flags.get(flag, default) != default else []


def in_programs(*values: Any) -> WorthTrying:
    """Where the loop runs programs."""
    return lambda now: () if now.seen.life.kind.at_once else values


def at_once(*values: Any) -> WorthTrying:
    """Where the loop is one of dygraph."""
    return lambda now: values if now.seen.life.kind.at_once else ()


def served(name: str, usual: Any, *values: Any) -> WorthTrying:
    """Where steps talk to servers of tables; other values of a flag than it has."""
    return lambda now: (
        [one for one in values if now.seen.flags.get(name, usual) != one]
        if now.seen.life.kind.servers
        else ()
    )


def dataset_threads(now: Situation) -> Sequence[int]:
    """One, as many as cores, and twice as many, but no more than files."""
    kind, cores = now.seen.life.kind, now.seen.host.cores
    wanted = {1, min(cores, kind.possible), min(2 * cores, kind.possible)}
    return sorted(wanted - {kind.beside}) if kind.possible > 1 and not kind.servers else ()


def read_by(scope: KnobScope, *values: Any) -> WorthTrying:
    """Where steps wait for a reader, and the script has one that knobs of this place act on."""
    return lambda now: values if loads(now) and scope.name in now.seen.profile.scopes else ()


def workers(now: Situation) -> Sequence[int]:
    """One, and as many as cores."""
    return read_by(KnobScope.LOADER, 1, now.seen.host.cores)(now)


def loads(now: Situation) -> bool:
    """Whether steps wait for a reader, so that only the loop as it goes on tells what is faster."""
    return bool(now.seen.life.reader) and now.diagnosis.shares[BoundBy.READER] > 0.05
