"""The live page of a real run: two workers, failing and hanging runs, a browser that looks on."""

from __future__ import annotations

import http.client
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

import supac
from browser import Page, open_or_skip
from commands import call, ended, start
from drivers import Driver
from supac.cli.page_server import PageServer
from supac.problem_file import starter_files
from waiting import PATIENCE, until

MODEL = """
import time
from math import exp

TIMES = [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 6, 8, 10]


def simulate(initial, k1, k2):
    time.sleep(0.25)
    if k2 > 0.9:
        raise RuntimeError(f"<b>no</b> convergence at k2 = {k2:.3g}")
    if k1 < 0.3:
        time.sleep(60.0)
    a = [initial * exp(-k1 * t) for t in TIMES]
    b = [initial * k1 * (exp(-k1 * t) - exp(-k2 * t)) / (k2 - k1) for t in TIMES]
    return {"A": a, "B": b}
"""
SETTINGS = {"# workers = 4 ": "workers = 2 ", "# timeout = 600.0": "timeout = 2.0 #"}


def study(folder: Path) -> Path:
    """A problem whose runs fail, hang and take their time."""
    for name, text in starter_files("python").items():
        (folder / name).write_text(text)
    (folder / "model.py").write_text(MODEL)
    problem = folder / "problem.toml"
    text = problem.read_text()
    for old, new in SETTINGS.items():
        assert old in text
        text = text.replace(old, new)
    problem.write_text(text)
    return folder


def statuses(store: Path) -> list[str]:
    """Status of every run, "begun" for those in progress, and "told" for every round."""
    with suppress(supac.StoreError, FileNotFoundError):
        record = supac.read_store(store)
        made = [run.status.value for run in record.light_runs] + ["told"] * len(record.rounds)
        return made + ["begun" for span in record.timeline.values() if not span.ended > 0.0]
    return []


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with ExitStack() as stack:
        yield open_or_skip(stack)


def shows_a_run_in_progress(folder: Path) -> bool:
    """Write the page of this moment, which may be one between two rounds."""
    call("watch", folder / "run.supac", "--once", "--out", folder / "then.html")
    return 'class="span run running' in (folder / "then.html").read_text()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Driver, Driver]]:
    """A run on its way and its watcher, when runs have failed and hung and others hang still."""
    folder = study(tmp_path_factory.mktemp("watched"))
    watcher = start(folder, "watch", "problem.toml", "--interval", "0.5")
    run = start(folder, "run", "problem.toml", "-q")
    wanted = {"ok", "raised", "timed out", "begun", "told"}
    until(lambda: wanted <= set(statuses(folder / "run.supac")))
    until(lambda: shows_a_run_in_progress(folder))
    until((folder / "run-live.html").exists)
    yield folder, watcher, run
    for each in (watcher, run):
        if each.poll() is None:
            each.kill()


def rows(page: Page) -> list[list[str]]:
    """The table as it is shown."""
    cells = "[...document.querySelectorAll('#table tbody tr')].map(r => [...r.cells].map(c => {}))"
    return list(page.value(cells.format("c.textContent")))


def test_the_page_follows_the_run_and_ends_with_it(
    watched: tuple[Path, Driver, Driver], page: Page
) -> None:
    folder, watcher, run = watched
    live = folder / "run-live.html"
    page.look(live, width=1280)
    assert "running" in page.value("document.querySelector('.badge').textContent")
    page.write("#text", "ok")
    page.click("#table th:nth-child(4) button")  # seconds
    page.value("window.scrollTo({top: 500, behavior: 'instant'})")
    first = page.value("document.body.dataset.written")
    until(lambda: tolerant(page, "document.body.dataset.written") not in (first, None))
    assert page.value("document.getElementById('text').value") == "ok"
    assert abs(page.value("window.scrollY") - 500) <= 2  # rounded by the browser
    assert page.value("document.querySelector('#table th:nth-child(4)').ariaSort") == "ascending"
    assert {row[2] for row in rows(page)} == {"ok"}
    ended(run)
    assert "wrote run-live.html" in ended(watcher).replace(str(folder) + "/", "")
    done = "document.querySelector('.badge').textContent === 'done'"
    until(lambda: bool(tolerant(page, done)))  # without anybody having loaded it
    assert 'data-live="0"' in live.read_text()
    assert set(page.requests) == {live.as_uri()}
    assert page.complaints == []


