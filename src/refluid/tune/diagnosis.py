"""What binds a loop: the shares of a step, and what is behind the large ones, with figures."""

from __future__ import annotations

import linecache
import statistics
from collections.abc import Callable, Iterator, Mapping

from refluid.tune.evidence import BoundBy, Cause, Diagnosis, Evidence

_NOTABLE = 0.1
_LARGE_FETCH = 1 << 20
_MANY_UPDATES, _UPDATES_SHARE = 100, 0.15
_CROWDED = 0.1
_NEAR = 0.6
_HALF_PAYS = 1.3
_HEAVY = 0.2
_SLOWER = 1.2
_BY_PYTHON = 0.3
# What lines that copy values out of a scope, or files to it, are seen by.
_CHECKS = ("FLAGS_check_nan_inf", "FLAGS_fast_check_nan_inf", "FLAGS_benchmark")
_COPYING = ("get_tensor", "find_var", ".numpy(", "save_", "np.save", "asarray")


def diagnose(seen: Evidence) -> Diagnosis:
    """Says what binds the loop."""
    life, profile = seen.life, seen.profile
    reads = not profile.fed or profile.reads
    inside = max(1e-9, life.inside - (life.waited if reads else 0.0))
    between = max(0.0, life.outside - (0.0 if reads else life.waited))
    exchanged = min(inside, life.exchanged + profile.exchanged_ms / 1e3 * life.kind.servers)
    inside -= exchanged
    calling = inside * _small_part(seen)
    spent = {
        BoundBy.READER: life.waited,
        BoundBy.PYTHON: between,
        BoundBy.SCHEDULING: calling,
        BoundBy.KERNELS: inside - calling,
        BoundBy.COMMUNICATION: exchanged,
    }
    total = sum(spent.values())
    shares = {bound: part / total for bound, part in sorted(spent.items(), key=lambda x: -x[1])}
    least = seen.ceilings.least_seconds(profile.flops, profile.moved)
    causes = tuple(cause for look in _LOOKS for cause in look(seen, shares))
    limit = seen.ceilings.bound(profile.flops, profile.moved)
    return Diagnosis(shares, min(1.0, least / max(1e-9, inside)), limit, causes)


def _small_part(seen: Evidence) -> float:
    """Of a run: what small operators take beyond what the ceilings need, and what is between."""
    profile, small = seen.profile, seen.profile.small
    least = 1e3 * seen.ceilings.least_seconds(small.flops, small.moved)
    all_of_it = max(1e-9, profile.ms + profile.between)
    return min(1.0, (max(0.0, small.ms - least) + profile.between) / all_of_it)


def _shown(line: str) -> str:
    path, _, number = line.rpartition(":")
    text = linecache.getline(path, int(number)).strip() if number.isdigit() else ""
    return f"{path.rsplit('/', 1)[-1]}:{number}  {text}"


def _reader(seen: Evidence, shares: Mapping[BoundBy, float]) -> Iterator[Cause]:
    life = seen.life
    if shares[BoundBy.READER] > _NOTABLE:
        yield Cause(
            "slow reader",
            f"{shares[BoundBy.READER]:.0%} of a step is spent waiting for data: {life.reader}",
            "use_multiprocess=True or num_workers prepares data in other processes; feed uint8 and "
            "normalise in the program; else the generator must become faster (docs/feeding.md)",
        )


def _python(seen: Evidence, shares: Mapping[BoundBy, float]) -> Iterator[Cause]:
    if shares[BoundBy.PYTHON] <= _NOTABLE:
        return
    lines = tuple(_shown(line) for line, _ in seen.life.lines)
    first = lines[0] if lines else ""
    between = f"{seen.life.outside * 1e3:.3g} ms of each step ({shares[BoundBy.PYTHON]:.0%})"
    if any(word in first for word in _COPYING):
        yield Cause(
            "copy each step",
            f"{between} pass between runs, most of it in a line that copies values",
            "copy them every hundredth step, or fetch what is needed of them",
            lines,
        )
    elif "train_from_dataset" in first:
        yield Cause(
            "dataset handed on slowly",
            f"{between} pass between batches of the dataset",
            "more threads train at once (dataset.set_thread, of no more than its files); larger "
            "batches",
            lines,
        )
    else:
        yield Cause(
            "data prepared between steps",
            f"{between} pass in Python between runs, while nothing computes",
            "a DataLoader prepares batches while a step runs (docs/feeding.md)",
            lines,
        )


def _one_by_one(seen: Evidence, shares: Mapping[BoundBy, float]) -> Iterator[Cause]:
    share = shares[BoundBy.SCHEDULING]
    if seen.life.kind.at_once and share > _BY_PYTHON:
        yield Cause(
            "operators one by one from Python",
            f"{share:.0%} of a step is what calling {seen.profile.operators} small operators takes",
            "fluid.dygraph.declarative over `forward` has all of it run as one program; larger "
            "batches share what calling costs (docs/dygraph.md)",
            tuple(_shown(line) for line, _ in seen.life.lines),
        )


def _fetches(seen: Evidence, _shares: Mapping[BoundBy, float]) -> Iterator[Cause]:
    size = seen.life.fetched
    if size > _LARGE_FETCH:
        yield Cause(
            "large fetch",
            f"each step fetches {size / 1e6:.3g} MB",
            "fetch a number made of it (reduce_mean), or all of it every hundredth step",
        )


