"""A program on several places at once: the batch parted, gradients exchanged, results joined."""

from __future__ import annotations

import logging
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch

from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.core.places import CUDAPlace, Place
from refluid.core.selected_rows import SelectedRows
from refluid.core.values import LoDTensor, lengths_to_offsets
from refluid.fluid.feeding import FeedSlot, feed_slots
from refluid.fluid.fusing import draw, fuse
from refluid.fluid.parting import part_batch
from refluid.fluid.strategies import BuildStrategy, ExecutionStrategy, ReduceStrategy
from refluid.ir.program import Program
from refluid.passes.data_parallel import (
    GradientScale,
    Parallel,
    balance,
    data_parallel,
    gradient_block,
)
from refluid.passes.half_on_cpu import half_for
from refluid.passes.sync_batch_norm import sync_batch_norm
from refluid.runtime.codegen import Request
from refluid.runtime.instrument import instruments
from refluid.runtime.plan import Fetched, Plan
from refluid.runtime.replicas import Replicas
from refluid.runtime.scope import Scope

_log = logging.getLogger("refluid")
_PLANS = 64
_MEGABYTE = 1 << 20
# A bucket that is exchanged while later gradients are still being computed, as DDP has it.
_BUCKET = 25 * _MEGABYTE


class Replicated:
    """Replicas of a program, each with its variables; replica 0 uses the scope of the user.

    Parameters of the other replicas are copies, made once. In Reduce mode on CPU all replicas
    share the parameters and optimizer states, and each updates its own part of them.
    """

    def __init__(
        self,
        program: Program,
        loss: str | None,
        build: BuildStrategy,
        execution: ExecutionStrategy,
        places: Sequence[Place],
        scope: Scope,
        shared: Replicated | None,
    ) -> None:
        self.program, self.places, self.loss = program, list(places), loss
        self.build = build
        self.replicas: Replicas = shared.replicas if shared else Replicas(len(places))
        self.scopes: list[Scope] = shared.scopes if shared else self._scopes(scope)
        on_gpu = any(isinstance(place, CUDAPlace) for place in places)
        self.threads = max(1, execution.num_threads // len(places))
        if build.enable_sequential_execution:
            self.threads = 1
        threads = execution.num_threads or len(places) * (4 if on_gpu else 2)
        execution._finalize(num_threads=threads, use_cuda=on_gpu)
        self._resolve_reduce()
        build._finalize()
        self._programs: OrderedDict[Any, list[Program]] = OrderedDict()
        self._plans: OrderedDict[Any, tuple[list[tuple[FeedSlot, ...]], dict[Any, list[Plan]]]]
        self._plans = OrderedDict()

    def _resolve_reduce(self) -> None:
        if self.build.reduce_strategy == ReduceStrategy.Reduce and len(self.places) == 1:
            _log.warning(
                "If you set build_strategy.reduce with 'Reduce',the number of places should be "
                "greater than 1."
            )

    # -- variables ------------------------------------------------------------

    @property
    def _shares_parameters(self) -> bool:
        reduce = self.build.reduce_strategy == ReduceStrategy.Reduce and len(self.places) > 1
        return reduce and all(place.device.type == "cpu" for place in self.places)

    def _scopes(self, scope: Scope) -> list[Scope]:
        """One scope per replica; those of replicas 1, 2, ... hold copies of the persistables."""
        scopes = [scope]
        shared = _optimized(self.program) if self._shares_parameters else set()
        for place in self.places[1:]:
            copy = Scope(scope)
            for var in self.program.list_vars():
                cell = scope.find_var(var.name)
                if not var.persistable or cell is None or var.name in shared:
                    continue
                own = copy.var(var.name)
                own.value, own.lod = _copied(cell.value, place.device), cell.lod
            scopes.append(copy)
        return scopes

    # -- running --------------------------------------------------------------

    def run(self, feed: Any, fetches: tuple[str, ...]) -> list[list[Fetched]]:
        """One step; for each fetch the values of all replicas, by rank.

        feed: a mapping whose arrays are parted along dimension 0 (the first replicas get the
        remainder), or one mapping per replica. Raises EnforceNotMet where there are fewer rows,
        or mappings, than replicas; ValueError for a name that the program doesn't have.
        """
        feeds = self._feeds(feed)
        slots, plans = self._prepared(tuple(feeds[0]), fetches)
        values = [
            [slot.convert(feeds[rank][slot.name]) for slot in slots[rank]]
            for rank in range(len(self.places))
        ]
        with_lod = frozenset(
            slot.name
            for rank, found in enumerate(values)
            for slot, (_, lod) in zip(slots[rank], found, strict=True)
            if lod
        )
        ready: list[Plan] = plans(with_lod)

        def step(rank: int) -> list[Fetched]:
            tensors = [tensor for tensor, _ in values[rank]]
            return ready[rank].run(self.scopes[rank], tensors, [lod for _, lod in values[rank]])

        if len(self.places) == 1:
            return [[fetched] for fetched in step(0)]
        return [list(found) for found in zip(*self.replicas.run(step), strict=True)]

    def _feeds(self, feed: Any) -> list[Mapping[str, Any]]:
        count = len(self.places)
        if feed is None:
            return [{} for _ in self.places]
        if isinstance(feed, list | tuple):
            if len(feed) != count:
                raise EnforceNotMet(
                    f"The feed data number {len(feed)} does not match the device number {count}: "
                    "give one dict per place (CPU_NUM sets how many CPU places there are)"
                )
            return list(feed)
        if not isinstance(feed, Mapping):
            raise TypeError(f"feed requires dict as its Parameter. But you passed in {type(feed)}")
        block = self.program.global_block()
        for name in feed:
            if count > 1 and not block.has_var(name):
                raise ValueError(f"feed names {name!r}, which the program doesn't have")
        parted = {name: part_batch(name, value, count) for name, value in feed.items()}
        return [{name: parts[rank] for name, parts in parted.items()} for rank in range(count)]

    # -- preparation ----------------------------------------------------------

    def _prepared(self, fed: tuple[str, ...], fetches: tuple[str, ...]) -> tuple[Any, Any]:
        free = bool(flags.value("eager_delete_tensor_gb") >= 0)
        watched = instruments()
        programs = self._rewritten((*fed, *fetches), bool(watched))
        key = (self.program.change_count, fed, fetches, free, watched)
        if key not in self._plans:
            slots = [
                feed_slots(program, dict.fromkeys(fed), place.device)
                for program, place in zip(programs, self.places, strict=True)
            ]
            self._plans[key] = (slots, {})
            if len(self._plans) > _PLANS:
                self._plans.popitem(last=False)
        slots, plans = self._plans[key]

        def of(with_lod: frozenset[str]) -> list[Plan]:
            if with_lod not in plans:
                plans[with_lod] = [
                    Plan(
                        Request(
                            programs[rank].global_block(),
                            tuple(slot.name for slot in slots[rank]),
                            fetches,
                            place.device,
                            with_lod,
                            free,
                            self.replicas.group.member(rank),
                            self.threads,
                            watched,
                        )
                    )
                    for rank, place in enumerate(self.places)
                ]
            return plans[with_lod]

        return slots, of

    def _rewritten(self, kept: tuple[str, ...], watched: bool) -> list[Program]:
        """The program of each replica, in which the `kept` variables are computed."""
        key = self.program.change_count, kept, watched
        if key not in self._programs:
            first = not self._programs
            fused = fuse(self.program, self.build, kept, first=first, as_written=watched)
            programs = zip(self._rewrite(fused, first=first), self.places, strict=False)
            self._programs[key] = [half_for(one, place.device) for one, place in programs]
            if len(self._programs) > _PLANS:
                self._programs.popitem(last=False)
        return self._programs[key]

    def _rewrite(self, fused: Program, *, first: bool) -> list[Program]:
        count = len(self.places)
        scale = GradientScale(int(self.build.gradient_scale_strategy))
        if count == 1 and scale != GradientScale.CUSTOMIZED:
            return [fused]
        reduce = self.build.reduce_strategy == ReduceStrategy.Reduce and self._shares_parameters
        program = sync_batch_norm(fused) if self.build.sync_batch_norm else fused
        block = gradient_block(program)
        parallel = Parallel(
            count,
            self.loss,
            scale,
            *(_bucket() if self.build.fuse_all_reduce_ops else (0, 0)),
            balance(block, count) if reduce else None,
        )
        found = [data_parallel(program, parallel, rank) for rank in range(count)]
        if first and self.build.debug_graphviz_path:
            draw(found[0].program, self.build, "multi_devices")
        fewer = self.build.fuse_all_reduce_ops and found[0].exchanges < found[0].gradients
        if first and fewer:
            _log.warning(
                "Find all_reduce operators: %d. To make the speed faster, some all_reduce ops are "
                "fused during training, after fusion, the number of all_reduce ops is %d.",
                found[0].gradients,
                found[0].exchanges,
            )
        return [one.program for one in found]

    def close(self) -> None:
        """Ends the replicas' threads."""
        self.replicas.close()


def _bucket() -> tuple[int, int]:
    """Most bytes and, if not 0, most gradients of one exchange, as the flags say."""
    size = float(flags.value("fuse_parameter_memory_size"))
    count = int(flags.value("fuse_parameter_groups_size"))
    usual = _BUCKET if count == 1 else sys.maxsize
    return usual if size < 0 else int(size * _MEGABYTE), count if count > 1 else 0


def _optimized(program: Program) -> set[str]:
    """Parameters, and what else the optimizer's updates write: shared in Reduce mode."""
    names: set[str] = set()
    for op in gradient_block(program).ops:
        if "Param" in op.inputs:
            names |= {*op.input_arg_names, *op.output_arg_names}
    return names


def _copied(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device, copy=True)
    if isinstance(value, SelectedRows):
        return SelectedRows(value.index.clone(), value.height(), value.value.to(device, copy=True))
    return value


def join(values: Sequence[Fetched]) -> Fetched:
    """The values of all replicas one after the other along dimension 0, with their sequences."""
    if len(values) == 1 or not isinstance(values[0].value, torch.Tensor):
        return values[0]
    tensors = [one.value.reshape(1) if one.value.dim() == 0 else one.value for one in values]
    first = tensors[0].device
    joined = torch.cat([tensor.to(first) for tensor in tensors])
    lengths = [LoDTensor(one.value, one.lod).recursive_sequence_lengths() for one in values]
    merged = [list(chain.from_iterable(level)) for level in zip(*lengths, strict=False)]
    return Fetched(joined, lengths_to_offsets(merged))
