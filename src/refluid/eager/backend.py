"""`Eager`: the backend of layers that runs operators instead of appending them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refluid.build.backend import MISSED, Blocks
from refluid.core import events, flags
from refluid.core.offsets import as_levels, as_lod
from refluid.core.places import Place
from refluid.eager.calls import OperatorCall
from refluid.eager.holding import Holding
from refluid.eager.parameter import ParamBase
from refluid.eager.running import Declared
from refluid.eager.shortcuts import Shortcuts
from refluid.eager.tensor import VarBase
from refluid.eager.waiting import waiting
from refluid.eager.watching import checks, watched_call
from refluid.ir.at_once import of_a_program, without_value
from refluid.ir.block import Block
from refluid.ir.defaults import default_main_program
from refluid.ir.variable import Variable

Slots = Mapping[str, Any]
_LISTS = (list, tuple)
_MOST = 4096  # plans that are kept


@dataclass
class Ran:
    """An operator that ran: its slots with their variables, and its attributes."""

    type: str
    given: Sequence[tuple[str, Sequence[VarBase]]]
    made: Sequence[tuple[str, Sequence[VarBase]]]
    attrs: Mapping[str, Any] | None

    def inputs(self) -> Iterator[VarBase]:
        """The variables that it took."""
        return (var for _, variables in self.given for var in variables)

    def outputs(self) -> Iterator[VarBase]:
        """The variables that it made or changed."""
        return (var for _, variables in self.made for var in variables)


class Eager:
    """Runs operators on `VarBase`s, on a place. promotes: whole numbers become float32 as in
    Paddle 2."""

    names_results = False

    def __init__(self, place: Place, promotes: bool = False) -> None:
        self.place, self.device, self.promotes = place, place.device, promotes
        self.on_cpu = place.device.type == "cpu"
        self.training = True
        self.ran: list[Ran] | None = None  # where operators are noted, while one is traced
        # What gives an operator's inputs in the element types that it is to compute with.
        self.casting: Callable[[str, Slots], Slots] | None = None
        self._calls: dict[Any, OperatorCall] = {}
        self._shortcuts = Shortcuts()
        self._flags, self._shortens, self._checks = -1, True, False

    def at(self, block: Block) -> Blocks:
        return Blocks(block)

    def variable(self, *_args: Any, **options: Any) -> Variable:
        return VarBase(
            name=options.get("name"),
            stop_gradient=bool(options.get("stop_gradient", False)),
            dtype=options.get("dtype"),
            shape=options.get("shape"),
        )

    def state(self, *args: Any, **options: Any) -> Variable:
        made = self.variable(*args, **options)
        made.persistable = bool(options.get("persistable", False))
        return made

    def parameter(self, initializer: Any, options: dict[str, Any]) -> Variable:
        made = ParamBase(**options)
        made.begin(lambda var: self.initialise(var, initializer))
        made.trainable = options.get("trainable", True)
        return made

    def initialise(self, var: Variable, initializer: Any) -> None:
        initializer(var, default_main_program().global_block())

    def direct(
        self, type: str, inputs: Slots | None, attrs: Any, makes: Any, how: Mapping[str, Any]
    ) -> Any:
        """The results of a call that looks like a former one; MISSED where it must be `run`."""
        if self._flags != flags.state():
            self._look_at_flags()
        if waiting.now is not None:
            waiting.happen()
        if self.ran is not None or not self._shortens or events.active() is not None:
            return MISSED
        if self.casting is not None and inputs:
            inputs = self.casting(type, inputs)
        return self._shortcuts.call(type, inputs, attrs, makes, how)

    @property
    def fuses(self) -> bool:
        """Whether layers may use operators that programs have only after passes."""
        return self.ran is None and bool(flags.value("refluid_eager_direct"))

    def _look_at_flags(self) -> None:
        """Forgets what flags decided."""
        self._flags, self._checks = flags.state(), checks()
        self._shortens = flags.value("refluid_eager_direct") and not self._checks
        self._calls.clear()
        self._shortcuts.forget()

    def run(self, type: str, inputs: Slots | None, outputs: Slots, attrs: Any) -> None:
        waiting.happen()
        if self.casting is not None and inputs:
            inputs = self.casting(type, inputs)
        given = [(slot, several(one)) for slot, one in (inputs or {}).items()]
        made = [(slot, several(one)) for slot, one in outputs.items()]
        values = [var for _, variables in given for var in variables]
        declared = _declared(type, values)
        counts = tuple((slot, len(one)) for slot, one in given)
        results = tuple((slot, len(one)) for slot, one in made)
        key = (type, counts, results, frozen(attrs), declared)
        call = self._calls.get(key)
        if call is None:
            shapes = [var.shape for var in values]
            call = OperatorCall(type, counts, results, attrs or {}, declared, shapes, self.device)
            if len(self._calls) >= _MOST:
                del self._calls[next(iter(self._calls))]
            self._calls[key] = call
        self._shortcuts.learn(call, values)
        names = dict(zip(call.names, values, strict=True))
        feeds = [names[name].held for name in call.feeds]
        if any(one is None for one in feeds):
            raise without_value(
                type, next(names[one].name for one in call.feeds if names[one].held is None)
            )
        levels = [as_levels(names[name].lod) for name in call.feeds]
        states = [names[name] for name in call.forward.state]
        cells = [Holding(one) for one in states]
        owners = [names[name] for name in call.feeds]
        targets = [var for _, variables in made for var in variables]
        if self._checks or events.active() is not None:
            found, lods_found = watched_call(
                call, owners, (var.name for var in targets), (feeds, cells, levels)
            )
        else:
            found, lods_found = call.run(feeds, cells, levels, owners)
        if self.ran is not None:
            self.ran.append(Ran(type, given, made, attrs))
        held = {id(one) for one in states}
        for var, value, lod in zip(targets, found, lods_found, strict=True):
            if id(var) not in held:
                var.held = value
                if lod or var._lod:
                    var.lod = as_lod(lod) if lod else []


def _declared(type: str, values: Sequence[Any]) -> Declared:
    ranks, dtypes, lods = [], [], []
    for number, var in enumerate(values):
        if var.kind != "eager":
            raise of_a_program(type, var.name)
        ranks.append(len(var.shape))
        dtypes.append(var.dtype)
        if var.lod:
            lods.append(number)
    return Declared(tuple(dtypes), tuple(ranks), tuple(lods))


def several(one: Any) -> Any:
    """What is given, as a list or tuple."""
    return one if isinstance(one, _LISTS) else (one,)


def frozen(value: Any) -> Any:
    """An attribute, or several, as what can be a key."""
    if isinstance(value, Mapping):
        return tuple((name, frozen(one)) for name, one in value.items())
    if isinstance(value, _LISTS):
        return tuple(map(frozen, value))
    return value
