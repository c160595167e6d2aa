"""Files that belong together appear together or not at all, whichever step of writing fails."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.core import writing
from refluid.core.errors import EnforceNotMet
from refluid.core.writing import write_files, write_whole
from tests.interrupting import interrupted_at_each_call


class FullDisk:
    """Makes the call number `at` that changes the file system fail, as on a full disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at, self.calls = -1, 0
        for owner, name in ((os, "fsync"), (os, "link"), (Path, "replace"), (Path, "mkdir")):
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))
        fill = writing._fill
        monkeypatch.setattr(
            writing,
            "_fill",
            lambda part, write, durable: fill(part, lambda file: write(_File(file, self)), durable),
        )

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.step()
            return function(*arguments, **options)

        return call

    def step(self) -> None:
        self.calls += 1
        if self.calls - 1 == self.at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def each_step(self) -> Iterator[int]:
        """So many numbers as steps are made in the block around `next`, the failing one set."""
        while self.at < 0 or self.calls > self.at:
            self.at, self.calls = self.at + 1, 0
            yield self.at


class _File:
    def __init__(self, file: BinaryIO, disk: FullDisk) -> None:
        self._file, self._disk = file, disk

    def write(self, data: Any) -> int:
        half = memoryview(data).cast("B") if len(data) else memoryview(b"")
        self._file.write(half[: len(half) // 2])
        self._disk.step()
        return self._file.write(half[len(half) // 2 :])


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


def test_all_or_none(tmp_path: Path, disk: FullDisk) -> None:
    def save(text: bytes, names: str) -> None:
        write_files([(tmp_path / name, lambda file: file.write(text)) for name in names])

    save(b"old", "abc")
    old = contents(tmp_path)
    failures = 0
    for _ in disk.each_step():
        try:
            save(b"new", "abcd")
        except EnforceNotMet as error:
            failures += 1
            assert "cannot be written: No space left on device" in str(error)
            assert contents(tmp_path) == old
    assert failures > 4 * 3
    assert contents(tmp_path) == dict.fromkeys("abcd", b"new")


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_whatever_is_raised(tmp_path: Path, error: type[BaseException]) -> None:
    def fail(file: BinaryIO) -> None:
        raise error

    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(error):
        write_files([(tmp_path / "a", lambda file: file.write(b"new")), (tmp_path / "b", fail)])
    assert contents(tmp_path) == {"a": b"old"}


def test_a_folder_in_the_way_and_two_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(EnforceNotMet, match="b: cannot be written: a folder has this name"):
        write_files([(tmp_path / name, lambda file: file.write(b"new")) for name in "ab"])
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(EnforceNotMet, match="would be written twice"):
        write_files([(tmp_path / name, lambda file: file.write(b"new")) for name in ("a", "link")])
    assert contents(tmp_path)["a"] == b"old"


def test_a_file_system_without_second_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)
    for text in (b"old", b"new"):
        write_files([(tmp_path / name, lambda file, text=text: file.write(text)) for name in "ab"])
    assert contents(tmp_path) == {"a": b"new", "b": b"new"}


def network() -> tuple[fluid.Program, fluid.Program, Any]:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        out = fluid.layers.fc(fluid.layers.fc(fluid.data("x", [None, 4]), 3), 2)
        fluid.optimizer.Adam(0.1).minimize(fluid.layers.mean(out))
    return main, startup, out


Save = Callable[[fluid.Program, Any, Path], None]
EXE = fluid.Executor()
SAVES: dict[str, tuple[Save, Callable[[fluid.Program, Path], Any]]] = {
    "save_inference_model": (
        lambda main, out, at: fluid.io.save_inference_model(at, ["x"], [out], EXE, main),
        lambda main, at: fluid.io.load_inference_model(at, EXE),
    ),
    "combined": (
        lambda main, out, at: fluid.io.save_inference_model(
            at, ["x"], [out], EXE, main, "model", "params"
        ),
        lambda main, at: fluid.io.load_inference_model(at, EXE, "model", "params"),
    ),
    "with its training part": (
        lambda main, out, at: fluid.io.save_inference_model(
            at, ["x"], [out], EXE, main, export_for_deployment=False
        ),
        lambda main, at: fluid.io.load_inference_model(at, EXE),
    ),
    "save_persistables": (
        lambda main, out, at: fluid.io.save_persistables(EXE, at, main),
        lambda main, at: fluid.io.load_persistables(EXE, at, main),
    ),
    "save_params": (
        lambda main, out, at: fluid.io.save_params(EXE, at, main, "all"),
        lambda main, at: fluid.io.load_params(EXE, at, main, "all"),
    ),
    "save": (
        lambda main, out, at: fluid.save(main, at / "model"),
        lambda main, at: fluid.load(main, at / "model", EXE),
    ),
}


@pytest.mark.parametrize("name", SAVES)
def test_a_full_disk_leaves_the_old_model_whole(tmp_path: Path, disk: FullDisk, name: str) -> None:
    """At every step that can fail; then the old model is loaded, and the new one in the end."""
    save, load = SAVES[name]
    main, startup, out = network()
    with fluid.scope_guard(fluid.Scope()):
        EXE.run(startup)
        weights = [var.name for var in main.all_parameters()]

        def values() -> list[Any]:
            held = [fluid.global_scope().find_var(one).get_tensor() for one in weights]
            return [np.array(one) for one in held]

        before = values()
        save(main, out, tmp_path)
        old = contents(tmp_path)
        EXE.run(main, feed={"x": np.ones((2, 4), "float32")})
        after, failures = values(), 0
        for _ in disk.each_step():
            try:
                save(main, out, tmp_path)
            except EnforceNotMet:
                failures += 1
                assert contents(tmp_path) == old
        new = contents(tmp_path)
        assert failures >= 2 * len(old) and new.keys() == old.keys() and new != old
        for files, want in ((old, before), (new, after)):
            for one, data in files.items():
                (tmp_path / one).write_bytes(data)
            with fluid.scope_guard(fluid.Scope()):
                load(main, tmp_path)
                for got, wanted in zip(values(), want, strict=True):
                    np.testing.assert_array_equal(got, wanted)


@pytest.mark.filterwarnings("ignore:.*part:pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_at_any_call_leaves_all_files_or_none_and_no_parts(tmp_path: Path) -> None:
    def save(text: bytes) -> None:
        write_files([(tmp_path / name, lambda file: file.write(text)) for name in "ab"], False)

    save(b"0")
    for _ in interrupted_at_each_call(lambda: save(b"1")):
        assert contents(tmp_path) in ({"a": b"0", "b": b"0"}, {"a": b"1", "b": b"1"})
        save(b"0")
    save(b"1")
    assert contents(tmp_path) == {"a": b"1", "b": b"1"}


def test_a_page_is_there_whole_or_as_it_was(tmp_path: Path, disk: FullDisk) -> None:
    page = tmp_path / "page"
    write_whole(page, "before")
    for _ in disk.each_step():
        try:
            write_whole(page, "afterwards")
        except EnforceNotMet as error:
            assert "page" in str(error) and "No space left" in str(error)
            assert contents(tmp_path) == {"page": b"before"}
    assert page.read_text() == "afterwards"


def test_what_is_no_file_is_written_to_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    thread = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    thread.start()
    write_whole(pipe, "text")
    thread.join(60)
    assert read == [b"text"] and pipe.is_fifo()


def test_a_profile_that_has_no_room_leaves_the_former_one(
    tmp_path: Path, disk: FullDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = str(tmp_path / "profile")
    with fluid.profiler.profiler("CPU", None, where):
        pass
    before = contents(tmp_path)
    disk.at, disk.calls = 0, 0
    profiled = fluid.profiler.profiler("All", None, where)
    with pytest.raises(EnforceNotMet, match="No space left"), profiled:
        fluid.Executor().run(fluid.Program())
    assert contents(tmp_path) == before
