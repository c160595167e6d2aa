"""Where processes meet: a store of torch.distributed, which number 0 serves."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from datetime import timedelta
from typing import Any, NamedTuple

from refluid.comm.roll_call import Address, RollCall, in_time, listening
from refluid.core.errors import PeerFailed
from refluid.kernels.process_groups import reach_store, serve_store

__all__ = ["Address", "Meeting", "meet_at"]

_AGAIN = 0.02
# How long number 0 stays after a meeting that failed, for the others to learn why.
_FAREWELL = 2.0
# How long a store may take to say that its time is over.
_GRACE = 0.5


class Meeting(NamedTuple):
    """A store that all have reached, the machine of each by number, this one's address, and who is
    still there."""

    store: Any
    machines: list[str]
    host: str
    roll: RollCall


def meet_at(address: Address, rank: int, size: int, wait: float) -> Meeting:
    """Returns when all of `size` processes have come; PeerFailed names those that did not.

    wait: seconds. Also PeerFailed where processes disagree on their number.
    """
    deadline = time.monotonic() + wait
    host = address[0] if rank == 0 else _own_address(address)
    store = [_serve(address, rank) if rank == 0 else _reach(address, rank, deadline)]
    listener = listening(host)
    found = _gathered(store.pop(), address, listener, rank, size, deadline)
    if isinstance(found, str):  # raised here, where the error doesn't keep the store
        listener.close()
        raise PeerFailed(found)
    return found


def _gathered(
    store: Any, address: Address, listener: socket.socket, rank: int, size: int, deadline: float
) -> Meeting | str:
    """The meeting, or why there is none."""
    own = listener.getsockname()
    here = {"machine": socket.gethostname(), "address": own}
    came = json.dumps({"size": size, **here})
    try:
        if store.add(f"came/{rank}", 1) > 1 or not 0 <= rank < size:
            store.set("wrong", _disagreement(address, rank, size))
        store.set(f"member/{rank}", came)
        if rank == 0:
            store.set("verdict", _verdict(store, size, address, deadline))
        store.wait(["verdict"], timedelta(seconds=max(_left(deadline), 0.001)))
        verdict = str(store.get("verdict").decode())
        store.add("read", 1)
        if verdict and rank == 0:
            _stay(store, size)
        if verdict:
            return verdict
        members = [json.loads(store.get(f"member/{other}")) for other in range(size)]
    except RuntimeError as error:
        return _not_met(rank, address, error)
    roll = RollCall(store, rank, listener, [tuple(one["address"]) for one in members])
    return Meeting(store, [one["machine"] for one in members], own[0], roll)


def _verdict(store: Any, size: int, address: Address, deadline: float) -> str:
    """Number 0's: empty where all came, else what was wrong."""
    missing = list(range(1, size))
    while True:
        if store.check(["wrong"]):
            return str(store.get("wrong").decode())
        for other in [one for one in missing if store.check([f"member/{one}"])]:
            missing.remove(other)
            theirs = json.loads(store.get(f"member/{other}"))["size"]
            if theirs != size:
                return _disagreement(address, other, theirs)
        if not missing:
            return ""
        if _left(deadline) <= 0:
            names = ", ".join(map(str, missing))
            return f"trainer {names} of {size} did not come to {address[0]}:{address[1]}"
        time.sleep(_AGAIN)


def _stay(store: Any, size: int) -> None:
    """Until those that came have read the verdict, but not long."""
    until = time.monotonic() + _FAREWELL
    came = sum(store.add(f"came/{other}", 0) for other in range(size))
    while store.add("read", 0) < came and time.monotonic() < until:
        time.sleep(_AGAIN)


def _disagreement(address: Address, rank: int, size: int) -> str:
    return (
        f"a process came to {address[0]}:{address[1]} as trainer {rank} of {size}, which another "
        "one is, or which is no number of this group; numbers must differ"
    )


def _serve(address: Address, rank: int) -> Any:
    """The store, where others can reach this process by that address and no other."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise PeerFailed(
            f"trainer {rank} can't listen at {address[0]}:{address[1]}: {error.strerror or error}"
        ) from error
    return serve_store(*address, listener.detach())


def _reach(address: Address, rank: int, deadline: float) -> Any:
    """The store, as soon as number 0 serves it."""
    last: Exception = TimeoutError("it never did")
    while _left(deadline) > 0:
        with contextlib.suppress(OSError), socket.create_connection(address, _left(deadline)):
            found = _tried(address, deadline)
            if not isinstance(found, Exception):
                return found
            last = found
        time.sleep(_AGAIN)
    raise PeerFailed(_not_met(rank, address, last))


def _tried(address: Address, deadline: float) -> Any:
    """The store, or why it can't be had.

    By a thread that is left behind where somebody else listens there and never answers: torch then
    waits without end.
    """

    def reach() -> Any:
        return reach_store(*address, max(_left(deadline), 0.001))

    found = in_time(reach, max(_left(deadline), 0.0) + _GRACE, "refluid meeting")
    if isinstance(found, TimeoutError):
        return TimeoutError("who listens there doesn't answer as a trainer")
    return found


def _not_met(rank: int, address: Address, why: Exception) -> str:
    reason = str(why).splitlines()[0] if str(why) else type(why).__name__
    return (
        f"trainer {rank} could not meet the others at {address[0]}:{address[1]}, where trainer 0 "
        f"should listen: {reason}"
    )


def _own_address(towards: Address) -> str:
    """The address of this machine that others reach it at, on the way to `towards`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(towards)
        except OSError as error:
            raise PeerFailed(f"{towards[0]}:{towards[1]} can't be reached: {error}") from error
        return str(probe.getsockname()[0])


def _left(deadline: float) -> float:
    return deadline - time.monotonic()
