"""Certificates that `refluid certs` makes: a job trains with them, and others are refused."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refluid.cli.main import app
from refluid.collective.launch.servers import run_with_servers
from refluid.core.errors import EnforceNotMet
from refluid.pserver.certificates import make_certificates
from tests.pserver.test_fleet import job

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


SCRIPT = "from benchmarks.counting import main\nmain()\n"


@pytest.mark.slow
def test_a_job_trains_by_mutual_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the launcher's reader shows the server its certificate."""
    from refluid.core.errors import EnforceNotMet
    from refluid.pserver.reading import TableReader

    (tmp_path / "script.py").write_text(SCRIPT)
    others = exported(said(tmp_path / "others"))
    for name, value in exported(said(tmp_path / "own")).items():
        monkeypatch.setenv(name, value)
    wanted, refused = job(2, 2), []
    arguments = [str(tmp_path / "script.py"), str(tmp_path), "async", "--steps", "60"]

    def stranger() -> None:
        until = time.monotonic() + 120
        while not (tmp_path / "0.json").is_file() and time.monotonic() < until:
            time.sleep(0.05)
        asked = "import sys; from refluid.pserver.reading import TableReader as Reader; "
        asked += "Reader(sys.argv[1:], 1.0)"
        told = {**os.environ, **others, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-c", asked, wanted.servers[0]]
        refused.append(subprocess.run(command, env=told, capture_output=True, text=True))

    asking = threading.Thread(target=stranger)
    asking.start()
    status = run_with_servers(wanted, [*arguments, "--pause", "0.1"], tmp_path / "log")
    asking.join()
    told = "".join(one.read_text() for one in (tmp_path / "log").iterdir())
    assert status == 0, told
    for number in range(2):
        assert json.loads((tmp_path / f"{number}.json").read_text())["own"] == [-60.0]
    assert refused[0].returncode and "didn't answer" in refused[0].stderr, refused[0].stderr
    with pytest.raises(EnforceNotMet, match="didn't answer"):
        TableReader([wanted.servers[0]], 0.3)
