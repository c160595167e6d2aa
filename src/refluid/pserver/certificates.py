"""A test authority and certificates of mutual TLS, made by the `openssl` command.

openssl is on nearly every host, and this is done once for a job: no package is needed for it.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from refluid.core.errors import EnforceNotMet

ALWAYS = ("localhost", "127.0.0.1")
_AUTHORITY = "authority"
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class MadeCertificates:
    """PEM files that servers and trainers of a job are given."""

    key: Path
    certificate: Path
    authority: Path

    @property
    def environment(self) -> dict[str, str]:
        """What names them to servers and trainers."""
        return {
            "REFLUID_TLS_KEY": str(self.key),
            "REFLUID_TLS_CERTIFICATE": str(self.certificate),
            "REFLUID_TLS_AUTHORITY": str(self.authority),
        }


def make_certificates(
    folder: Path, hosts: Sequence[str] = (), name: str = "job", days: int = 365
) -> MadeCertificates:
    """A key NAME.key and a certificate NAME.pem for these hosts, and for this host by loopback.

    hosts: names or addresses. The authority that signs it is made where the folder has none, and
    used again where it has. Keys are readable by their owner only. EnforceNotMet where openssl is
    missing or fails.
    """
    if name == _AUTHORITY or Path(name).name != name:
        raise EnforceNotMet(f"certificates can't be called {name!r}")
    folder.mkdir(parents=True, exist_ok=True)
    authority = folder / f"{_AUTHORITY}.pem"
    if not authority.is_file():
        _new_authority(authority, days)
    key, chain = folder / f"{name}.key", folder / f"{name}.pem"
    with tempfile.TemporaryDirectory() as away:
        asked, names = Path(away) / "asked", Path(away) / "names"
        names.write_text(f"subjectAltName={','.join(map(_alternative, (*ALWAYS, *hosts)))}\n")
        subject = ("-subj", f"/CN={name}")
        _openssl("req", "-new", *_NEW_KEY, *subject, "-keyout", str(key), "-out", str(asked))
        signs = ("-CA", str(authority), "-CAkey", str(authority.with_suffix(".key")))
        serial = ("-set_serial", str(int.from_bytes(os.urandom(8), "big") >> 1 | 1))
        signed = ("-in", str(asked), "-out", str(chain), "-days", str(days))
        _openssl("x509", "-req", *signed, *signs, *serial, "-extfile", str(names))
    return MadeCertificates(key.resolve(), chain.resolve(), authority.resolve())


def _new_authority(path: Path, days: int) -> None:
    made = ("-keyout", str(path.with_suffix(".key")), "-out", str(path), "-days", str(days))
    _openssl("req", "-x509", "-new", *_NEW_KEY, "-subj", "/CN=refluid test authority", *made)


def _alternative(host: str) -> str:
    """A name or an address as certificates have it."""
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        pass
    if not host or not all(one.isalnum() or one in "-._" for one in host):
        raise EnforceNotMet(f"{host!r} is no name or address of a host")
    return f"DNS:{host}"


def _openssl(*arguments: str) -> None:
    if shutil.which("openssl") is None:
        raise EnforceNotMet("the openssl command makes the certificates, and isn't on the PATH")
    done = subprocess.run(
        ["openssl", *arguments], capture_output=True, text=True, check=False, umask=0o077
    )
    if done.returncode:
        raise EnforceNotMet(f"openssl {arguments[0]} failed: {done.stderr.strip()}")
