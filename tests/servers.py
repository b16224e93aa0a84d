"""An UM-Bridge server and a Dask cluster for tests, on ports that nobody else uses."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from waiting import PATIENCE

if TYPE_CHECKING:
    from distributed import LocalCluster

SERVER = """
import functools, math, sys
import umbridge
from aiohttp import web

web.run_app = functools.partial(web.run_app, host="127.0.0.1")  # not for the whole network

class Model(umbridge.Model):
    def __init__(self, name, inputs, outputs, function):
        super().__init__(name)
        self.inputs, self.outputs, self.function = inputs, outputs, function

    def get_input_sizes(self, config):
        return self.inputs

    def get_output_sizes(self, config):
        return self.outputs

    def __call__(self, parameters, config):
        return self.function([x for block in parameters for x in block], config)

    def supports_evaluate(self):
        return True

class Forward(Model):  # J v
    slopes = None

    def supports_apply_jacobian(self):
        return True

    def apply_jacobian(self, out_wrt, in_wrt, parameters, vec, config):
        block = self.slopes([x for each in parameters for x in each])[out_wrt][in_wrt]
        return [sum(a * v for a, v in zip(row, vec)) for row in block]

class Backward(Model):  # v^T J
    slopes = None

    def supports_gradient(self):
        return True

    def gradient(self, out_wrt, in_wrt, parameters, sens, config):
        block = self.slopes([x for each in parameters for x in each])[out_wrt][in_wrt]
        return [sum(v * row[j] for v, row in zip(sens, block)) for j in range(len(block[0]))]

def slopes_of_forward(x):
    y = forward(x, {})[0]
    return [[[[a / x[0], -t * a] for a, t in zip(y, (0.5, 1.0, 2.0, 4.0))]]]

def slopes_of_misfit(x):
    return [[[[1.0], [0.0]], [[0.0], [1.0]]], [[[x[1]]], [[x[0]]]]]

def wave(x, config):
    return [[0.5 + config.get("height", 0.15) * (math.sin(x[0]) + math.sin(x[1]))]]

def misfit(x, config):
    return [[x[0] - 1.0, x[1] + 0.5], [x[0] * x[1]]]

def dry(x, config):
    if x[0] > 0.5:
        raise RuntimeError("no steady state")
    return [[0.2]]

def wrong(x, config):
    return [[0.1, 0.2]]

def nowhere(x, config):
    return [[math.nan]]

def forward(x, config):  # the reactor of docs/running.md
    return [[x[0] * math.exp(-x[1] * t) for t in (0.5, 1.0, 2.0, 4.0)]]

def reaction(x, config):
    initial, k1, k2 = x
    times = [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 6, 8, 10]
    a = [initial * math.exp(-k1 * t) for t in times]
    gap = k2 - k1 or 1e-9
    b = [initial * k1 / gap * (math.exp(-k1 * t) - math.exp(-(k1 + gap) * t)) for t in times]
    return [a, b]

models = [
    Model("wave", [2], [1], wave),
    Forward("misfit", [1, 1], [2, 1], misfit),
    Model("dry", [2], [1], dry),
    Model("wrong", [2], [1], wrong),
    Model("nowhere", [2], [1], nowhere),
    Forward("forward", [2], [4], forward),
    Backward("backward", [2], [4], forward),
    Model("reaction", [3], [12, 12], reaction),
]
for model in models:
    model.slopes = slopes_of_misfit if model.name == "misfit" else slopes_of_forward
umbridge.serve_models(models, port=int(sys.argv[1]), max_workers=2)
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def serving() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(url, process)
        yield url, process
    finally:
        process.kill()
        process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(f"{url}/Info", timeout=10.0).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the server does not answer")


def local_cluster(workers: int, *, processes: bool, protocol: str | None = None) -> LocalCluster:
    """Without a dashboard."""
    from distributed import LocalCluster  # noqa: PLC0415

    return LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=workers,
        processes=processes,
        threads_per_worker=1,
        dashboard_address=None,
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
        host="127.0.0.1" if processes or protocol else None,
        protocol=protocol,
        silence_logs="CRITICAL",
    )


CLUSTER = """
import sys, time
from servers import local_cluster
if __name__ == "__main__":
    with local_cluster(2, processes=False, protocol="tcp://") as cluster:
        print(cluster.scheduler_address, flush=True)
        time.sleep(600.0)
"""


@contextmanager
def mortal_cluster() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A Dask cluster in a process of its own, which may be killed: its address, and the process."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        cwd=Path(__file__).parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.communicate()
