"""`Checkpointing`: training that is saved now and then, and goes on from there."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from refluid.collective.job import job_of_environment, joined
from refluid.collective.saving.folders import manifest_of
from refluid.collective.saving.layers import LayerVariables
from refluid.collective.saving.owning import owners_of, parts_of
from refluid.collective.saving.states import (
    Placed,
    random_state,
    restore,
    restore_parted,
    set_random_state,
    state_of,
)
from refluid.collective.saving.writing import last_of, read, write
from refluid.comm import Communicator
from refluid.comm.attendance import number_of
from refluid.comm.world import attendance, world
from refluid.core.errors import EnforceNotMet
from refluid.core.scope import Scope, global_scope
from refluid.ir.defaults import default_main_program
from refluid.ir.program import Program

# What trainers tell each other of steps in which not all of them exchange something.
_AFTER_STEP = number_of(["after a step"])


class Checkpointing:
    """Checkpoints of a program that this process trains, alone or along with others.

    folder: where they are, the same for all trainers. program: plain or compiled; the default one
    without. loaders: what knows where it is in its data (`state_dict`). every: a checkpoint after
    so many steps; 0 for one after each epoch. keep: how many stay. on: signals at which one is
    written, after the step that goes on; the process then ends with status 128 + signal.

        kept = Checkpointing("checkpoints", loaders=[loader], every=100)
        executor.run(fluid.default_startup_program())
        kept.resume()
        for epoch in kept.epochs(10):
            for batch in loader():
                executor.run(program, feed=batch)
                kept.after_step()

    Readers that don't know where they are: `for batch in kept.batches(reader)`. Of dygraph:
    `Checkpointing(folder, layers=[model], optimizers=[optimizer])`, with `kept.after_step()` after
    each update.
    """

    def __init__(
        self,
        folder: str | Path,
        program: Any = None,
        *,
        layers: Sequence[Any] = (),
        optimizers: Sequence[Any] = (),
        loaders: Sequence[Placed] = (),
        every: int = 0,
        keep: int = 2,
        on: Sequence[int] = (signal.SIGTERM,),
        scope: Scope | None = None,
    ) -> None:
        if every < 0 or keep < 1:
            raise EnforceNotMet(
                "Checkpointing: every is 0 or more steps, keep at least 1 checkpoint"
            )
        self.folder, self.every, self.keep = Path(folder), every, keep
        self.epoch = 0
        self._program = default_main_program() if program is None else program
        self._loaders, self._scope = list(loaders), scope or global_scope()
        self._at_once = LayerVariables(layers, optimizers) if layers or optimizers else None
        self._earlier = self._alone = self._saved_at = 0
        self._given = 0
        self._begun_with: dict[str, Any] | None = None
        self._signalled = 0
        job = job_of_environment()
        if job is not None:
            joined(job)
        there = attendance()
        self._rounds = self._seen = 0 if there is None else there.rounds
        if threading.current_thread() is threading.main_thread():
            for one in on:
                signal.signal(one, self._take_signal)

    @property
    def step(self) -> int:
        """How many steps were run, with those before a resume."""
        there = attendance()
        now = self._alone if there is None else there.rounds - self._rounds
        return self._earlier + now

    @property
    def _plain(self) -> Program:
        found = getattr(self._program, "_program", self._program)
        if not isinstance(found, Program):
            raise TypeError(f"checkpoints are of a Program, not {type(found).__name__}")
        return found

    def _take_signal(self, number: int, _frame: Any) -> None:
        self._signalled = number
        there = attendance()
        if there is not None:
            there.asks = True

    # -- going on ---------------------------------------------------------------------------------

    def resume(self) -> bool:
        """Loads the last checkpoint; whether there was one. After the startup program.

        With as many trainers as saved it, training goes on bit by bit as it would have; with
        another number from the same parameters and about the same place in the data.
        """
        comm: Communicator = world()
        found = last_of(comm, self.folder)
        if found is None:
            return False
        manifest, state = self._read(comm, found)
        self.epoch, self._earlier = int(manifest["epoch"]), int(manifest["step"])
        self._saved_at = self._earlier
        self._given = int(state["given"]) if state else 0
        if state and manifest["trainers"] == comm.size:
            self._begun_with = state["begun_with"]
            restore(state, self._loaders)
        elif state:
            share = manifest["trainers"] / comm.size
            self._given = int(self._given * share)
            restore_parted(state, self._loaders, share)
        return True

    def _read(self, comm: Communicator, found: Path) -> tuple[dict[str, Any], Any]:
        layers = self._at_once
        if layers is None:
            return read(comm, found, self._plain, self._scope)
        said = manifest_of(found)
        own = layers.trained({name for one in said["own_files"] for name in one})
        if own and said["trainers"] != comm.size:
            raise EnforceNotMet(
                f"{found} was saved by {said['trainers']} trainers, each of which had a part or a "
                f"stage of its own ({own[0]}): so many must go on, and there are {comm.size}"
            )
        layers.take(said["files"])
        manifest, state = read(comm, found, layers.program, layers.scope)
        layers.put((state or {}).get("layers", {}))
        return manifest, state

    def epochs(self, count: int) -> Iterator[int]:
        """The epochs of `count` that aren't done, the unfinished one first."""
        while self.epoch < count:
            yield self.epoch
            self.epoch += 1
            self._given, self._begun_with = 0, None
            if self.every == 0 and self._saved_at != self.step:
                self.save()

    def batches(self, reader: Callable[[], Iterable[Any]]) -> Iterator[Any]:
        """Those of `reader()` that weren't given before the checkpoint that was resumed from."""
        after = None
        if self._given and self._begun_with is not None:
            after = random_state()
            set_random_state(self._begun_with)
        else:
            self._begun_with = random_state()
        given, self._given = self._given, 0
        for number, one in enumerate(reader()):
            if number < given:
                continue
            if after is not None:
                set_random_state(after)
                after = None
            self._given = number + 1
            yield one

    # -- saving -----------------------------------------------------------------------------------

    def after_step(self) -> None:
        """To be called after each step, by all trainers: saves where it is time to.

        While a trainer is without data it is put off until all have data again.
        """
        there = attendance()
        if there is None:
            self._alone += 1
            asked: bool | None = bool(self._signalled)
        else:
            if there.rounds == self._seen:  # trainers of parts or stages needn't tell all of a step
                there.step(_AFTER_STEP, _nothing, _nothing)
            self._seen = there.rounds
            asked = there.asked()
        if asked is None:
            return
        due = self.every > 0 and self.step // self.every > self._saved_at // self.every
        if due or asked:
            self.save()
        if asked:
            raise SystemExit(128 + (self._signalled or signal.SIGTERM))

    def save(self) -> Path:
        """Writes the next checkpoint; all trainers must call this.

        Raises EnforceNotMet at all of them where one can't; the last whole one is as before.
        """
        comm = world()
        state = {
            **state_of(self._loaders),
            "given": self._given,
            "begun_with": self._begun_with,
        }
        told: dict[str, Any] = {"epoch": self.epoch, "step": self.step}
        layers = self._at_once
        if layers is None:
            kept = self._plain, self._scope, owners_of(self._program, comm.size)
            told["parts"] = parts_of(self._plain)
        else:
            layers.take()
            kept, state["layers"] = (layers.program, layers.scope, {}), layers.rest
        made = write(comm, self.folder, self.keep, *kept, state, told)
        self._saved_at = self.step
        return made


def _nothing() -> None:
    """All that there is to do in such a step."""