def tolerant(page: Page, expression: str) -> Any:
    """A value of a page that may just be loading itself anew; None then."""
    with suppress(AssertionError):
        return page.value(expression)
    return None


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (360, False), (1280, True)])
def test_a_moment_of_the_run_at_every_width(
    watched: tuple[Path, Driver, Driver], page: Page, width: int, dark: bool
) -> None:
    path = watched[0] / "then.html"
    page.look(path, width=width, dark=dark)
    assert page.value("document.documentElement.scrollWidth") == width
    paper = page.value("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(18, 24, 31)" if dark else "rgb(255, 255, 255)")
    boxes = page.value(
        "[...document.querySelectorAll('main svg')].map(s => s.getBoundingClientRect())"
        ".filter(b => b.width).map(b => [b.left, b.right, b.height])"
    )
    assert len(boxes) >= 4
    assert all(height > 40 for _, _, height in boxes)
    assert all(left >= 0 and right <= width for left, right, _ in boxes)  # no chart is cut off
    shown = "[...document.querySelectorAll('#timeline svg')].filter(s => s.clientWidth).length"
    assert page.value(shown) == 1  # on a phone, one with fewer runs
    fits = "(s => s.scrollWidth <= s.clientWidth)(document.querySelector('{} .scroll'))"
    assert page.value(fits.format("#failures"))
    assert page.value(fits.format("#runs")) == (width == 1280)  # on a phone, it scrolls by itself
    lanes = page.value(
        "[...document.querySelectorAll('#timeline svg text')].map(t => t.textContent)"
    )
    assert {"worker 1", "worker 2"} <= set(lanes)
    scrolled = "(e => e.scrollWidth - e.clientWidth - e.scrollLeft)({})"
    assert abs(page.value(scrolled.format("document.querySelector('#timeline .scroll')"))) < 2
    for kind in ("ok", "raised", "timed-out", "running"):
        assert page.value(f"document.querySelectorAll('#timeline rect.{kind}').length") > 0
    assert page.value("document.querySelectorAll('#timeline rect.timed-out.long').length") > 0
    causes = page.value("document.querySelector('#failures table').textContent")
    assert "timed out" in causes
    assert "<b>no</b> convergence" in causes
    assert page.value("document.querySelectorAll('b').length") == 0  # it was escaped
    assert page.requests == [path.as_uri()]
    assert page.complaints == []


def test_clicks_select_a_run_everywhere(watched: tuple[Path, Driver, Driver], page: Page) -> None:
    page.look(watched[0] / "then.html", width=1280)
    shown = "document.getElementById('picked').checkVisibility()"
    assert not page.value(shown)
    page.click("#search circle.raised")
    run = page.value("document.querySelector('#search circle.picked').dataset.run")
    assert page.value(shown)
    assert page.value("document.getElementById('picked-title').textContent") == f"Run {run}: raised"
    assert "convergence at k2" in page.value("document.getElementById('picked-facts').textContent")
    assert page.value("document.querySelector('#timeline rect.picked').dataset.run") == run
    assert page.value("document.querySelector('#table tr.picked').cells[0].textContent") == run
    page.click("#timeline rect.running")
    begun = page.value("document.querySelector('#timeline rect.picked').dataset.run")
    assert begun != run
    facts = page.value("document.getElementById('picked-facts').textContent")
    assert re.search(r"k1 \(1/h\)[\d.e-]+", facts)  # the point of a run in progress is known
    page.click("#failures td:last-child button")
    assert page.value("document.querySelectorAll('#search circle.picked').length") == 1
    page.click("#unpick")
    assert not page.value(shown)
    assert page.value("document.querySelectorAll('.picked').length") == 0


