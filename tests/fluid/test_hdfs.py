"""`HDFSClient` on this machine's files: by fsspec, and by a `hadoop` command that works on them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from refluid.core.errors import EnforceNotMet
from refluid.fluid.contrib.utils.hdfs_utils import HDFSClient, multi_download, multi_upload

# As much of `hadoop fs` as is called, on this machine's files.
_HADOOP = r"""#!/bin/bash
shift; while [[ "$1" == -D* ]]; do shift; done
verb=$1; shift
list() { stat -c '%A 1 u g %s %y %n' "$1" | sed -E 's/(:[0-9]+)\.[0-9]+ [+-][0-9]+/\1/'; }
case "$verb" in
  -test) test "$1" "$2" ;;
  -ls) if [ "$1" = -R ]; then echo "Found"; find "$2" -mindepth 1 | while read f; do list "$f"; done
       else for f in "$1"/*; do list "$f"; done; fi ;;
  -rm) rm -r "$2" ;;
  -mv) mv "$1" "$2" ;;
  -mkdir) mkdir -p "$2" ;;
  -put|-get) [ ! -e "$2" ] && cp -r "$1" "$2" ;;
  -cat) cat "$1" ;;
esac
"""


@pytest.fixture(params=["fsspec", "hadoop"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> HDFSClient:
    configs = {"fs.default.name": "file:///", "hadoop.job.ugi": "me,secret"}
    if request.param == "fsspec":
        return HDFSClient(None, configs)
    command = tmp_path / "home" / "bin" / "hadoop"
    command.parent.mkdir(parents=True)
    command.write_text(_HADOOP)
    command.chmod(0o755)
    return HDFSClient(str(tmp_path / "home"), configs)


def test_files_go_there_and_back(client: HDFSClient, tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    here.mkdir()
    (here / "a").write_text("alpha")
    assert client.makedirs(str(there)) and client.is_dir(str(there))
    target = str(there / "a")
    assert client.upload(target, str(here / "a"))
    assert client.is_exist(target) and not client.is_dir(target)
    (here / "a").write_text("beta")
    assert not client.upload(target, str(here / "a"))
    assert client.upload(target, str(here / "a"), overwrite=True)
    assert client.download(target, str(here / "b"))
    assert (here / "b").read_text() == "beta"
    assert not client.download(target, str(here / "b"))
    assert client.rename(target, str(there / "c"))
    assert client.ls(str(there)) == [str(there / "c")]
    assert not client.rename(str(there / "none"), str(there / "d"))
    assert client.delete(str(there / "c")) and client.delete(str(there / "c"))
    assert client.ls(str(there)) == [] or not list(there.iterdir())
    assert not client.is_exist(str(there / "c"))
    with pytest.raises(EnforceNotMet, match="no such file"):
        client.upload(target, str(here / "none"))


def test_folders_are_shared_among_trainers(client: HDFSClient, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for name in ("a", "b", "inner/c", "inner/d", "inner/e"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(name)
    multi_upload(client, str(there), str(here))
    found = client.lsr(str(there))
    assert sorted(found) == [
        str(there / one) for one in ("a", "b", "inner/c", "inner/d", "inner/e")
    ]
    assert str(there / "inner") in client.lsr(str(there), only_file=False)
    got = [
        multi_download(client, str(there), str(tmp_path / f"got{number}"), number, 2)
        for number in range(2)
    ]
    assert [len(one) for one in got] == [3, 2]
    texts = sorted(Path(one).read_text() for share in got for one in share)
    assert texts == ["a", "b", "inner/c", "inner/d", "inner/e"]


def test_archives_are_unpacked(client: HDFSClient, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("inside", "text")
    assert client.download(str(tmp_path / "packed.zip"), str(tmp_path / "to" / "p.zip"), unzip=True)
    assert (tmp_path / "to" / "inside").read_text() == "text"


def test_a_system_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(EnforceNotMet, match="nosuch://host/ can't be reached"):
        HDFSClient(None, {"fs.default.name": "nosuch://host/"})
