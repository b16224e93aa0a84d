"""The live page as text: of any record, small, self-contained, and safe."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.problem import Evaluations
from supac.problem.composite import loss_and_data
from supac.record.encoding import state_to_spec
from supac.record.record import Record, read_store
from supac.record.run import Round, Run, Status
from supac.record.settings import Settings
from supac.record.timeline import Span
from supac.report import account_of
from supac.report.live import make_live_page
from supac.report.live.fit import rounds_of_runs
from supac.report.live.snapshot import Snapshot
from supac.search.algorithm import Info, State
from waiting import PATIENCE

STORES = Path(__file__).parents[1] / "stores"
PLANE = supac.gaussian(np.zeros(2), np.eye(2))
HOSTILE = "</script><script>alert(1)</script><img src=x>"


def data_of(page: str) -> dict[str, Any]:
    """What the page's script reads."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    return dict(json.loads(found[1]))


class Elements(HTMLParser):
    """Tags, addresses and names of a page, as a browser takes it apart."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: set[str] = set()
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        told = {name: value or "" for name, value in attrs}
        self.addresses |= {told[name] for name in ("src", "href", "action") if name in told}
        self.names |= {told["id"]} if "id" in told else set()


def risk(x: FloatArray) -> float:
    if x[0] > 1.0:
        raise RuntimeError(HOSTILE)
    return float(np.tanh(0.1 * x @ x))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("live") / "run.supac"
    drop = supac.Execution(on_failure="penalise")
    bound = supac.MaurerLangfordSeeger(n=50, delta=0.05)
    supac.minimize(risk, PLANE, bound, budget=40, store=path, execution=drop)
    return path


def test_nothing_comes_from_elsewhere_and_only_its_script_may_run(store: Path) -> None:
    page = make_live_page(read_store(store))
    elements = Elements()
    elements.feed(page)
    assert elements.tags.count("script") == 2  # its own, and its data
    assert not {"img", "iframe", "object", "embed", "base"} & set(elements.tags)
    assert elements.addresses <= {"data:,", *(f"#{name}" for name in elements.names)}
    assert not re.search(r"https?://|@import|url\((?!#)", page)
    script = re.search(r"<script>(.*?)</script>", page, re.S)
    assert script is not None
    found = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{found}'" in page
    assert HOSTILE in data_of(page)["messages"][1]


def test_every_run_is_in_the_table(store: Path) -> None:
    record = read_store(store)
    told = data_of(make_live_page(record))
    assert told["headings"][8] == "made for"
    assert told["headings"][:5] == ["run", "round", "status", "seconds", "risk"]
    assert told["headings"][9:] == ["x0", "x1"]
    assert [row[0] for row in told["rows"]] == [run.id for run in record.light_runs]
    for row, run in zip(told["rows"], record.light_runs, strict=True):
        assert row[2] == run.status.value
        assert row[4] == (float(f"{run.risk:.4g}") if run.ok else None)
        assert row[9:] == [float(f"{value:.4g}") for value in run.x]
    fresh = {row[0] for row in told["rows"] if row[1] == 0}
    assert record.ending is not None
    assert fresh == set(record.ending.fresh)


def test_it_says_where_the_search_stands(store: Path, tmp_path: Path) -> None:
    record = read_store(store)
    page = make_live_page(record, interval=2.0)
    assert "supac resume run.supac --budget 60" in page
    assert 'data-live="0"' in page
    record.running, record.ending = True, None
    page = make_live_page(record, interval=2.0)
    assert 'data-live="1" data-interval="2"' in page
    assert 'http-equiv="refresh" content="2"' in page
    assert "Fresh runs check the posterior, 0 in progress." in page
    record.timeline[0, 99] = Span(time.time() - 50.0, worker="1", x=np.array([0.5, 3.0]))
    page = make_live_page(record)
    assert "1 in progress" in page
    record.ending = read_store(store).ending
    assert "The search has ended; 1 run of another command in progress." in make_live_page(record)
    record.ending = None
    assert "where " in page  # far longer than usual
    (row,) = (each for each in data_of(page)["rows"] if each[0] == 99)
    assert row[2] == "running"
    assert row[9:] == [0.5, 3.0]
    assert 49.0 < row[3] < 50.0 + PATIENCE
    record.timeline[0, 100] = Span(time.time() - 1.0)  # a pool that does not tell its workers
    assert re.search(r'<text [^>]*text-anchor="end">submitted</text>', make_live_page(record))


def test_a_search_without_any_run_yet(tmp_path: Path) -> None:
    settings = Settings(prior=PLANE, bound=supac.Catoni(0.1), budget=40)
    page = make_live_page(Record(settings, PLANE.family))
    assert "No run has begun yet." in page
    assert data_of(page)["rows"] == []


@pytest.mark.parametrize(
    "name", ["scalar-ended", "composite-ended", "composite-killed", "problem-killed"]
)
def test_stores_of_version_0_1_have_a_page(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.supac"
    shutil.copy(STORES / f"{name}.supac", path)
    page = make_live_page(read_store(path))
    assert "The store does not say when its runs were made." in page
    assert len(data_of(page)["rows"]) >= 30


def test_of_another_kind_of_store_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "run.supac"
    shutil.copy(STORES / "meta-killed.supac", path)
    with pytest.raises(ValueError, match="store of `meta_learn`"):
        make_live_page(read_store(path))


def large(path: Path, dim: int, count: int, batch: int = 10) -> Record:
    """A search of many runs and parameters, as a search would have written it."""
    rng, prior = np.random.default_rng(0), marginals.LogNormal(1.0, 0.5, unit="kg/m³/d")
    names = [f"parameter_{i}" for i in range(dim)]
    parameters = supac.Parameters(dict.fromkeys(names, prior), blocks=[])
    seen = supac.Observations(("a", "b", "c", "d"), np.ones(400), np.full(400, 0.1),
                              times=np.arange(100.0))  # fmt: skip
    known = loss_and_data(supac.Composite(lambda x: x, supac.Welsch(), seen))
    settings = Settings(
        prior=parameters, bound=supac.Catoni(0.01), budget=2 * count, algorithm=supac.SuPAC(),
        tolerance=0.0, **known, **supac.Execution().settings,
    )  # fmt: skip
    runs, spans = [], {}
    for i in range(count):
        status = Status.OK if rng.random() > 0.05 else Status.RAISED
        outputs = 1.0 + rng.normal(size=400) if status is Status.OK else None
        risk_of = rng.random() if status is Status.OK else np.nan
        words = (
            "" if status is Status.OK else "RuntimeError: no convergence in step 17 of the solver"
        )
        runs.append(Run(i, rng.normal(size=dim), status, risk_of, outputs, 1.0, words))
        spans[0, i] = Span(1e9 + i // 16, 1e9 + i // 16 + 1.0, str(i % 16))
    posterior = parameters.prior
    rounds = [
        Round(tuple(range(k, k + batch)), posterior, Info(0.3, 1.0, 0.4))
        for k in range(0, count, batch)
    ]
    state = State(0, posterior, Evaluations.none(dim))
    with Record.of_search(path, settings, posterior.family, kind="minimize", proxy=None) as record:
        record.confirm("")
        record.add(runs, spans)
        record.add_rounds(rounds, lambda: state_to_spec(state), posterior)
    return read_store(path)


def test_many_runs_and_parameters_make_a_small_page(tmp_path: Path) -> None:
    record = large(tmp_path / "run.supac", 300, 2_000)
    page = make_live_page(record)
    assert len(page.encode()) < 2_000_000
    told = data_of(page)
    assert len(told["rows"]) == 2_000
    assert len(told["headings"]) == 9 + 12
    assert len(told["rounds"]) <= 14
    assert "Of 300 parameters the table has the 12 that changed most" in page


def test_a_small_round_is_shown_with_the_runs_before_it(tmp_path: Path) -> None:
    """One or two runs are no band: four are, or as many as there are."""
    record = large(tmp_path / "run.supac", 2, 26, batch=2)
    good = [run.id for run in record.light_runs if run.ok]
    rounds = rounds_of_runs(Snapshot(account_of(record), 0.0))
    assert len(rounds) == 13
    for k, each in enumerate(rounds):
        sofar = [i for i in good if i < 2 * k + 2]
        assert each.ids == tuple(sofar[-4:])
        added = " and runs just before it" if min(sofar[-4:]) < 2 * k else ""
        assert each.words.startswith(f"round {k + 1} of 13{added}: ")
    tens = account_of(large(tmp_path / "ten.supac", 2, 20))
    assert rounds_of_runs(Snapshot(tens, 0.0))[0].words.startswith("round 1 of 2: from the lowest")


def test_lost_runs_do_not_count_as_busy(store: Path) -> None:
    record = read_store(store)
    last = max(span.ended for span in record.timeline.values())
    record.timeline[0, 99] = Span(last, worker="7")
    record.running, record.ending = True, None

    def busy() -> str:
        found = re.search(
            r'worker 7</th><td class="number">1</td><td class="number">(.*?)</td>',
            make_live_page(record, now=last + 3600.0),
        )
        assert found is not None
        return found[1]

    assert busy() == "100 %"
    record.running = False
    assert busy() == "0 %"


def test_high_risks_are_drawn_or_counted() -> None:
    """A risk within ten times the upper decile is at its place; of those above, the page tells."""

    def risk(x: FloatArray) -> float:
        return float(np.sum(x**2))

    def spike(x: FloatArray) -> float:
        return 1e6 if 0.0 < x[0] < 0.15 else risk(x)

    pages = []
    for each in (risk, spike):
        made = supac.minimize(each, PLANE, supac.Catoni(0.5), budget=30)
        pages.append(make_live_page(made.record))
        above = sum(run.risk > 1e5 for run in made.record.search_runs)
    assert "more at the top" not in pages[0]
    assert above > 0
    assert f"{above} more at the top, up to" in pages[1]
