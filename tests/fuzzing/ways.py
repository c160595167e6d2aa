"""In which ways each program is run, and how its results must agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.fluid.strategy_pairs import SWITCHES, Combination, compile_as, flags_of
from tests.fuzzing.judging import Spread, beyond_rounding, differences, widen
from tests.fuzzing.programs import Built, Spec
from tests.fuzzing.running import State, Trace, Way, run
from tests.fuzzing.table import rows

TIER, REPLICAS = "FLAGS_refluid_tier", "FLAGS_refluid_replicas"
COMPILED = Way("compiled", {TIER: "compiled"}, at_once=True)
ORACLE = Way("interpreted", {TIER: "interpreted"})
# Compiled steps take seconds to be made, merged batches are other training.
_FIXED = {"build_cinn_pass": False, "enable_auto_fusion": False, "num_iteration_per_run": 1}
_RANDOM = {"dropout", "lstm"}
_NUDGES = 3, 12


@dataclass(frozen=True)
class Comparison:
    """A way and the one it must agree with: in every bit, or up to rounding.

    refuses: also what a refused step leaves must be the same; otherwise such steps are left out.
    parts: each step is fed so many times its rows.
    """

    way: Way
    exact: bool = True
    oracle: Way = ORACLE
    refuses: bool = True
    parts: int = 1


def comparisons(spec: Spec, built: Built, *, compiled: bool = False) -> Iterator[Comparison]:
    """Always recorded steps against interpreted ones; some others by the program's seed.

    compiled: compiled ones instead, which take seconds to be made.
    """
    if compiled:
        if is_smooth(spec, built):
            yield Comparison(COMPILED, exact=False, refuses=False)
        return
    yield Comparison(Way("recorded", {TIER: "recorded"}))
    yield Comparison(Way("auto", {TIER: "auto"}))
    draw = Random(spec.seed + 2)
    for share, make in _SOMETIMES:
        if draw.random() < share:
            yield from make(draw, spec, built)


def _memory(draw: Random, spec: Spec, built: Built) -> Iterator[Comparison]:
    row = {name: draw.choice(SWITCHES[name]) for name in SWITCHES if _is_of_memory(name)}
    yield Comparison(_strategy(f"memory {row}", {**_FIXED, "places": 1, **row}), refuses=False)


def _apart(draw: Random, spec: Spec, built: Built) -> Iterator[Comparison]:
    """No operator writes over what another one made."""
    row: Combination = {**_FIXED, "places": 1, "enable_inplace": False, TIER: "interpreted"}
    yield Comparison(_strategy("nothing in place", row), refuses=False)


def _reader(draw: Random, spec: Spec, built: Built) -> Iterator[Comparison]:
    yield Comparison(Way("reader", {TIER: draw.choice(("auto", "interpreted"))}, reader=True))


def _is_of_memory(name: str) -> bool:
    words = "eager_deletion eager_delete inplace memory_optimize idle_chunk drop_scope num_threads"
    return any(word in name for word in words.split())


def _strategies(draw: Random, spec: Spec, built: Built) -> Iterator[Comparison]:
    if is_smooth(spec, built):
        row = {name: draw.choice(values) for name, values in SWITCHES.items()}
        yield Comparison(
            _strategy(f"strategy {row}", row | _FIXED | {"places": 1}), exact=False, refuses=False
        )


def _replicas(draw: Random, spec: Spec, built: Built) -> Iterator[Comparison]:
    """Fed the same, they do what one does; fed parts, batched ones do what threads do."""
    if built.loss is None or _RANDOM & {*built.used}:
        return
    places = draw.choice((2, 2, 4))
    tier = draw.choice(("interpreted", "recorded", "auto"))
    row: Combination = {**_FIXED, "places": places, TIER: tier}
    alike = replace(
        _strategy(f"{places} copies, {tier}", {**row, REPLICAS: "threads"}),
        places=places,
        copies=True,
    )
    yield Comparison(alike, exact=False, refuses=False)
    if is_smooth(spec, built):
        yield Comparison(
            _strategy(f"{places} places", {**row, TIER: "auto", REPLICAS: "auto"}),
            exact=False,
            oracle=_strategy("threads", {**row, TIER: "interpreted", REPLICAS: "threads"}),
            refuses=False,
            parts=places,
        )


_SOMETIMES: tuple[tuple[float, Callable[[Random, Spec, Built], Iterator[Comparison]]], ...] = (
    (0.08, _memory),
    (0.15, _apart),
    (0.04, _reader),
    (0.2, _strategies),
    (0.15, _replicas),
)


def _strategy(name: str, row: Combination) -> Way:
    def compiled(built: Built) -> Any:
        return compile_as(built.main, built.loss, row)

    return Way(name, flags_of(row), compiled)


def is_smooth(spec: Spec, built: Built) -> bool:
    """Whether a small change of numbers changes results little: nothing but ordinary numbers."""
    table = rows()
    plain = all(step.kind == "normal" for step in spec.steps)
    return plain and not any(table[name].exact for name in built.used)


def found_by(
    spec: Spec, built: Built, start: State, chosen: Sequence[Comparison]
) -> Iterator[tuple[Comparison, list[str]]]:
    """The comparisons of which something differs, and what."""
    known: dict[tuple[str, Spec], Trace] = {}

    def asked(own: Spec, way: Way) -> Trace:
        key = way.name, own
        if key not in known:
            known[key] = run(own, built, start, way)
        return known[key]

    for one in chosen:
        own = _many(spec, one.parts)
        if not one.refuses:
            own = _without_refused(own, asked(own, one.oracle))
        if not own.steps:
            continue
        oracle, found = asked(own, one.oracle), run(own, built, start, one.way)
        if one.exact:
            different = list(differences(oracle, found))
        else:
            different = _beyond(own, built, start, oracle, found, one.oracle)
        if different:
            yield one, different


def _many(spec: Spec, parts: int) -> Spec:
    steps = [replace(one, sizes=(one.sizes[0] * parts, *one.sizes[1:])) for one in spec.steps]
    return replace(spec, steps=tuple(steps))


def _without_refused(spec: Spec, oracle: Trace) -> Spec:
    pairs = zip(spec.steps, oracle.steps, strict=True)
    return replace(spec, steps=tuple(step for step, got in pairs if not isinstance(got, str)))


def _beyond(
    spec: Spec, built: Built, start: State, oracle: Trace, found: Trace, way: Way
) -> list[str]:
    """Differences that no nudge of what goes in explains; more nudges where there seem to be."""
    spread: Spread = {}
    different = list(beyond_rounding(oracle, found, spread))
    done = 0
    for count in _NUDGES:
        if not different:
            break
        for seed in range(done, count):
            nudged = replace(way, nudged=(1e-6 if seed % 2 else 1e-7, seed))
            widen(spread, oracle, run(spec, built, start, nudged))
        different = list(beyond_rounding(oracle, found, spread))
        done = count
    return different
