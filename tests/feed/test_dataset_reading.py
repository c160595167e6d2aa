"""Files of a dataset: unpacked, piped, read by several threads, bounded, and their faults."""

from __future__ import annotations

import gzip
import io
import os
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import zstandard

from refluid.core.errors import EOFException
from refluid.feed.multislot.parsing import BadLine, LineSlot
from refluid.feed.text_datasets.done import Done
from refluid.feed.text_datasets.feed import DatasetFeed, Shaped, feed_from_files, feed_from_memory
from refluid.feed.text_datasets.files import UnreadableFile
from refluid.feed.text_datasets.memory import load
from refluid.feed.text_datasets.pipe import PipeFailed
from refluid.feed.text_datasets.reading import RowSource
from refluid.feed.text_datasets.threads import Producers
from tests.feed.leftovers import assert_nothing_left, until

SLOTS = (LineSlot("id", "int64", 1), LineSlot("words", "int64"))
SHAPES = ((1,), (1,))


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    assert_nothing_left()


def lines(start: int, count: int) -> bytes:
    """Rows whose id counts up; row k has k % 3 + 1 words, all k."""
    return b"".join(
        b"1 %d %d%s\n" % (k, k % 3 + 1, b" %d" % k * (k % 3 + 1))
        for k in range(start, start + count)
    )


def written(folder: Path, parts: list[bytes]) -> tuple[str, ...]:
    paths = []
    for number, part in enumerate(parts):
        path = folder / f"part-{number}"
        path.write_bytes(part)
        paths.append(str(path))
    return tuple(paths)


def ids(feed: DatasetFeed) -> list[int]:
    """All ids of a pass, whose words must belong to them."""
    found: list[int] = []
    try:
        feed.start()
        while True:
            batch = feed.take()
            own, words = batch.tensors
            (offsets,) = batch.lods[1]
            assert batch.lods[0] == () and own.shape == (batch.rows, 1)
            lengths = np.diff(offsets.array)
            assert (lengths == own.numpy()[:, 0] % 3 + 1).all()
            assert (np.repeat(own.numpy(), lengths, 0) == words.numpy()).all()
            found += own[:, 0].tolist()
    except EOFException:
        return found
    finally:
        feed.stop()


def pass_over(paths: tuple[str, ...], readers: int = 1, **options: Any) -> list[int]:
    source = RowSource(paths, SLOTS, **options)
    return ids(feed_from_files(source, Shaped(16, SHAPES), readers, 1))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
@pytest.mark.parametrize("command", ["cat", " cat ", "cat | cat", "sed s/x/y/"])
def test_each_row_comes_once_and_in_order(tmp_path: Path, pack: Any, command: str) -> None:
    paths = written(tmp_path, [pack(lines(0, 100)), pack(lines(100, 1)), pack(lines(101, 99))])
    assert pass_over(paths, pipe_command=command) == list(range(200))


@pytest.mark.parametrize("readers", [2, 3, 5])
@pytest.mark.parametrize("command", ["cat", "sed s/x/y/"])
def test_several_readers_share_the_files_out(tmp_path: Path, readers: int, command: str) -> None:
    paths = written(tmp_path, [lines(40 * k, 40) for k in range(9)])
    assert sorted(pass_over(paths, readers, pipe_command=command)) == list(range(360))


def test_files_larger_than_a_block_and_without_a_last_newline(tmp_path: Path) -> None:
    paths = written(tmp_path, [lines(0, 90_000).rstrip(b"\n"), lines(90_000, 10)])
    assert pass_over(paths) == list(range(90_010))


def test_several_packed_parts_in_one_file(tmp_path: Path) -> None:
    for pack in (gzip.compress, zstandard.compress):
        paths = written(tmp_path, [pack(lines(0, 30)) + pack(lines(30, 30))])
        assert pass_over(paths) == list(range(60))


def test_empty_files_have_no_rows(tmp_path: Path) -> None:
    paths = written(tmp_path, [b"", lines(0, 3), b""])
    assert pass_over(paths) == [0, 1, 2]
    assert load(RowSource(written(tmp_path, [b""]), SLOTS), 1).rows == 0


