"""Unique names (`fluid.unique_name`): one counter per key, replaceable for a while by `guard`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class UniqueNameGenerator:
    """Hands out `prefix + key_0`, `prefix + key_1`, ...; each key counts for itself."""

    def __init__(self, prefix: str | bytes | None = None) -> None:
        self.prefix = prefix.decode() if isinstance(prefix, bytes) else prefix or ""
        self.ids: defaultdict[str, int] = defaultdict(int)

    def __call__(self, key: str) -> str:
        number = self.ids[key]
        self.ids[key] += 1
        return f"{self.prefix}{key}_{number}"


_generator = UniqueNameGenerator()


def generate(key: str) -> str:
    """A name `key_N` not handed out before by the current generator."""
    return _generator(key)


def current() -> UniqueNameGenerator:
    """The generator that names come from."""
    return _generator


def switch(new_generator: UniqueNameGenerator | None = None) -> UniqueNameGenerator:
    """Replaces the current generator (by a fresh one when none is given); returns the former."""
    global _generator
    former = _generator
    _generator = UniqueNameGenerator() if new_generator is None else new_generator
    return former


@contextmanager
def guard(
    new_generator: UniqueNameGenerator | str | bytes | None = None,
) -> Iterator[None]:
    """Within the block names count from a generator of their own; a str is that one's prefix."""
    if isinstance(new_generator, str | bytes):
        new_generator = UniqueNameGenerator(new_generator)
    former = switch(new_generator)
    try:
        yield
    finally:
        switch(former)
