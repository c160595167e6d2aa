"""Executor: runs programs. Semantics and messages as Fluid 1.8's `fluid.Executor`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from refluid.core import flags
from refluid.core.places import CPUPlace, Place, require_available
from refluid.core.scope import Scope, checked, global_scope, scope_guard
from refluid.engine import listening
from refluid.engine.attending import together
from refluid.engine.choices import overlaid
from refluid.engine.fetches import apart_from_updates, fetch_names, join, returned
from refluid.engine.group import Group
from refluid.engine.prepare import DENSE, Wanted, prepared
from refluid.engine.replicated import Replicated
from refluid.engine.strategy import DEFAULT
from refluid.fluid.compiler import CompiledProgram, _served
from refluid.fluid.datasets.fetch_handler import FetchHandler as FetchHandler
from refluid.ir.defaults import default_main_program
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from refluid.runtime.allocator import end_step
from refluid.runtime.allocator import prepare as prepare_memory
from refluid.runtime.plan import Fetched

if TYPE_CHECKING:
    from refluid.fluid.datasets.base import DatasetBase

__all__ = ["Executor", "global_scope", "scope_guard"]

g_scope = global_scope()


def _fetch_var(name: str, scope: Scope | None = None, return_numpy: bool = True) -> Any:
    """The array of a variable of the scope, the global one unless given.

    return_numpy: else the LoDTensor itself. AssertionError for a variable that isn't there.
    """
    found = (scope or global_scope()).find_var(name)
    if found is None:
        raise AssertionError(
            f"Cannot find {name} in scope. Perhaps you need to make the variable persistable by "
            "using var.persistable = True in your program."
        )
    tensor = found.get_tensor()
    return np.array(tensor) if return_numpy else tensor


class Executor:
    """Runs programs on one place.

    place: `CPUPlace()` (default), `CUDAPlace(i)` or another accelerator's. Plans are cached per
    program version, fed variables and fetches, so running a program again costs no preparation.
    """

    def __init__(self, place: Place | None = None) -> None:
        self.place = CPUPlace() if place is None else place
        require_available(self.place)
        self._device: torch.device = self.place.device
        prepare_memory(self._device)
        self._closed = False
        self._group = Group([self.place])

    def close(self) -> None:
        """Ends the executor; running anything afterwards is a RuntimeError.

        Servers of programs that it ran are told that this trainer ends.
        """
        self._closed = True
        served = {id(one.program._servers): one.program for one in self._group.cache.values()}
        self._group.cache.clear()
        for program in served.values():
            if program._servers is not None:
                program._servers.close()

    def run(
        self,
        program: Program | CompiledProgram | None = None,
        feed: Mapping[str, Any] | None = None,
        fetch_list: Sequence[Variable | str] | Variable | str | None = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        return_merged: bool = True,
        use_prune: bool = False,
    ) -> list[Any]:
        """Runs a program once; the fetched values in the order of `fetch_list`.

        feed: variable name -> array, `LoDTensor` or torch tensor of the declared shape and
            element type. return_numpy: arrays instead of `LoDTensor`s. use_prune: only operators
            run that the fetches need; what `minimize` returned may be among these, which then
            prunes too, and is no result.
        Raises RuntimeError after `close`, TypeError for a feed that is no dict or a program
        that is none, ValueError for a fed value of wrong shape or type, EnforceNotMet for
        whatever goes wrong inside, naming the operator and the line that made it.
        Plans are always cached, so `use_program_cache` changes nothing.
        """
        if self._closed:
            raise RuntimeError("Attempted to use a closed Executor")
        program = default_main_program() if program is None else program
        if isinstance(program, Program) and program._run_as is not None:
            program = program._run_as
        scope = global_scope() if scope is None else checked(scope)
        fetch_list, updates = apart_from_updates(fetch_list)
        if scope.served is not None:
            program = _served(program, scope, self.place, fetch_list)
        if use_prune or updates:
            program = self._pruned(program, feed, fetch_list, updates, scope)
        asked = program, feed, fetch_list, scope, return_numpy, return_merged
        heard = listening.listener
        return self._run(*asked) if heard is None else heard(listening.RunCall(self._run, *asked))

    def _pruned(self, program: Any, feed: Any, fetches: Any, updates: Any, scope: Scope) -> Any:
        from refluid.engine.pruned_runs import part  # few runs are

        if isinstance(program, CompiledProgram):
            found = part(program._program, feed, fetches, updates)
            return program._part(found, scope, self.place)
        return part(program, feed, fetches, updates) if isinstance(program, Program) else program

    def _run(
        self,
        program: Any,
        feed: Any,
        fetch_list: Any,
        scope: Scope,
        return_numpy: bool,
        return_merged: bool,
    ) -> list[Any]:
        if isinstance(program, CompiledProgram):
            return self._run_compiled(program, feed, fetch_list, scope, return_numpy, return_merged)
        if not isinstance(program, Program):
            return self._serve(program, scope)
        if scope.borrow is not None:
            with scope.borrow(program):
                return self._run(program, feed, fetch_list, scope, return_numpy, return_merged)
        if program._before_runs:
            program.before_run([scope])
        feed, fetches = self._checked_feed(feed), fetch_names(fetch_list)
        strategy = overlaid(DEFAULT)
        found = self._in_parts(program, feed, fetches, strategy, scope)
        if found is not None:
            return [returned(result, return_numpy) for result in found]
        ready = prepared(Wanted(program, tuple(feed), fetches, strategy, self._group))
        slots = ready.slots[0]
        converted = [slot.convert(feed[slot.name]) for slot in slots]
        lods = [lod for _, lod in converted]
        fed_lods = DENSE
        if any(lods):
            fed_lods = frozenset(slot.name for slot, lod in zip(slots, lods, strict=True) if lod)
        tensors, step = [tensor for tensor, _ in converted], ready.step(fed_lods)
        results = together(ready, [scope], lambda: step.run(scope, tensors, lods), tensors)
        end_step(self._device)
        return [returned(result, return_numpy) for result in results]

    def _in_parts(self, *of: Any) -> list[Fetched] | None:
        """What a step gives that goes through its batch in parts; None where it has to be whole."""
        if flags.value("refluid_batch_parts") < 2:
            return None
        from refluid.engine.pipelined.parts import in_parts  # few programs are run so

        return in_parts(self._group, *of)

    def train_from_dataset(
        self,
        program: Program | CompiledProgram | None = None,
        dataset: DatasetBase | None = None,
        scope: Scope | None = None,
        thread: int = 0,
        debug: bool = False,
        fetch_list: Sequence[Variable | str] | None = None,
        fetch_info: Sequence[str] | None = None,
        print_period: int = 100,
        fetch_handler: FetchHandler | None = None,
    ) -> None:
        """Trains on every row of a dataset once, with `thread` threads that share parameters.

        thread: 0 for as many as the dataset's set_thread said; never more than it has files.
        fetch_list, fetch_info: what thread 0 prints every `print_period` batches, and the text
        before it. debug: prints each operator's mean time at the end.
        Raises what reading or an operator raises, with a note of the rows already trained.
        """
        shown = fetch_list, fetch_info, print_period, fetch_handler
        self._from_dataset(False, program, dataset, scope, thread, debug, *shown)

    def infer_from_dataset(
        self,
        program: Program | CompiledProgram | None = None,
        dataset: DatasetBase | None = None,
        scope: Scope | None = None,
        thread: int = 0,
        debug: bool = False,
        fetch_list: Sequence[Variable | str] | None = None,
        fetch_info: Sequence[str] | None = None,
        print_period: int = 100,
        fetch_handler: FetchHandler | None = None,
    ) -> None:
        """As `train_from_dataset`, but without gradients and updates."""
        shown = fetch_list, fetch_info, print_period, fetch_handler
        self._from_dataset(True, program, dataset, scope, thread, debug, *shown)

    def _from_dataset(
        self,
        infer: bool,
        program: Any,
        dataset: Any,
        scope: Scope | None,
        thread: int,
        debug: bool,
        fetch_list: Any,
        fetch_info: Any,
        print_period: int,
        fetch_handler: Any,
    ) -> None:
        # They load the compiled parser, which few programs need.
        from refluid.engine.dataset_training import run_from_dataset
        from refluid.fluid.datasets.base import DatasetBase
        from refluid.fluid.datasets.running import runs_of

        if self._closed:
            raise RuntimeError("Attempted to use a closed Executor")
        if dataset is None:
            raise RuntimeError("dataset is needed and should be initialized")
        if not isinstance(dataset, DatasetBase):
            raise TypeError(f"dataset must be made by DatasetFactory, not {type(dataset).__name__}")
        if print_period < 1:
            raise ValueError(f"print_period counts batches: at least 1, not {print_period}")
        scope = global_scope() if scope is None else checked(scope)
        program = default_main_program() if program is None else program
        if scope.served is not None:
            program = _served(program, scope, self.place)
        program, runs = runs_of(program, self._group, scope, self.place)
        program.before_run([scope])
        run_from_dataset(
            runs,
            infer,
            program,
            dataset,
            scope,
            thread,
            debug,
            fetch_list,
            fetch_info,
            print_period,
            fetch_handler,
        )

    def _run_compiled(
        self,
        program: CompiledProgram,
        feed: Any,
        fetch_list: Any,
        scope: Scope,
        return_numpy: bool,
        return_merged: bool,
    ) -> list[Any]:
        """Runs a program on all its places; each fetch joined, or a list with one per place."""
        replicas = program._compile(scope, self.place)
        if program._program._before_runs:
            program._program.before_run(replicas.scopes)
        names = fetch_names(fetch_list)
        parted = None
        if isinstance(replicas, Replicated) and replicas.is_alone:
            of = program._program, feed, names, replicas.strategy, scope
            parted = self._in_parts(*of)
        found = replicas.run(feed, names) if parted is None else [[one] for one in parted]
        if not return_merged:
            return [[returned(one, return_numpy) for one in values] for values in found]
        return [returned(join(values), return_numpy) for values in found]

    def _serve(self, program: Any, scope: Scope) -> list[Any]:
        """Serves tables, where it is a server's program, until all trainers are gone."""
        from refluid.pserver.serving import Serving  # most processes are no servers

        if not isinstance(program, Serving):
            raise TypeError(f"Executor requires Program as its Parameter. But got {type(program)}")
        program.run(scope)
        return []

    def _checked_feed(self, feed: Any) -> Mapping[str, Any]:
        if type(feed) is dict:
            return feed
        if feed is None:
            return {}
        if isinstance(feed, list | tuple) and len(feed) == 1:
            feed = feed[0]
        if not isinstance(feed, Mapping):
            raise TypeError(f"feed requires dict as its Parameter. But you passed in {type(feed)}")
        return feed