@pytest.mark.parametrize("system", ["hdfs", "afs"])
def test_short_paths_are_read_by_hadoop(
    tmp_path: Path, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = written(tmp_path, [lines(0, 50)])
    command, asked = tmp_path / "bin" / "hadoop", tmp_path / "asked"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\necho "$*" > {asked}\nshift 6\ncat "${{1#*:}}"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    hadoop = {"name": "afs://host:9902", "ugi": "me,secret"}
    assert pass_over((f"{system}:{path}",), hadoop=hadoop) == list(range(50))
    settings = "-D fs.default.name=afs://host:9902 -D hadoop.job.ugi=me,secret"
    assert asked.read_text() == f"fs {settings} -cat {system}:{path}\n"


def test_short_paths_without_hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnreadableFile, match="afs:/a: reading it needs the command hadoop"):
        pass_over(("afs:/a",))
    opened: list[str] = []

    def opening(path: str, *_modes: str) -> SimpleNamespace:
        opened.append(path)
        return SimpleNamespace(open=lambda: io.BytesIO(lines(0, 5)))

    monkeypatch.setattr("fsspec.open", opening)
    assert pass_over(("hdfs:/a/b",)) == list(range(5))
    assert opened == ["hdfs:///a/b"]


def test_urls(tmp_path: Path) -> None:
    (path,) = written(tmp_path, [gzip.compress(lines(0, 50))])
    assert pass_over((f"file://{path}",)) == list(range(50))
    with pytest.raises(UnreadableFile, match="nosuch://x"):
        pass_over(("nosuch://x",))


def test_the_download_command_gets_the_path(tmp_path: Path) -> None:
    paths = written(tmp_path, [lines(0, 20)])
    assert pass_over(paths, download_command="cat <") == list(range(20))
    with pytest.raises(PipeFailed, match="nosuchcommand"):
        pass_over(paths, download_command="nosuchcommand")


def test_a_missing_file_is_found_before_anything_is_read(tmp_path: Path) -> None:
    paths = (*written(tmp_path, [lines(0, 20)]), str(tmp_path / "missing"))
    with pytest.raises(UnreadableFile, match=r"missing: cannot be read: No such file"):
        pass_over(paths)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
