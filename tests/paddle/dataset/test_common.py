"""The cache folder: what is found, refused, asked for, downloaded and checked."""

from __future__ import annotations

import hashlib
import http.server
import logging
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from refluid.paddle import cached_files
from refluid.paddle.cached_files import DataMissing
from refluid.paddle.dataset import common
from tests.paddle.dataset.archives import write

CONTENT = b"some data"
MD5 = hashlib.md5(CONTENT).hexdigest()


def test_what_is_missing_is_told_with_its_folder_and_checksum(home: Path) -> None:
    with pytest.raises(DataMissing) as told:
        common.download("http://nowhere.invalid/a%2Fdata.tgz", "imdb", MD5)
    for word in (str(home / "imdb"), "a%2Fdata.tgz or data.tgz", MD5, "REFLUID_DOWNLOAD=1"):
        assert word in str(told.value)
    assert isinstance(told.value, RuntimeError)


@pytest.mark.parametrize("name", ["a%2Fdata.tgz", "data.tgz"])
def test_files_are_found_under_fluids_names_and_plain_ones(home: Path, name: str) -> None:
    path = write(home / "imdb" / name, CONTENT)
    assert common.download("http://nowhere.invalid/a%2Fdata.tgz", "imdb", MD5) == str(path)


def test_a_file_of_another_checksum_is_read_with_a_warning(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(home / "imdb" / "x", b"other")
    with caplog.at_level(logging.WARNING, "refluid"):
        assert common.download("http://nowhere.invalid/x", "imdb", MD5) == str(path)
    assert MD5 in caplog.text and str(path) in caplog.text


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "served"
    folder.mkdir()
    handler = partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    (folder / "url").write_text(f"http://127.0.0.1:{server.server_port}")
    yield folder
    server.shutdown()
    thread.join()
    server.server_close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.mark.parametrize("scheme", ["file", "http"])
def test_it_is_downloaded_where_that_is_asked_for(
    home: Path, served: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(served / "x", CONTENT)
    base = served.as_uri() if scheme == "file" else (served / "url").read_text()
    with pytest.raises(DataMissing):
        common.download(f"{base}/x", "imdb", MD5)
    monkeypatch.setenv("REFLUID_DOWNLOAD", "1")
    path = common.download(f"{base}/x", "imdb", MD5, "named")
    assert Path(path) == home / "imdb" / "named" and Path(path).read_bytes() == CONTENT
    write(Path(path), b"damaged")
    assert Path(common.download(f"{base}/x", "imdb", MD5, "named")).read_bytes() == CONTENT


@pytest.mark.parametrize("found", [b"other", None])
def test_what_is_downloaded_is_checked(
    home: Path, served: Path, found: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if found is not None:
        write(served / "x", found)
    monkeypatch.setenv("REFLUID_DOWNLOAD", "1")
    with pytest.raises(DataMissing, match=MD5 if found else "No such file"):
        common.download(f"{served.as_uri()}/x", "imdb", MD5)
    assert not list((home / "imdb").iterdir())


def test_another_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_HOME", str(tmp_path))
    assert cached_files.data_home() == tmp_path / "dataset"
    monkeypatch.delenv("PADDLE_HOME")
    assert cached_files.data_home() == Path.home() / ".cache" / "paddle" / "dataset"


def test_samples_are_split_over_files_and_read_by_trainers(tmp_path: Path) -> None:
    common.split(lambda: iter(range(10)), 4, suffix=str(tmp_path / "%02d.pickle"))
    assert sorted(path.name for path in tmp_path.glob("*.pickle")) == [
        "00.pickle",
        "01.pickle",
        "02.pickle",
    ]
    pattern = str(tmp_path / "*.pickle")
    first, second = (list(common.cluster_files_reader(pattern, 2, one)()) for one in (0, 1))
    assert (first, second) == ([0, 1, 2, 3, 8, 9], [4, 5, 6, 7])


def test_all_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(DataMissing) as told:
        common.fetch_all()
    missing = {line.split()[3] for line in str(told.value).splitlines()}
    assert missing >= {"mnist", "imdb", "conll05st", "corpora", "MQ2007"} and len(missing) == 12
