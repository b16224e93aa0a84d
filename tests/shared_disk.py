"""Two hosts that share a disk and no locks: two mounts of one folder, and two host names."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from drivers import Driver
from waiting import PATIENCE

SERVER = "/usr/lib/openssh/sftp-server"


@contextmanager
def mounted(folder: Path, place: Path) -> Iterator[Path]:
    """Mount a folder by SFTP, whose locks nobody else sees."""
    if not (shutil.which("sshfs") and Path(SERVER).exists() and os.access("/dev/fuse", os.W_OK)):
        pytest.skip("there is no sshfs here, by which one disk is seen from two hosts")
    place.mkdir()
    ours, theirs = socket.socketpair()
    command = ["sshfs", "-f", "-o", "passive", f"x:{folder}", str(place)]
    with ours, theirs:
        server = subprocess.Popen([SERVER], stdin=ours.fileno(), stdout=ours.fileno())
        end_of = theirs.fileno()
        mount = subprocess.Popen(command, stdin=end_of, stdout=end_of, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + PATIENCE
        while not os.path.ismount(place):
            if mount.poll() is not None or time.monotonic() > end:
                pytest.skip("no file system can be mounted here")
            time.sleep(0.02)
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)
        for each in (mount, server):
            each.kill()
            each.wait()


NAMED = """
import ctypes, socket
assert ctypes.CDLL(None).unshare(0x04000000) == 0  # a host name of its own
socket.sethostname("{name}")
"""


def on_host(name: str, code: str, *words: object) -> Driver:
    """Run code on a host of this name: a process in a UTS namespace of its own."""
    return Driver(NAMED.format(name=name) + code, *words)
