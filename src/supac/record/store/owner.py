"""The owner of a store on a disk that several hosts share, where locks cannot be trusted.

A file beside the store names the host and the process that write to it. It is created exclusively,
which such disks can do, and touched every few seconds by its owner: one that has been silent for
too long is dead. All ages are by the clock of the disk, since those of two hosts may differ.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

BEAT = 10.0  # seconds from one sign of life to the next
SILENT = 120.0  # seconds without one after which an owner is dead
VARIABLE = "SUPAC_SHARED"
"""Environment variable, "1" or "0", that decides whether a disk counts as shared."""
_LOCAL = {
    0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x858458F6, 0x794C7630, 0x2FC12FC1, 0xF2F52010,
    0x4D44, 0x5346544E, 0x65735543, 0x3153464A, 0x52654973, 0x24051905, 0x6165676C, 0xCA451A4E,
}  # fmt: skip
"""Types of file systems that one host alone can mount: ext, XFS, Btrfs, tmpfs, overlay, ZFS, …"""
_kept: dict[int, bool] = {}  # by device, whether its locks keep others out


def suffixed(path: Path) -> Path:
    """Return the file that names the owner of a store."""
    return path.with_name(f"{path.name}.owner")


def is_shared(path: Path) -> bool:
    """Return True if the locks of a file are perhaps not seen by other hosts."""
    decided = os.environ.get(VARIABLE, "")
    if decided in ("0", "1"):
        return decided == "1"
    kind = _type_of(path.parent)
    return (kind is not None and kind not in _LOCAL) or not _keeps_locks(path.parent)


def _keeps_locks(folder: Path) -> bool:
    """Return False if a lock in a folder does not keep out another one of the same host.

    Tried once for each disk; a reader who may not write there cannot try.
    """
    try:
        device = folder.stat().st_dev
        if device not in _kept:
            _kept[device] = _try_locks(folder)
        return _kept[device]
    except OSError:
        return True


def _try_locks(folder: Path) -> bool:
    """Lock a new file of a folder twice; OSError if none can be made there."""
    probe = folder / f".supac-lock-{uuid.uuid4().hex[:8]}"
    with probe.open("x") as first:
        try:
            with probe.open("r+") as second:
                fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # this disk has no locks at all
            return False
        finally:
            probe.unlink(missing_ok=True)
    return False


def _type_of(folder: Path) -> int | None:
    """Return the type of the file system of a folder (Linux); None if it is not known."""
    if sys.platform != "linux":
        return None
    found = ctypes.create_string_buffer(256)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.statfs(os.fsencode(folder), found) != 0:
        return None
    return int.from_bytes(found.raw[:4], sys.byteorder)


@dataclass(frozen=True)
class Owner:
    """Process that writes, or wrote, to a store."""

    host: str
    pid: int
    since: str
    token: str
    boot: str = ""
    silent: float = 0.0
    """Seconds since its last sign of life, by the clock of the disk."""

    @property
    def alive(self) -> bool:
        """True unless it is dead: for certain if it was on this host, else by its silence."""
        here = (socket.gethostname(), _boot())
        if (self.host, self.boot) == here:
            return _exists(self.pid) and self.silent < SILENT
        return self.silent < SILENT

    @property
    def words(self) -> str:
        """Describe it."""
        return f"process {self.pid} on {self.host}, since {self.since}"

    @property
    def advice(self) -> str:
        """Say what to do for somebody who is kept out by it."""
        left = max(SILENT - self.silent, 0.0)
        return (
            f"its last sign of life is {self.silent:.0f} s old. If it is dead, the store is free "
            f"in {left:.0f} s, or at once with --take-over"
        )


def owner_of(path: Path) -> Owner | None:
    """Return the owner of a store, alive or not; None if there is none."""
    file = suffixed(path)
    try:
        told = json.loads(file.read_text())
        silent = max(_now_on(file.parent) - file.stat().st_mtime, 0.0)
        return Owner(
            str(told["host"]), int(told["pid"]), str(told["since"]), str(told["token"]),
            str(told["boot"]), silent,
        )  # fmt: skip
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):  # half written: somebody begins just now
        with suppress(OSError):
            return Owner("another host", 0, "a moment ago", "", silent=_age(file))
        return None


def wait_for_dead(path: Path, say: Callable[[str], None]) -> None:
    """Wait until the owner of a store, if it is silent, is dead; not for one that shows life.

    So a job that is queued again goes on by itself, though the host of the one before is gone.
    """
    found = owner_of(path) if is_shared(path) else None
    if found is None or not found.alive:
        return
    say(f"{path} was being written by {found.words}: waiting for a sign of life")
    while found is not None and found.alive:
        time.sleep(1.0)
        before, found = found, owner_of(path)
        if found is not None and found.silent < before.silent:
            return


def remove_owner(path: Path) -> None:
    """Forget the owner of a store, whoever it was."""
    suffixed(path).unlink(missing_ok=True)


class Ownership:
    """The owner file of this process, kept alive by a thread until it is released."""

    def __init__(self, path: Path):
        self._file, self._token = suffixed(path), uuid.uuid4().hex
        self._stop = threading.Event()
        told = {
            "host": socket.gethostname(), "pid": os.getpid(), "token": self._token,
            "since": time.strftime("%Y-%m-%d %H:%M:%S"), "boot": _boot(),
        }  # fmt: skip
        # Whole before it has its name: a link to a name that is there fails, also between hosts.
        draft = self._file.with_name(f"{self._file.name}.{self._token[:8]}")
        draft.write_text(json.dumps(told))
        try:
            _create(draft, self._file)
        finally:
            draft.unlink(missing_ok=True)
        threading.Thread(target=self._beat, name="supac owner", daemon=True).start()

    @property
    def holds(self) -> bool:
        """True unless another process has taken over."""
        try:
            return bool(json.loads(self._file.read_text())["token"] == self._token)
        except (OSError, ValueError, KeyError):
            return False

    def _beat(self) -> None:
        while not self._stop.wait(BEAT):
            if not self.holds:
                return
            with suppress(OSError):
                os.utime(self._file)

    def release(self) -> None:
        """Give the store free."""
        self._stop.set()
        if self.holds:
            self._file.unlink(missing_ok=True)

    def stop(self) -> None:
        """Give no more signs of life: this is a forked copy of the owner."""
        self._stop.set()


def claim(path: Path) -> Ownership:
    """Become the owner of a store, in place of a dead one; FileExistsError if one is alive."""
    for _ in range(3):
        try:
            return Ownership(path)
        except FileExistsError:
            found = owner_of(path)
            if found is not None and found.alive:
                raise
            _bury(path, found)
    raise FileExistsError(suffixed(path))


def _bury(path: Path, dead: Owner | None) -> None:
    """Remove the file of a dead owner, unless somebody else has done so and taken its place."""
    file = suffixed(path)
    aside = file.with_name(f"{file.name}.dead-{uuid.uuid4().hex[:8]}")
    with suppress(FileNotFoundError):
        file.rename(aside)  # one of several who try succeeds
        taken = aside.read_text()
        if dead is not None and dead.token and dead.token not in taken:
            with suppress(OSError):  # it was that of a new one
                os.link(aside, file)
        aside.unlink(missing_ok=True)


def _create(draft: Path, file: Path) -> None:
    """Give a draft its name; FileExistsError if that is taken."""
    try:
        os.link(draft, file)
    except FileExistsError:
        raise
    except OSError:  # a disk without hard links
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with os.fdopen(descriptor, "w") as new:
            new.write(draft.read_text())


def _now_on(folder: Path) -> float:
    """Return the time by the clock of a disk."""
    probe = folder / f".supac-clock-{uuid.uuid4().hex[:8]}"
    try:
        probe.touch()
        return probe.stat().st_mtime
    except OSError:  # a reader who may not write there
        return time.time()
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


def _age(file: Path) -> float:
    return max(_now_on(file.parent) - file.stat().st_mtime, 0.0)


def _boot() -> str:
    """Identify the running system of this host: process numbers begin anew with it."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