@pytest.mark.parametrize("command", ["cat", "sed s/x/y/"])
def test_a_truncated_packed_file_is_an_error(tmp_path: Path, pack: Any, command: str) -> None:
    packed = pack(lines(0, 20_000))
    paths = written(tmp_path, [packed[: len(packed) * 2 // 3]])
    with pytest.raises(UnreadableFile, match="part-0: is truncated"):
        pass_over(paths, pipe_command=command)


def test_a_damaged_packed_file_is_an_error(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(lines(0, 5000)))
    packed[len(packed) // 2 : len(packed) // 2 + 50] = bytes(50)
    with pytest.raises((UnreadableFile, BadLine), match="part-0"):
        pass_over(written(tmp_path, [bytes(packed)]))


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("exit 3", "'exit 3' ended with status 3 and said nothing"),
        ("cat; echo no disk >&2; exit 1", r"ended with status 1. It said:\nno disk"),
        ("cat; kill -9 $$", "was ended by SIGKILL"),
        ("nosuchcommand", "'nosuchcommand' ended with status 127"),
    ],
)
def test_a_failing_pipe_command_is_named(tmp_path: Path, command: str, reason: str) -> None:
    paths = written(tmp_path, [lines(0, 5000), lines(5000, 10)])
    with pytest.raises(PipeFailed, match=reason) as caught:
        pass_over(paths, pipe_command=command)
    assert "part-0: the pipe command" in str(caught.value)


def test_a_pipe_command_may_leave_the_rest_unread(tmp_path: Path) -> None:
    paths = written(tmp_path, [lines(0, 200_000)])
    assert pass_over(paths, pipe_command="head -5") == [0, 1, 2, 3, 4]


def test_hashes_are_the_same_in_every_pipe_command(tmp_path: Path) -> None:
    paths = written(tmp_path, [b"\n", b"\n"])
    command = "python3 -c 'print(1, 3, 1, abs(hash(\"a\")))'"
    source = RowSource(paths, SLOTS, pipe_command=command)
    feed = feed_from_files(source, Shaped(2, SHAPES), 1, 1)
    feed.start()
    words = feed.take().tensors[1]
    feed.stop()
    assert words[0] == words[1]


def test_rows_before_a_bad_line_come_first(tmp_path: Path) -> None:
    paths = written(tmp_path, [lines(0, 40) + b"1 7 0\n" + lines(0, 4)])
    feed = feed_from_files(RowSource(paths, SLOTS), Shaped(8, SHAPES), 1, 1)
    feed.start()
    assert sum(feed.take().rows for _ in range(5)) == 40
    with pytest.raises(BadLine, match=r"part-0, line 41: slot 'words' \(number 2 of 2\)"):
        feed.take()
    feed.stop()


def test_bad_lines_can_be_skipped(tmp_path: Path) -> None:
    paths = written(tmp_path, [lines(0, 40) + b"1 7 0\n\nx\n" + lines(40, 4)])
    assert pass_over(paths, skip_bad_lines=True) == list(range(44))


def test_a_reader_faster_than_the_consumer_waits(tmp_path: Path) -> None:
    made: list[int] = []

    def make() -> Generator[int, None, None]:
        for one in range(1000):
            made.append(one)
            yield one

    producers = Producers([make], 3, lambda: None, "bounded")
    producers.start()
    until(lambda: len(made) == 4)
    time.sleep(0.2)
    assert made == [0, 1, 2, 3]
    producers.stop()


def test_stopping_ends_a_command_that_would_run_for_ever(tmp_path: Path) -> None:
    paths = written(tmp_path, [lines(0, 10)])
    for command in ("sleep 1000", "cat; sleep 1000", "yes 1 2 1 3"):
        feed = feed_from_files(RowSource(paths, SLOTS, command), Shaped(2, SHAPES), 1, 1)
        feed.start()
        feed.stop()
        assert_nothing_left()


def test_several_consumers_get_each_batch_once(tmp_path: Path) -> None:
    paths = written(tmp_path, [lines(50 * k, 50) for k in range(6)])
    feed = feed_from_files(RowSource(paths, SLOTS), Shaped(8, SHAPES), 3, 4)
    feed.start()
    found = list[int]()

    def consume(number: int) -> None:
        try:
            while True:
                found.extend(feed.take(number).tensors[0][:, 0].tolist())
        except EOFException:
            pass

    threads = [threading.Thread(target=consume, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    feed.stop()
    assert sorted(found) == list(range(300))


def test_memory_keeps_the_order_of_the_files(tmp_path: Path) -> None:
    paths = written(tmp_path, [lines(70 * k, 70) for k in range(7)])
    memory = load(RowSource(paths, SLOTS), 4)
    assert memory.rows == 490
    assert ids(feed_from_memory(memory, Shaped(16, SHAPES), 1, 1)) == list(range(490))


def test_shuffles_keep_rows_together_and_repeat(tmp_path: Path) -> None:
    orders = []
    for _ in range(2):
        memory = load(RowSource(written(tmp_path, [lines(0, 100)]), SLOTS), 1)
        memory.shuffle([5])
        orders.append(ids(feed_from_memory(memory, Shaped(16, SHAPES), 1, 1)))
    assert orders[0] == orders[1] != list(range(100)) == sorted(orders[0])


def test_a_shuffled_slot_has_the_values_of_other_rows(tmp_path: Path) -> None:
    memory = load(RowSource(written(tmp_path, [lines(0, 100)]), SLOTS), 1)
    for slot in (0, 1, 0):
        memory.shuffle_slots([slot], [5])
        columns, spans = next(memory.batches(100, Done()))
        assert spans == ((0, 0, 100),)
        own, words = (values.tolist() for values in columns.values)
        assert sorted(own) == list(range(100))
        assert sorted(words) == sorted(w for k in range(100) for w in [k] * (k % 3 + 1))
        assert (own == list(range(100))) == (slot == 1)
        assert (words == [w for k in range(100) for w in [k] * (k % 3 + 1)]) == (slot == 0)
