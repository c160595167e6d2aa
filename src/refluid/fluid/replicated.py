"""A program on several places at once: the batch parted, gradients exchanged, results joined."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch

from refluid.core.errors import EnforceNotMet
from refluid.core.places import CUDAPlace, Place
from refluid.core.selected_rows import SelectedRows
from refluid.core.values import LoDTensor, lengths_to_offsets
from refluid.fluid.exchanging import optimized, replica_programs
from refluid.fluid.feeding import FeedSlot, feed_slots
from refluid.fluid.fusing import fuse, ignored
from refluid.fluid.parting import part_batch
from refluid.fluid.strategies import BuildStrategy, ExecutionStrategy, ReduceStrategy
from refluid.ir.program import Program
from refluid.passes.early_updates import early_updates
from refluid.passes.half_on_cpu import half_for
from refluid.passes.recompute_activations import recompute_activations
from refluid.passes.sync_batch_norm import sync_batch_norm
from refluid.runtime.allocator import end_step, release
from refluid.runtime.codegen import Request
from refluid.runtime.instrument import instruments
from refluid.runtime.kernels import asked_for
from refluid.runtime.memory import Memory, memory_as_set
from refluid.runtime.plan import Fetched, Plan
from refluid.runtime.replicas import Replicas
from refluid.runtime.scope import Scope

_log = logging.getLogger("refluid")
_PLANS = 64


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
        self.iterations = execution.num_iteration_per_run
        self.runs_until_drop = max(1, execution.num_iteration_per_drop_scope)
        self.runs = 0
        if self.iterations < 1:
            raise EnforceNotMet(f"num_iteration_per_run is 1 or more, not {self.iterations}")
        for line in ignored(execution):
            _log.warning(line)
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
        shared = optimized(self.program) if self._shares_parameters else set()
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
        """One step, or num_iteration_per_run of them; for each fetch all replicas' values, by rank.

        Several steps have the same feed, and the fetches are those of the last.
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
            lods = [lod for _, lod in values[rank]]
            for _ in range(self.iterations - 1):
                ready[rank].run(self.scopes[rank], tensors, lods)
            return ready[rank].run(self.scopes[rank], tensors, lods)

        if len(self.places) == 1:
            results = [[fetched] for fetched in step(0)]
        else:
            results = [list(found) for found in zip(*self.replicas.run(step), strict=True)]
        self.runs += 1
        for device in {place.device for place in self.places}:
            end_step(device)
            if self.runs % self.runs_until_drop == 0:
                release(device)
        return results

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
        memories = [self._memory(place) for place in self.places]
        watched = instruments()
        programs = self._rewritten((*fed, *fetches), bool(watched), memories[0].optimize)
        kernels = asked_for(self.build.mkldnn_enabled_op_types)
        key = (self.program.change_count, fed, fetches, tuple(memories), watched, kernels)
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
                            memories[rank],
                            self.replicas.group.member(rank),
                            self.threads,
                            watched,
                            kernels,
                            self.build.enable_backward_optimizer_op_deps,
                            self.build.enable_auto_fusion or self.build.build_cinn_pass,
                        )
                    )
                    for rank, place in enumerate(self.places)
                ]
            return plans[with_lod]

        return slots, of

    def _memory(self, place: Place) -> Memory:
        build = self.build
        return memory_as_set(
            place.device, in_place=build.enable_inplace, optimize=build.memory_optimize
        )

    def _rewritten(self, kept: tuple[str, ...], watched: bool, optimize: bool) -> list[Program]:
        """The program of each replica, in which the `kept` variables are computed."""
        key = self.program.change_count, kept, watched, optimize
        if key not in self._programs:
            first = not self._programs
            synchronised = self.build.sync_batch_norm and len(self.places) > 1
            program = sync_batch_norm(self.program) if synchronised else self.program
            fused = fuse(program, self.build, kept, first=first, as_written=watched)
            rewritten = replica_programs(
                fused,
                self.build,
                self.loss,
                len(self.places),
                sharing=self._shares_parameters,
                first=first,
            )
            if optimize:
                rewritten = [early_updates(recompute_activations(p, kept)) for p in rewritten]
            programs = zip(rewritten, self.places, strict=False)
            self._programs[key] = [half_for(one, place.device) for one, place in programs]
            if len(self._programs) > _PLANS:
                self._programs.popitem(last=False)
        return self._programs[key]

    def close(self) -> None:
        """Ends the replicas' threads."""
        self.replicas.close()


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
