"""Who isn't of the job gets nothing: damaged messages, strangers, callers without certificate."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from refluid.core.errors import EnforceNotMet
from refluid.pserver.calling import Servers, ServerUnreachable
from refluid.pserver.messages import Kind, MalformedMessage, MessageFlag, TableMessage, text_array
from refluid.pserver.packing import decode, encode
from refluid.pserver.push_messages import steps_array
from refluid.pserver.refusals import CallRefused, NotEntered
from refluid.pserver.table_server import TableServer
from refluid.pserver.wire import Keys, require_keys
from tests.pserver.tables import cluster, divided

REFUSALS = (MalformedMessage, CallRefused, EnforceNotMet)


def kinds(job: int) -> list[TableMessage]:
    """Calls of one who knows the job but never entered."""
    rows = [("ids:emb", np.array([1, 2])), ("rows:emb", np.ones((2, 4), "f4"))]
    push = [("w", np.ones((3, 1), "f4")), *rows, *steps_array(2)]
    ids = [("emb", np.array([1, 2, 3]))]
    who = {"trainer": 0, "session": 77, "job": job}
    values = text_array({"table": "emb", "start": 0, "rows": 10})
    given = [text_array({"table": "emb"}), ("ids", np.array([5])), ("emb", np.ones((1, 4), "f4"))]
    made = [
        TableMessage(Kind.PUSH, **who, sequence=1, arrays=push),
        TableMessage(Kind.ROWS, **who, arrays=ids),
        TableMessage(Kind.ROWS, **who, flags=MessageFlag.READ_ONLY, arrays=ids),
        TableMessage(Kind.PULL, **who),
        TableMessage(Kind.EXPORT, **who, arrays=[values]),
        TableMessage(Kind.IMPORT, **who, arrays=given),
        TableMessage(Kind.STATE, **who),
        TableMessage(Kind.PUSH, **who, sequence=1, arrays=[("wanted:emb", np.array([7]))]),
    ]
    return [decode(encode(one)) for one in made]


def damaged(count: int, job: int) -> Iterator[bytes]:
    """Messages with bytes changed, cut off, repeated and made up."""
    draws = np.random.RandomState(3)
    whole = [encode(one) for one in kinds(job)]
    for _ in range(count):
        raw = bytearray(whole[draws.randint(len(whole))])
        how = draws.randint(5)
        if how == 0:
            raw = raw[: draws.randint(len(raw))]
        elif how == 1:
            raw += raw[: draws.randint(64)]
        elif how == 2:
            raw = bytearray(draws.bytes(draws.randint(200)))
        for _ in range(draws.randint(1, 6)):
            if raw:
                raw[draws.randint(min(len(raw), 200))] = draws.randint(256)
        yield bytes(raw)


def state(server: TableServer) -> object:
    table = server.tables.sparse["emb"]
    return table.rows, server.tables.dense.value("w").tolist(), server.pushes


@pytest.mark.parametrize("count", [3000, pytest.param(120_000, marks=pytest.mark.slow)])
def test_damaged_messages_change_nothing(count: int) -> None:
    with cluster(divided()) as found:
        server = found.servers[0]
        before = state(server)
        refused = 0
        for raw in damaged(count, server.job):
            try:
                message = decode(raw)
                if message.kind == Kind.HELLO:
                    continue  # one byte is what it asks for: who knows the job may enter
                server.answer(message)
            except REFUSALS:
                refused += 1
        assert state(server) == before
        assert refused > 0.9 * count


def test_strangers_are_refused() -> None:
    with cluster(divided()) as found:
        server = found.servers[0]
        before = state(server)
        for message in kinds(server.job):
            reads = message.kind in (Kind.EXPORT, Kind.STATE) or message.flags
            if reads:
                server.answer(message)
            else:
                with pytest.raises(NotEntered):
                    server.answer(message)
        for message in kinds(server.job + 1):
            with pytest.raises(CallRefused, match="of another job"):
                server.answer(message)
        with pytest.raises(CallRefused, match="none of the job's 1 trainers"):
            server.answer(TableMessage(Kind.HELLO, 5, 1, job=server.job))
        assert state(server) == before


def test_who_only_reads_makes_no_rows() -> None:
    with cluster(divided()) as found:
        server = found.servers[0]
        wanted = [("wanted:emb", np.array([7, 8]))]
        asked = TableMessage(Kind.PULL, -1, job=server.job, arrays=wanted)
        rows = server.answer(decode(encode(asked))).array("rows:emb")
        assert rows.tolist() == [[0.0] * 4] * 2
        assert server.tables.sparse["emb"].rows == 0


def test_messages_survive_the_way() -> None:
    arrays = [("a", np.arange(6.0).reshape(2, 3)), ("none", np.zeros((0, 4), "i8"))]
    arrays += [("number", np.float32(3.5).reshape(())), ("ids", np.array([-(2**63)]))]
    sent = TableMessage(Kind.PUSH, 3, 2**63, 9, 2**64 - 1, 5, arrays)
    got = decode(encode(sent))
    assert (got.kind, got.trainer, got.session, got.sequence) == (Kind.PUSH, 3, 2**63, 9)
    assert (got.job, got.flags) == (2**64 - 1, 5)
    for (name, value), (other, found) in zip(arrays, got.arrays, strict=True):
        assert name == other
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value)


# -- mutual TLS ---------------------------------------------------------------


def certificate(folder: Path, name: str, authority: Path | None = None) -> Path:
    """A key and a certificate for localhost; signed by itself without an authority."""
    key, chain = folder / f"{name}.key", folder / f"{name}.pem"
    new = ["openssl", "req", "-x509" if authority is None else "-new", "-newkey", "rsa:2048"]
    names = ["-nodes", "-subj", "/CN=localhost", "-keyout", str(key)]
    extension = folder / "names.txt"
    extension.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    if authority is None:
        subprocess.run([*new, *names, "-out", str(chain)], check=True, capture_output=True)
        return chain
    asked = folder / f"{name}.csr"
    subprocess.run([*new, *names, "-out", str(asked)], check=True, capture_output=True)
    sign = ["openssl", "x509", "-req", "-in", str(asked), "-CA", str(authority), "-CAcreateserial"]
    sign += ["-CAkey", str(authority.with_suffix(".key")), "-out", str(chain)]
    subprocess.run([*sign, "-extfile", str(extension)], check=True, capture_output=True)
    return chain


def keys(chain: Path, authority: Path) -> Keys:
    return Keys(chain.with_suffix(".key"), chain, authority)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
def test_only_callers_with_a_certificate_are_answered(tmp_path: Path) -> None:
    authority = certificate(tmp_path, "authority")
    own = keys(certificate(tmp_path, "own", authority), authority)
    other = certificate(tmp_path, "other")
    stranger = keys(certificate(tmp_path, "stranger", other), authority)
    with cluster(divided(), keys=own) as found:
        port = found.services[0].port
        hello = TableMessage(Kind.HELLO, 0, 1, job=found.servers[0].job)

        def ask(who: Keys | None) -> object:
            servers = Servers([f"localhost:{port}"], patience=0.3, one_try=1.0, keys=who)
            try:
                return servers.ask({0: hello})
            finally:
                servers.close()

        for who in (None, stranger):
            with pytest.raises(ServerUnreachable):
                ask(who)
        assert not found.servers[0].members.known
        assert ask(own)
        assert set(found.servers[0].members.known) == {0}


def test_other_hosts_need_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    require_keys("127.0.0.1:80", None)
    with pytest.raises(EnforceNotMet, match="need mutual TLS"):
        require_keys("10.0.0.7:80", None)
    monkeypatch.setenv("REFLUID_PLAIN_NETWORK", "1")
    require_keys("10.0.0.7:80", None)
