"""Certificates that `refluid certs` makes: a job trains with them, and others are refused."""

from __future__ import annotations

import shlex
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refluid.cli.main import app
from refluid.core.errors import EnforceNotMet
from refluid.pserver.certificates import make_certificates

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes them")


def said(*arguments: object) -> str:
    found = CliRunner().invoke(app, ["certs", *map(str, arguments)])
    assert found.exit_code == 0, found.output
    return found.stdout


def exported(text: str) -> dict[str, str]:
    """The variables that a shell has which was told this."""
    words = [shlex.split(line) for line in text.splitlines()]
    assert all(one[0] == "export" and len(one) == 2 for one in words)
    return dict(one[1].split("=", 1) for one in words)


def test_one_authority_signs_for_all_hosts(tmp_path: Path) -> None:
    folder = tmp_path / "it's here"
    first = exported(said(folder, "--hosts", "10.0.0.7,node-1.cluster", "--days", 3))
    authority = Path(first["REFLUID_TLS_AUTHORITY"]).read_bytes()
    second = exported(said(folder, "--name", "second"))
    assert Path(second["REFLUID_TLS_AUTHORITY"]).read_bytes() == authority
    for found in (first, second):
        chain = found["REFLUID_TLS_CERTIFICATE"]
        checks = ["openssl", "verify", "-CAfile", found["REFLUID_TLS_AUTHORITY"], chain]
        subprocess.run(checks, check=True, capture_output=True)
    shown = ["openssl", "x509", "-in", first["REFLUID_TLS_CERTIFICATE"], "-noout", "-text"]
    text = subprocess.run(shown, check=True, capture_output=True, text=True).stdout
    names = "DNS:localhost, IP Address:127.0.0.1, IP Address:10.0.0.7, DNS:node-1.cluster"
    assert names in text
    for key in folder.glob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_what_is_no_host_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EnforceNotMet, match="'a b' is no name or address"):
        make_certificates(tmp_path, ["a b"])
    with pytest.raises(EnforceNotMet, match="can't be called 'authority'"):
        make_certificates(tmp_path, [], "authority")
