"""What a user says of a job with servers, checked before anything is made of it."""

from __future__ import annotations

from typing import Any

_LAST_PORT = 65535


def server_addresses(given: Any) -> list[str]:
    """The addresses in `host:port,host:port`. TypeError or ValueError for others."""
    if not isinstance(given, str):
        raise TypeError(f"pservers has to be text, 'host:port,host:port,..', and not {given!r}")
    found = [one.strip() for one in given.split(",")]
    for one in found:
        host, _, port = one.rpartition(":")
        if not (host and port.isdigit() and int(port) <= _LAST_PORT):
            raise ValueError(
                f"pservers {given!r}: {one!r} is no address of a server; each is host:port, with "
                "a comma between them"
            )
    if len({*found}) < len(found):
        raise ValueError(f"pservers {given!r}: each server needs an address of its own")
    return found


def check_number(trainers: Any, number: Any) -> None:
    """TypeError unless both are numbers, ValueError where there are no trainers."""
    for what, one in (("trainers", trainers), ("trainer_id", number)):
        if isinstance(one, bool) or not isinstance(one, int):
            raise TypeError(f"beside servers {what} is a number, not {one!r}")
    if trainers < 1:
        raise ValueError(f"trainers is {trainers}: a job with servers has at least one trainer")


def check_trainer(number: int, trainers: int) -> None:
    """ValueError unless a trainer can have this number, from 0 on."""
    if not 0 <= number < trainers:
        raise ValueError(
            f"trainer_id is {number}: of {trainers} trainers each has one from 0 to "
            f"{trainers - 1} (PADDLE_TRAINER_ID)"
        )


def check_cutting(least: Any, dealing: Any) -> None:
    """TypeError for a min_block_size that is no number, or a split_method that is no class."""
    if isinstance(least, bool) or not isinstance(least, int):
        raise TypeError(f"config.min_block_size is a number of elements, and not {least!r}")
    if dealing is not None and not callable(dealing):
        raise TypeError(
            "config.split_method is a class, fluid.transpiler.HashName or RoundRobin, and not "
            f"{dealing!r}"
        )
