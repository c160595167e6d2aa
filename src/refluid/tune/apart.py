"""Runs a command whose writes to files go nowhere: `python -m refluid.tune.apart KEPT COMMAND ...`.

Every mounted file system that can be written is covered by an overlay in a mount namespace of its
own: what the command, or anything that it starts, writes it also reads, and all is gone when it
ends, however it ends, but what it writes to the folder KEPT. Needs a kernel that lets this user
have namespaces; exits with `REFUSED` otherwise, and says why. Imports nothing but the standard
library: namespaces come before threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

REFUSED = 78
_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_NOSUID, _NODEV, _REMOUNT, _READ_ONLY, _BIND = 2, 4, 32, 1, 4096
_REC, _PRIVATE = 16384, 1 << 18
_PARENT_ENDS = 1
# What is no file that anybody keeps, and what can't be covered.
_SYSTEM = ("/proc", "/sys", "/dev")
_KINDS = """
ext2 ext3 ext4 xfs btrfs tmpfs ramfs overlay zfs f2fs nfs nfs4 cifs fuse fuseblk 9p virtiofs erofs
squashfs vfat exfat ceph lustre gpfs bcachefs
"""
_libc = ctypes.CDLL(None, use_errno=True)


def cover(kept: str) -> None:
    """From now on this process writes to memory instead of files, but for those in a folder (none:
    empty). OSError where it may not."""
    _own_namespace()
    folder = os.open(kept, os.O_DIRECTORY) if kept else -1
    _mount("none", "/", "", _REC | _PRIVATE)
    upper = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path("/mnt")
    _mount("refluid", str(upper), "tmpfs", _NOSUID | _NODEV)
    here = Path.cwd()
    for number, place in enumerate(_places()):
        over = upper / f"over{number}"
        for name in ("new", "work"):
            (over / name).mkdir(parents=True)
        _overlay(place, over)
    if kept:
        _mount(f"/proc/self/fd/{folder}", kept, "", _BIND)
        os.close(folder)
    _mount("none", "/", "", _REMOUNT | _BIND | _READ_ONLY)
    os.chdir(here)  # into what covers it


def end_with_parent() -> None:
    """Has this process be killed when the one that started it ends, also while it is stopped."""
    _libc.prctl(_PARENT_ENDS, signal.SIGKILL)


def _own_namespace() -> None:
    if os.geteuid() == 0 and _libc.unshare(_NEWNS) == 0:
        return
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(_NEWNS | _NEWUSER):
        raise _failed("a mount namespace")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _places() -> list[str]:
    """What to cover, the outer before the inner: top folders and whatever is mounted in them."""
    found = [f"/{one.name}" for one in Path("/").iterdir() if one.is_dir() and not one.is_symlink()]
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        kind = fields[fields.index("-") + 1]
        place = fields[4].encode().decode("unicode_escape")
        if kind in _KINDS.split() or kind.startswith("fuse."):
            found.append(place)
    kept = {one for one in found if Path(one).is_dir() and not _is_system(one)}
    return sorted(kept - {"/"}, key=lambda one: one.count("/"))


def _is_system(place: str) -> bool:
    return any(place == one or place.startswith(f"{one}/") for one in _SYSTEM)


def _overlay(place: str, over: Path) -> None:
    names = (place, over / "new", over / "work")
    lower, new, work = (str(one).replace(",", "\\,").replace(":", "\\:") for one in names)
    options = f"lowerdir={lower},upperdir={new},workdir={work}"
    for more in ("", ",userxattr"):
        if _libc.mount(b"overlay", place.encode(), b"overlay", 0, (options + more).encode()) == 0:
            return
    raise _failed(f"an overlay over {place}")


def _mount(source: str, place: str, kind: str, flags: int) -> None:
    if _libc.mount(source.encode(), place.encode(), kind.encode(), flags, None):
        raise _failed(f"mounting on {place}")


def _failed(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


def main(command: Sequence[str]) -> Iterator[str]:
    """Becomes the command, after a folder's name; what to say where that can't be."""
    kept, *rest = command
    try:
        cover(kept)
    except OSError as error:
        yield f"files can't be covered ({error.strerror})"
        return
    os.execvp(rest[0], rest)


if __name__ == "__main__":
    for said in main(sys.argv[1:]):
        print(said, file=sys.stderr)
    raise SystemExit(REFUSED)