def _threads(seen: Evidence, _shares: Mapping[BoundBy, float]) -> Iterator[Cause]:
    cores = seen.host.cores
    for name, threads in (
        ("num_threads", seen.profile.threads),
        ("FLAGS_paddle_num_threads", int(seen.flags.get("FLAGS_paddle_num_threads", 0))),
        ("OMP_NUM_THREADS", int(seen.host.environment.get("OMP_NUM_THREADS") or 0)),
    ):
        if threads > cores:
            yield Cause(
                "too many threads",
                f"{name} is {threads}, and there are {cores} cores: threads wait for each other",
                f"{name}={cores} or fewer",
            )


def _load(seen: Evidence, _shares: Mapping[BoundBy, float]) -> Iterator[Cause]:
    if seen.load.is_heavy or seen.life.waiting > _CROWDED:
        yield Cause(
            "machine loaded by others",
            f"other processes use {seen.load.others + seen.load.stolen:.0%} of the cores; "
            f"{seen.life.waiting:.2g} threads of this one waited for a core on average",
            "end them, or give this one fewer threads: then no operator waits for a core",
        )


def _updates(seen: Evidence, _shares: Mapping[BoundBy, float]) -> Iterator[Cause]:
    profile = seen.profile
    share = profile.updates_ms / max(1e-9, profile.ms)
    if profile.updates > _MANY_UPDATES and share > _UPDATES_SHARE:
        yield Cause(
            "many small parameters",
            f"{profile.updates} updates take {share:.0%} of what operators take",
            "updates of one kind are one call already; fewer and larger parameters cost less "
            "(one embedding for many fields, one layer for parallel ones)",
        )


def _memory(seen: Evidence, _shares: Mapping[BoundBy, float]) -> Iterator[Cause]:
    peak, left = seen.profile.peak, seen.host.limit or seen.host.available
    near = seen.life.resident + peak > _NEAR * (left + seen.life.resident)
    keeps = float(seen.flags.get("FLAGS_eager_delete_tensor_gb", 0.0)) != 0.0
    if keeps:
        yield Cause(
            "garbage kept",
            f"FLAGS_eager_delete_tensor_gb={seen.flags['FLAGS_eager_delete_tensor_gb']}: a step "
            f"holds {peak / 1e6:.3g} MB at its peak" + (", near what is free" if near else ""),
            "FLAGS_eager_delete_tensor_gb=0 drops each value after its last use",
        )
    elif near:
        yield Cause(
            "memory",
            f"a step holds {peak / 1e9:.3g} GB at its peak, near the {left / 1e9:.3g} GB left",
            "memory_optimize, recompute or smaller batches merged (docs/knobs.md)",
        )


def _half(seen: Evidence, shares: Mapping[BoundBy, float]) -> Iterator[Cause]:
    profile = seen.profile
    products = min(1.0, profile.flops / seen.ceilings.rate / max(1e-9, seen.life.inside))
    worth = seen.half > _HALF_PAYS and products > _HEAVY and shares[BoundBy.KERNELS] > _HEAVY
    if worth and not profile.half:
        yield Cause(
            "float32 where bfloat16 may do",
            f"products take at least {products:.0%} of a run, and bfloat16 is {seen.half:.2g} "
            "times as fast here",
            "contrib.mixed_precision.decorate, if the losses stay as they are: tune compares them",
        )


def _checks(seen: Evidence, _shares: Mapping[BoundBy, float]) -> Iterator[Cause]:
    on = [name for name in _CHECKS if seen.flags.get(name)]
    if on:
        yield Cause(
            "checks",
            f"{', '.join(on)}: every operator is looked at, and no step is recorded",
            "leave them out where nothing is being looked for",
        )


def _slow_trainer(seen: Evidence, _shares: Mapping[BoundBy, float]) -> Iterator[Cause]:
    if len(seen.lives) < 2:
        return
    own = [one.own for one in seen.lives]
    rank = max(range(len(own)), key=own.__getitem__)
    others = statistics.median(own[:rank] + own[rank + 1 :])
    if own[rank] > _SLOWER * others and own[rank] - others > _NOTABLE * seen.life.period:
        life = seen.lives[rank]
        yield Cause(
            "one trainer slower than the others",
            f"trainer {rank} takes {own[rank] * 1e3:.3g} ms of its own for a step, the others "
            f"{others * 1e3:.3g} ms, and then wait for it",
            "look at what its machine does besides (refluid doctor there), at its share of the "
            "data, and at what its script does between runs",
            tuple(_shown(line) for line, _ in life.lines)
            if life.outside > _HEAVY * life.own
            else (),
        )


def _exchanges(seen: Evidence, shares: Mapping[BoundBy, float]) -> Iterator[Cause]:
    share = shares[BoundBy.COMMUNICATION]
    if share > _HEAVY and seen.life.kind.servers:
        yield Cause(
            "exchanges with servers of tables",
            f"{share:.0%} of a step is spent pushing gradients and pulling parameters",
            "asynchronous training or GEO (docs/pserver.md), more servers, fewer bytes: sparse "
            "tables for what is looked up, larger batches",
        )
    elif share > _HEAVY:
        yield Cause(
            "exchanges with other trainers",
            f"{share:.0%} of a step is spent waiting for gradients of other trainers",
            "16-bit exchanges (fp16_allreduce), fewer of them (gradient merge, LocalSGD), larger "
            "batches, a faster link (docs/collective.md, docs/scaling.md)",
        )


_LOOKS: tuple[Callable[[Evidence, Mapping[BoundBy, float]], Iterator[Cause]], ...] = (
    _reader, _python, _one_by_one, _fetches, _threads, _load, _updates, _memory, _half, _checks,
    _slow_trainer, _exchanges,
)  # fmt: skip