def test_the_keyboard_selects_a_run(watched: tuple[Path, Driver, Driver], page: Page) -> None:
    page.look(watched[0] / "then.html", width=1280)
    page.value("document.querySelector('#table tbody tr:nth-child(2) button').focus()")
    for kind, more in (("keyDown", {"text": "\r"}), ("keyUp", {})):
        page.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter",
                  windowsVirtualKeyCode=13, **more)  # fmt: skip
    second = rows(page)[1][0]
    title = page.value("document.getElementById('picked-title').textContent")
    assert title.startswith(f"Run {second}:")
    page.call("Input.dispatchKeyEvent", type="keyDown", key="Escape", windowsVirtualKeyCode=27)
    assert not page.value("document.getElementById('picked').checkVisibility()")


def test_the_table_is_sorted_and_filtered(watched: tuple[Path, Driver, Driver], page: Page) -> None:
    page.look(watched[0] / "then.html", width=1280)
    every = rows(page)
    numbers = [int(row[0]) for row in every]
    assert numbers == sorted(numbers, reverse=True)
    heads = page.value("[...document.querySelectorAll('#table th')].map(h => h.textContent)")
    for name, down in (("seconds", False), ("seconds", True), ("k1 (1/h)", False)):
        place = heads.index(name)
        page.click(f"#table th:nth-child({place + 1}) button")
        found = [float(row[place]) for row in rows(page) if row[place] != "–"]
        assert len(found) >= len(every) - 2
        assert found == sorted(found, reverse=down)
    page.value(
        "(() => { const s = document.getElementById('status'); s.value = 'timed out';"
        "s.dispatchEvent(new Event('change')) })()"
    )
    hung = rows(page)
    assert 0 < len(hung) < len(every)
    assert {row[2] for row in hung} == {"timed out"}
    count = page.value("document.getElementById('count').textContent")
    assert count == f"{len(hung)} of {len(every)} runs"
    page.write("#text", "no such words")
    assert rows(page) == []


def test_the_slider_goes_through_the_rounds(
    watched: tuple[Path, Driver, Driver], page: Page
) -> None:
    folder, watcher, run = watched
    for each in (run, watcher):
        if each.poll() is None:
            ended(each)
    page.look(folder / "run-live.html", width=1280)
    rounds = len(supac.read_store(folder / "run.supac").rounds)
    assert page.value("document.getElementById('round').max") == str(rounds)  # and the fresh runs
    on = "[...document.querySelectorAll('#fit .round.on')].map(g => g.dataset.round)"
    assert set(page.value(on)) == {str(rounds)}
    band = "document.querySelector('#fit .round.on polygon').getBoundingClientRect().height"
    narrow = page.value(band)
    page.click("#round")
    for _ in range(rounds + 1):
        page.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowLeft", code="ArrowLeft",
                  windowsVirtualKeyCode=37)  # fmt: skip
    assert set(page.value(on)) == {"0"}
    assert page.value("document.getElementById('round-words').textContent").startswith("round 1 of")
    assert page.value(band) > 2.0 * narrow


# The command


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    call("init", folder)
    call("run", folder / "problem.toml", "-q")
    return folder


def test_a_file_that_is_no_live_page_is_not_replaced(finished: Path) -> None:
    page = finished / "page.html"
    page.write_text("mine")
    said = call("watch", finished / "run.supac", "--once", "--out", page, code=1).output
    assert "already exists and is no live page" in " ".join(said.split())
    assert page.read_text() == "mine"
    call("watch", finished / "run.supac", "--once", "--out", page, "--force")
    call("watch", finished / "run.supac", "--once", "--out", page)  # its own is
    assert "supac watch" in page.read_text()
    said = call("watch", finished / "run.supac", "--once", "--serve", code=1).output
    assert "--once writes a file" in said


def test_a_run_that_has_ended_is_written_once(finished: Path) -> None:
    call("watch", finished / "problem.toml")
    page = (finished / "run-live.html").read_text()
    assert 'data-live="0"' in page
    assert 'http-equiv="refresh"' not in page
    assert not list(finished.glob("*.part"))


