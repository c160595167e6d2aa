"""`Peers`: processes that send each other bytes over TCP, every one to every other.

They meet at an address where number 0 listens, and learn there where the others do. Nothing that
is received is ever executed. A process that goes away, or doesn't answer any more, is an error at
all others.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

from refluid.core.errors import PeerFailed

Buffer = bytes | bytearray | memoryview
Address = tuple[str, int]
_MAGIC = "refluid peers 1"
_LENGTH = struct.Struct("<Q")
_LARGEST = 1 << 40
# What comes before both sides know each other is short and comes at once.
_HELLO_BYTES, _HELLO_SECONDS = 1 << 20, 10.0
_AGAIN = 0.05


class Peers:
    """The connections of process `rank` to the `size - 1` others.

    Methods raise PeerFailed where a process went away, or did nothing for `patience` seconds.
    Always `close`.
    """

    def __init__(self, rank: int, links: dict[int, socket.socket], patience: float) -> None:
        self.rank, self.size = rank, len(links) + 1
        self._links = links
        self._names = {
            peer: "{}:{}".format(*link.getpeername()[:2]) for peer, link in links.items()
        }
        for link in links.values():
            link.settimeout(patience)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def others(self) -> list[int]:
        """The numbers of all others, each process beginning with another one."""
        return [(self.rank + step) % self.size for step in range(1, self.size)]

    def send(self, peer: int, parts: Sequence[Buffer]) -> None:
        """Sends one message, in as many parts as is convenient."""
        views = [memoryview(part).cast("B") for part in parts]
        try:
            self._links[peer].sendall(_LENGTH.pack(sum(len(view) for view in views)))
            for view in views:
                self._links[peer].sendall(view)
        except OSError as error:
            raise self._failed(peer, error) from error

    def receive(self, peer: int) -> bytearray:
        """The next message of a process."""
        try:
            return _receive(self._links[peer], _LARGEST)
        except (OSError, EOFError) as error:
            raise self._failed(peer, error) from error

    def all_gather(self, value: Any) -> list[Any]:
        """What each process gave, by number: numbers, text, lists and dicts, as JSON has them."""
        data = json.dumps(value).encode()
        for peer in self.others:
            self.send(peer, [data])
        found = {peer: json.loads(self.receive(peer)) for peer in self.others}
        return [value if peer == self.rank else found[peer] for peer in range(self.size)]

    def close(self) -> None:
        """Ends all connections; whoever waits for one gets PeerFailed."""
        for link in self._links.values():
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
            link.close()

    def _failed(self, peer: int, error: BaseException) -> PeerFailed:
        how = "went away"
        if isinstance(error, TimeoutError):
            how = "did nothing for too long"
        return PeerFailed(f"trainer {peer} of {self.size} ({self._names[peer]}) {how}")


def meet(
    rank: int, size: int, address: Address, *, wait: float = 1800.0, patience: float = 300.0
) -> Peers:
    """Connects process `rank` of `size` with all others, which must call it too.

    address: where number 0 listens. wait: seconds until all must have come. Raises PeerFailed
    naming those that did not come, and where processes disagree on their number.
    """
    deadline = time.monotonic() + wait
    host = address[0] if rank == 0 else _own_address(address)
    with contextlib.ExitStack() as held:
        listener = held.enter_context(_listen((host, address[1] if rank == 0 else 0), rank))
        links: dict[int, socket.socket] = {}
        failed = held.enter_context(contextlib.ExitStack())
        failed.callback(_close, links)
        if rank == 0:
            _gather(listener, size, links, address, deadline)
        else:
            _join(rank, size, address, listener, links, deadline)
        failed.pop_all()
        return Peers(rank, links, patience)


def _close(links: dict[int, socket.socket]) -> None:
    for link in links.values():
        link.close()


def _gather(
    listener: socket.socket,
    size: int,
    links: dict[int, socket.socket],
    address: Address,
    deadline: float,
) -> None:
    """Number 0: waits for all, then tells each where the others listen."""
    where: dict[int, Address] = {}
    while len(links) < size - 1:
        link, hello = _accept(listener, deadline, size, links, "{}:{}".format(*address))
        other = hello["rank"]
        if hello["size"] != size or not 0 < other < size or other in links:
            link.close()
            raise PeerFailed(
                f"a process came to {address[0]}:{address[1]} as trainer {other} of "
                f"{hello['size']}, but this one is trainer 0 of {size}; numbers must differ"
            )
        links[other], where[other] = link, (link.getpeername()[0], hello["port"])
    table = {"magic": _MAGIC, "token": secrets.token_hex(16), "where": sorted(where.items())}
    for link in links.values():
        _send_json(link, table)


def _join(
    rank: int,
    size: int,
    address: Address,
    listener: socket.socket,
    links: dict[int, socket.socket],
    deadline: float,
) -> None:
    """The others: report to number 0, connect to those before and accept those after."""
    own = listener.getsockname()[1]
    hello = {"magic": _MAGIC, "rank": rank, "size": size, "port": own}
    links[0], table = _report(address, hello, deadline)
    token = table["token"]
    for other, place in table["where"]:
        if other < rank:
            link = socket.create_connection(tuple(place), _left(deadline))
            links[other] = link
            _send_json(link, {"magic": _MAGIC, "rank": rank, "token": token})
    while len(links) < size - 1:
        link, hello = _accept(listener, deadline, size, links, "this trainer")
        if hello.get("token") == token:
            links[hello["rank"]] = link
        else:
            link.close()


def _report(
    address: Address, hello: dict[str, Any], deadline: float
) -> tuple[socket.socket, dict[str, Any]]:
    """The connection to number 0, as soon as it listens, and its answer."""
    last: Exception | None = None
    while time.monotonic() < deadline:
        link: socket.socket | None = None
        try:
            link = socket.create_connection(address, _left(deadline))
            _send_json(link, hello)
            link.settimeout(_left(deadline))
            table: dict[str, Any] = json.loads(_receive(link, _HELLO_BYTES))
            return link, table
        except (OSError, EOFError) as error:
            last = error
            if link is not None:
                link.close()
            time.sleep(_AGAIN)
    raise PeerFailed(
        f"trainer {hello['rank']} could not meet the others at {address[0]}:{address[1]}, where "
        f"trainer 0 should listen: {last}"
    )


def _accept(
    listener: socket.socket,
    deadline: float,
    size: int,
    links: dict[int, socket.socket],
    place: str,
) -> tuple[socket.socket, dict[str, Any]]:
    """The next process that says that it is one of ours."""
    while True:
        listener.settimeout(_left(deadline))
        try:
            link, _ = listener.accept()
        except TimeoutError as late:
            missing = sorted(set(range(1, size)) - set(links))
            names = ", ".join(map(str, missing))
            raise PeerFailed(f"trainer {names} of {size} did not come to {place}") from late
        try:
            link.settimeout(_HELLO_SECONDS)
            hello = json.loads(_receive(link, _HELLO_BYTES))
            if isinstance(hello, dict) and hello.get("magic") == _MAGIC:
                return link, hello
        except (OSError, EOFError, ValueError):
            pass  # a stranger
        link.close()


def _listen(address: Address, rank: int) -> socket.socket:
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
    return listener


def _own_address(towards: Address) -> str:
    """The address of this machine that others reach it at, on the way to `towards`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(towards)
        except OSError as error:
            raise PeerFailed(f"{towards[0]}:{towards[1]} can't be reached: {error}") from error
        return str(probe.getsockname()[0])


def _left(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())


def _send_json(link: socket.socket, value: Any) -> None:
    data = json.dumps(value).encode()
    link.sendall(_LENGTH.pack(len(data)) + data)


def _receive(link: socket.socket, largest: int) -> bytearray:
    (size,) = _LENGTH.unpack(_exactly(link, _LENGTH.size))
    if size > largest:
        raise EOFError
    return _exactly(link, size)


def _exactly(link: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    position = 0
    while position < size:
        count = link.recv_into(view[position:])
        if not count:
            raise EOFError
        position += count
    return data
