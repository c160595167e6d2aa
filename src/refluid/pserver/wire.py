"""What both ends of a call have in common: gRPC with raw bytes, its limits, its keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from refluid.core.errors import EnforceNotMet
from refluid.core.flags import environment_str

METHOD = "/refluid.TableServer/Call"
# One message; larger ones are refused on both ends.
MOST_BYTES = 2**30
_LOOPBACK = ("127.", "localhost:", "[::1]:")

OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", MOST_BYTES),
]


@dataclass(frozen=True)
class Keys:
    """Certificates of mutual TLS, as PEM: this end's key and chain, and who signs the others'."""

    key: bytes
    chain: bytes
    authority: bytes

    def of_server(self) -> Any:
        """For a server, which accepts nobody without a certificate."""
        pairs = [(self.key, self.chain)]
        return grpc.ssl_server_credentials(pairs, self.authority, require_client_auth=True)

    def of_client(self) -> Any:
        """For one who calls a server."""
        return grpc.ssl_channel_credentials(self.authority, self.key, self.chain)


def keys_of_environment() -> Keys | None:
    """Those in REFLUID_TLS_KEY, REFLUID_TLS_CERTIFICATE and REFLUID_TLS_AUTHORITY, names of files.

    None where none is set; EnforceNotMet where some are, or a file can't be read.
    """
    names = [f"REFLUID_TLS_{one}" for one in ("KEY", "CERTIFICATE", "AUTHORITY")]
    paths = [environment_str(name) for name in names]
    if not any(paths):
        return None
    for name, path in zip(names, paths, strict=True):
        if path is None:
            raise EnforceNotMet(f"mutual TLS needs {', '.join(names)}: {name} is not set")
        if not Path(path).is_file():
            raise EnforceNotMet(f"{name}={path}: there is no such file")
    return Keys(*(Path(path).read_bytes() for path in paths if path))


def require_keys(address: str, keys: Keys | None) -> None:
    """EnforceNotMet where an address that other hosts reach is to be used without TLS."""
    if keys is None and not address.startswith(_LOOPBACK):
        if environment_str("REFLUID_PLAIN_NETWORK") == "1":
            return
        raise EnforceNotMet(
            f"servers at {address} can be reached from other hosts, so they need mutual TLS: set "
            "REFLUID_TLS_KEY, REFLUID_TLS_CERTIFICATE and REFLUID_TLS_AUTHORITY, or "
            "REFLUID_PLAIN_NETWORK=1 where nobody else is on the network"
        )