def test_ctrl_c_leaves_the_run_alone(tmp_path: Path) -> None:
    folder = study(tmp_path)
    watcher = start(folder, "watch", "run.supac", "--interval", "0.5")
    assert "run-live.html follows run.supac; Ctrl-C leaves" in watcher.complaint("follows")
    run = start(folder, "run", "problem.toml", "-q")
    until((folder / "run-live.html").exists)
    assert 'data-live="1"' in (folder / "run-live.html").read_text()
    watcher.send_signal(signal.SIGINT)
    code, _, complained = watcher.end()
    assert code == 0
    assert "left; the run goes on" in complained
    assert 'data-live="0"' in (folder / "run-live.html").read_text()
    assert run.poll() is None
    run.kill()
    run.end()
    said = call("watch", folder / "run.supac", "--once").output
    assert "wrote" in said
    page = (folder / "run-live.html").read_text()
    assert "Its process ended before the search did." in page
    assert '"lost"' in page


def fetched(port: int, path: str = "/", host: str = "localhost") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", path, headers={"Host": host})
    answer = connection.getresponse()
    words = answer.read().decode()
    connection.close()
    return answer.status, words


def test_a_server_for_this_machine_alone(tmp_path: Path, page: Page) -> None:
    folder = study(tmp_path)
    watcher = start(folder, "watch", "run.supac", "--interval", "0.5", "--serve")
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", watcher.complaint("follows"))
    assert found is not None
    address, port = found[0], int(found[1])
    assert "Waiting for the run" in fetched(port)[1]
    run = start(folder, "run", "problem.toml", "-q", "--budget", "20")
    until(lambda: "Two reactions" in fetched(port)[1])
    assert fetched(port, host=f"127.0.0.1:{port}")[0] == 200
    assert fetched(port, host="elsewhere.example")[0] == 404
    assert fetched(port, "/etc/passwd")[0] == 404
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", port), 5):
        pass
    said = call("watch", folder / "run.supac", "--port", port, code=1).output
    assert f"port {port} cannot be used" in said
    page.look(address, width=1280)
    assert page.value("document.querySelectorAll('#timeline rect').length") > 0
    until(lambda: bool(tolerant(page, "document.querySelector('.badge').textContent === 'done'")))
    assert set(page.requests) == {address}
    assert page.complaints == []
    ended(run)
    assert "the last state was served" in ended(watcher)
    assert not (folder / "run-live.html").exists()
    with pytest.raises(ConnectionRefusedError):
        fetched(port)


def test_two_watchers_of_one_run_write_the_same_page(finished: Path) -> None:
    page = finished / "both.html"
    code = (
        "import sys; from pathlib import Path; from supac.cli.watch import Places\n"
        "places = Places(Path(sys.argv[1]), None)\n"
        "for _ in range(2_000): places.put('page')\n"
    )
    both = [Driver(code, page) for _ in range(2)]
    for each in both:
        status, _, complained = each.end()
        assert status == 0, complained
    assert page.read_text() == "page"
    assert not list(finished.glob("*.part"))


def sent(port: int, request: bytes) -> bytes:
    """Send a request as it is; return the answer up to its end."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def test_odd_requests_and_browsers_that_leave_are_answered_in_silence(
    capfd: pytest.CaptureFixture[str],
) -> None:
    server = PageServer(0)
    server.show(b"x" * 20_000_000)  # more than a connection holds
    port = int(server.address.rsplit(":", 1)[1].rstrip("/"))
    assert b" 400 " in sent(port, b"GET / HTTP/1.1\r\nHost: [\r\n\r\n").split(b"\n")[0]
    assert b" 404 " in sent(port, b"HEAD /no HTTP/1.1\r\nHost: localhost\r\n\r\n").split(b"\n")[0]
    head = sent(port, b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b" 200 " in head.split(b"\n")[0]
    assert b"Content-Length: 20000000" in head
    assert head.endswith(b"\r\n\r\n")
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            connection.recv(10)
    status, page = fetched(port)
    assert (status, len(page)) == (200, 20_000_000)
    server.close()
    assert capfd.readouterr().err == ""
