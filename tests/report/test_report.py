"""The page: complete, well-formed, and safe whatever the names and messages say."""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.cli import app
from supac.codec import Named
from supac.record.parameter_change import joint_kl
from supac.record.store.file import checked, with_checksum
from supac.report import account_of, make_page
from supac.report.svg import labels, span, ticks
from supac.report.words import at_most, escape, number

STYLE = Path(supac.__file__).parent / "report" / "style.css"
VOID = {"meta", "circle", "path", "rect", "polyline", "polygon", "br"}
SECTIONS = [
    "in-short", "fit", "learnt", "guaranteed", "trust", "asked", "numbers", "search", "failures",
    "again", "words",
]  # fmt: skip


class Outline(HTMLParser):
    """The elements of a page; an error where they are not properly nested."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run and its certificate."""
    folder = tmp_path_factory.mktemp("study")
    for words in (
        ["init", folder],
        ["run", folder / "problem.toml", "--quiet"],
        [
            "certify",
            folder / "run.supac",
            "--posterior",
            "--draws",
            "60",
            "--out",
            folder / "certificate.json",
        ],
    ):
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, done.output
    return folder


def certificate_of(study: Path) -> supac.Certificate:
    return supac.Certificate.from_json((study / "certificate.json").read_text())


def test_every_part_is_there(study: Path) -> None:
    run = supac.read_store(study / "run.supac")
    page = make_page(account_of(run, certificate=certificate_of(study)))
    outline = Outline(page)
    assert [each.get("id") for each in outline.named("section")] == SECTIONS
    for row in run.parameter_changes:
        assert f"{row.width:.2f}" in outline.text
        assert number(row.posterior[1]) in outline.text
    assert f"{number(run.estimate.mean_risk)} ± " in outline.text
    assert "With probability at least 0.95, the mean true risk of the posterior" in outline.text
    assert 'title = "Two reactions in a row' in outline.text  # the problem file
    assert "supac run problem.toml" in outline.text
    pictures = [each["aria-labelledby"] or "" for each in outline.named("svg")]
    assert [name.split("-")[0] for name in pictures] == [
        "fit", "fit", "range", "range", "range", "band", "band", "marginal", "marginal", "marginal",
        "correlations", "convergence",
    ]  # fmt: skip
    bands = run.bands(0.8)  # twelve measurements a column are too few for 0.9
    assert escape(bands.statement[1:]) in page
    assert escape(bands.assumption) in page


def test_the_first_screen_has_the_answer(study: Path) -> None:
    run = supac.read_store(study / "run.supac")
    assert run.certificate is not None
    assert run.certificate.residual is not None
    first = make_page(account_of(run)).partition("</section>")[0]
    shown = Outline(first.partition("<section")[2].join(["<section", "</section>"])).text
    error = at_most(run.certificate.residual)
    assert f"a constant error of {error} noise standard deviations, would" in shown
    off = sorted(each.typical for each in account_of(run).misfits)
    assert f"typically {number(off[0], 2)} to {number(off[1], 2)} noise" in shown
    for row in run.parameter_changes:
        assert f"{number(row.posterior[1])} {row.unit}{number(row.posterior[0])} to " in shown
    fresh = run.estimate.validated
    assert f"{fresh} fresh runs of the posterior: median, 50 % and 90 %" in shown
    assert "supac export run.supac sets.csv --ensemble" in shown
    assert "ensemble = true in a scenario runs them." in shown
    assert 'class="area posterior"' in first
    # Another certificate may be of other sets, which another command writes.
    other = replace(account_of(run), certificate=replace(run.certificate, draws=500))
    told = Outline(make_page(other)).text
    assert (
        "these 500 parameter sets: supac export run.supac sets.csv --ensemble --draws 500" in told
    )
    assert "ensemble = true" not in told


def test_a_run_under_way_says_so_and_shows_its_latest_runs(tmp_path: Path) -> None:
    times = np.linspace(0.0, 5.0, 20)
    data = supac.Observations(("signal",), 2.0 * np.exp(-0.7 * times), np.full(20, 0.05))
    risk = supac.Composite(lambda x: 2.0 * np.exp(-x[0] * times), supac.Welsch(), data)
    prior = supac.Parameters({"rate": marginals.LogNormal(1.0, 0.5, unit="1/s")})
    pages: list[str] = []

    def look(event: supac.Iteration) -> bool:
        pages.append(make_page(account_of(supac.read_store(tmp_path / "run.supac"))))
        return event.queries >= 20

    supac.minimize(
        risk, prior, supac.Catoni(0.01), budget=60, store=tmp_path / "run.supac", callback=look
    )
    early, late = Outline(pages[0]), Outline(pages[-1])
    for page in (early, late):
        assert page.named("body") == [{"class": "unfinished"}]
        assert "This run is under way: " in page.text
        assert "supac show run.supac --follow" in page.text
    assert "runs of the search: median" not in early.text  # the first batch is the prior's
    assert "the latest 12 runs of the search: median, 50 % and 90 %" in late.text


def test_a_narrow_posterior_is_enlarged() -> None:
    prior = supac.Parameters({"k": marginals.Uniform(0.0, 1000.0)})
    risk = supac.Composite(lambda x: (x - 500.0) * np.ones(4) / 5.0, supac.Welsch())
    result = supac.minimize(risk, prior, supac.Catoni(0.01), budget=40)
    (row,) = result.record.parameter_changes
    assert row.width < 0.05
    page = Outline(make_page(account_of(result)))
    assert " × enlarged" in page.text


def test_held_out_data_are_shown_in_the_band_and_refusals_in_words() -> None:
    times = np.linspace(0.0, 5.0, 40)
    values = 2.0 * np.exp(-0.7 * times) + 0.1 * np.random.default_rng(0).standard_normal(40)
    prior = supac.Parameters({"k": marginals.LogNormal(1.0, 0.5)})

    def page_of(data: supac.Observations, test: supac.Observations | None, n: int) -> Outline:
        risk = supac.Composite(lambda x: 2.0 * np.exp(-x[0] * times), supac.Welsch(), data, test)
        bound = supac.MaurerLangfordSeeger(n, 0.05)
        return Outline(make_page(account_of(supac.minimize(risk, prior, bound, budget=40))))

    data = supac.Observations(("y",), values, np.full(40, 0.1))
    page = page_of(*data.split(np.arange(40) % 2 == 1), n=20)
    rings = [each for each in page.named("circle") if each["class"] == "dot held-out"]
    assert len(rings) == 2 * 20  # beside the fit, and in the band
    assert "(split conformal, 20 measurements a column)" in page.text
    without = page_of(data, None, n=5)
    assert "is not known; no bands: n = 5 says that the 40 data are dependent" in without.text
    assert not any("band" in (each["aria-labelledby"] or "") for each in without.named("svg"))


def test_it_can_be_read_without_eyes_or_mouse(study: Path) -> None:
    page = make_page(account_of(supac.read_store(study / "run.supac")))
    outline = Outline(page)
    assert outline.named("html") == [{"lang": "en"}]
    ids = [each["id"] for _, each in outline.elements if "id" in each]
    assert len(ids) == len(set(ids))
    for name in re.findall(r'href="#([^"]*)"', page):
        assert name in ids
    levels = [int(tag[1]) for tag, _ in outline.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    for picture in outline.named("svg"):
        assert picture["role"] == "img"
        assert picture["aria-labelledby"] in ids
    for each in outline.named("th"):
        assert each["scope"] in ("row", "col")
    assert not re.search(r"<th[^>]*>\s*</th>", page)
    for each in outline.named("pre"):
        assert each["tabindex"] == "0"
        assert each["role"] == "region"
        assert each["aria-label"]
    scrolling = [e for e in outline.named("div") if e.get("class") == "scroll"]
    assert all(e["tabindex"] == "0" and e["aria-label"] for e in scrolling)


def test_pictures_say_what_they_show(study: Path) -> None:
    """In words for those who do not see them, by dashes for those who see no colours."""
    account = account_of(supac.read_store(study / "run.supac"))
    page = make_page(account)
    assert len(account.misfits) == 2
    for each in account.misfits:
        off = f"typical misfit {number(each.typical, 2)} times the noise"
        assert re.search(f"<title[^>]*>{each.column}: [^<]*{off}", page)
    lines = re.findall(r'class="(line [^"]*)"', page)
    assert {"line prior dashed", "line prior thin dashed"} <= set(lines)
    assert all(("dashed" in line) == ("prior" in line) for line in lines)
    style = STYLE.read_text()
    assert re.search(r"\.key\.prior \{[^}]*dashed", style)
    assert "scroll-behavior" not in re.sub(
        r"@media \(prefers-reduced-motion: no-preference\) \{.*\}", "", style
    )


def test_nothing_comes_from_elsewhere(study: Path) -> None:
    page = make_page(account_of(supac.read_store(study / "run.supac")))
    # An address in the text of the problem file is only text.
    assert not re.search(r"<[^>]*https?://|<script|@import|src=|javascript:", page)
    assert "url(" not in re.sub(r"url\(#[a-z0-9-]+\)", "", page)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255.0 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_are_told_apart_in_every_theme() -> None:
    themes = [
        dict(re.findall(r"(--\w+): (#\w{6});", block))
        for block in re.findall(r":root \{(.*?)\}", STYLE.read_text(), flags=re.S)
    ]
    assert len(themes) == 3  # light, dark, print
    for theme in themes:
        for text in ("ink", "soft", "link"):
            for ground in ("paper", "card"):
                assert contrast(theme[f"--{text}"], theme[f"--{ground}"]) >= 4.5
        for badge in ("good", "warn", "bad"):
            assert contrast(theme["--on"], theme[f"--{badge}"]) >= 4.5
        for line in ("prior", "posterior", "data"):  # what is drawn needs 3
            assert contrast(theme[f"--{line}"], theme["--paper"]) >= 3.0


EVIL = '<script>alert("1")</script>'


def broken(x: FloatArray) -> float:
    if x[0] > 1.2:
        raise RuntimeError(f"</td>{EVIL}\x07 & 'so on'")
    return float(np.tanh(x[0] ** 2 + (x[1] - 0.5) ** 2))


def test_names_units_and_messages_cannot_change_the_page() -> None:
    parameters = supac.Parameters(
        {
            EVIL: marginals.Normal(0.0, 1.0, unit='"><img onerror=x>'),
            "a&b": marginals.Uniform(0.0, 1.0, unit="µm"),
        }
    )
    result = supac.minimize(
        broken,
        parameters,
        supac.Catoni(0.05),
        budget=60,
        execution=supac.Execution(on_failure="penalise"),
    )
    assert result.failures
    page = make_page(account_of(result, title=EVIL))
    outline = Outline(page)
    assert not outline.named("script")
    assert not outline.named("img")
    assert EVIL in outline.text
    assert "\x07" not in page
    assert "a&amp;b" in page
    assert not outline.named("fit")
    assert escape("'\"<>&\x00") == "&#x27;&quot;&lt;&gt;&amp;␀"
    assert escape("3\N{NO-BREAK SPACE}µm\r\n\udc80").encode() == "3\N{NO-BREAK SPACE}µm\n�".encode()


def test_a_certificate_of_another_posterior_is_refused(study: Path) -> None:
    other = replace(certificate_of(study), kl=1.0)
    with pytest.raises(ValueError, match="KL 1, but this one's is"):
        account_of(supac.read_store(study / "run.supac"), certificate=other)


def test_a_certificate_is_read_as_it_was_written(study: Path) -> None:
    certificate = certificate_of(study)
    assert supac.Certificate.from_json(certificate.to_json()) == certificate
    assert str(supac.Certificate.from_json(certificate.to_json())) == str(certificate)
    for text in ("{}", "no json", "[]", '{"value": 1}'):
        with pytest.raises(supac.CertificateError, match="not a certificate"):
            supac.Certificate.from_json(text)


def test_risks_are_those_of_the_search_without_the_runs_of_a_certificate(study: Path) -> None:
    run = supac.read_store(study / "run.supac")
    assert sum(each.purpose == "certificate" for each in run.light_runs) == 60
    assert len(account_of(run).risks) == run.queries - run.failed


def test_a_result_is_reported_like_its_store(study: Path, tmp_path: Path) -> None:
    problem = supac.read_problem(study / "problem.toml")
    result = problem.minimize(store=tmp_path / "run.supac")
    mine, stored = account_of(result), account_of(supac.read_store(tmp_path / "run.supac"))
    assert mine.first is not None
    assert mine.fresh is not None
    np.testing.assert_array_equal(mine.first, stored.first)
    np.testing.assert_array_equal(mine.fresh, stored.fresh)
    assert len(mine.fresh) == result.validated
    np.testing.assert_array_equal(np.sort(mine.risks), np.sort(stored.risks))
    assert mine.observations is not None
    assert stored.observations is not None
    assert mine.observations.columns == stored.observations.columns == ("A", "B")
    np.testing.assert_array_equal(mine.observations.values, stored.observations.values)
    assert mine.misfits == stored.misfits != ()
    path = supac.write_report(result, tmp_path / "report.html", title="Mine")
    assert "<h1>Mine</h1>" in path.read_text()
    with pytest.raises(FileExistsError, match="force=True"):
        supac.write_report(result, path)
    supac.write_report(result, path, force=True)


def test_fresh_runs_are_shown_as_they_were_simulated(study: Path) -> None:
    run = supac.read_store(study / "run.supac")
    account = account_of(run)
    assert account.observations is not None
    assert account.fresh is not None
    assert run.parameters is not None
    x = run.parameters.from_latent(np.array([r.x for r in run.made if r.purpose == "validation"]))
    initial, k1, _ = x.T[:, :, None]
    times = account.observations.times
    assert times is not None
    shown = account.fresh[:, : len(times)]
    np.testing.assert_allclose(shown, initial * np.exp(-k1 * times), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("on_failure", ["drop", "penalise"])
def test_fresh_runs_are_known_though_some_failed(tmp_path: Path, on_failure: str) -> None:
    """Also where a failed one does not count, or counts with another risk than the store's."""

    def simulate(x: FloatArray) -> FloatArray:
        if int(1e6 * abs(x[1])) % 5 == 0:  # nowhere in particular
            raise RuntimeError("no")
        return np.array([x[0] - 0.5, 0.1 * x[1]])

    store = tmp_path / "run.supac"
    prior = supac.gaussian(np.zeros(2), np.eye(2))
    model = supac.Composite(simulate, supac.Welsch())
    bound = supac.MaurerLangfordSeeger(n=20, delta=0.05)
    policy = supac.Execution(on_failure=on_failure)  # type: ignore[arg-type]
    result = supac.minimize(model, prior, bound, budget=60, store=store, seed=1, execution=policy)
    run = supac.read_store(store)
    assert run.ending is not None
    by_id = {each.id: each for each in run.runs}
    fresh = [by_id[i] for i in run.ending.fresh]
    assert {each.purpose for each in fresh} == {"validation"}
    good = [each.outputs for each in fresh if each.status is supac.Status.OK]
    assert 1 < len(good) < len(fresh)
    for account in (account_of(result), account_of(run)):
        np.testing.assert_array_equal(account.fresh, np.array(good))


def test_stores_of_version_0_1_tell_fresh_runs(study: Path, tmp_path: Path) -> None:
    """They have the ids of the returned posterior's runs alone, or none."""
    store = tmp_path / "run.supac"
    store.write_bytes((study / "run.supac").read_bytes())
    with sqlite3.connect(store) as db:
        (words,) = db.execute("SELECT value FROM meta WHERE key = 'end'").fetchone()
        end = json.loads(checked(words, tmp_path, "its end"))
        known = [run for each in end.pop("validation") for run in each["ids"]]
        assert len(known) == supac.read_store(study / "run.supac").estimate.validated > 10
        for older, told in (
            ({"fresh": known}, known),
            ({"fresh": known[10:]}, known[10:]),
            ({}, []),
        ):
            text = with_checksum(json.dumps(end | older))
            db.execute("UPDATE meta SET value = ? WHERE key = 'end'", [text])
            db.commit()
            ending = supac.read_store(store).ending
            assert ending is not None
            assert list(ending.fresh) == told


def test_changed_data_are_not_shown(study: Path, tmp_path: Path) -> None:
    for name in ("run.supac", "problem.toml", "data.csv"):
        (tmp_path / name).write_bytes((study / name).read_bytes())
    with (tmp_path / "data.csv").open("a") as file:
        file.write("20,0.0,0.0\n")
    # The store's own folder has other data now; those that it was begun with are where they were.
    told = account_of(supac.read_store(tmp_path / "run.supac")).observations
    assert told is not None
    assert told.rows == 12


def test_unfinished_runs_are_reported(study: Path, tmp_path: Path) -> None:
    def stop(iteration: supac.Iteration) -> None:
        raise KeyError

    problem = supac.read_problem(study / "problem.toml")
    with pytest.raises(KeyError):
        problem.minimize(store=tmp_path / "killed.supac", callback=stop)
    run = supac.read_store(tmp_path / "killed.supac")
    assert run.stop_reason is None
    page = Outline(make_page(account_of(run)))
    assert "do not trust" in page.text
    certificate = problem.certify(run, draws=30)  # of the posterior so far
    assert "With probability" in make_page(account_of(run, certificate=certificate))


def test_a_store_without_a_batch_is_reported(study: Path) -> None:
    """Nothing is known but what was asked, and that runs failed."""
    run = supac.read_store(study / "run.supac")
    bad = replace(run.runs[0], status=supac.Status.CRASHED, risk=np.nan, message="killed")
    mine = replace(run.settings, prior=Named("mine"), bound=Named("mine"))
    empty = supac.Record(mine, None, runs=[bad])
    page = Outline(make_page(account_of(empty)))
    assert "nothing has been learnt yet" in page.text
    assert "killed" in page.text


def test_kl_by_parameter_adds_up() -> None:
    """KL to a product prior is that of the marginals and of what joins them: ½ log 1/(1 − r²)."""
    parameters = supac.Parameters({"a": marginals.Normal(3.0, 2.0), "b": marginals.LogNormal(1, 1)})
    r = 0.8
    posterior = supac.gaussian([0.5, -1.0], np.array([[0.25, 0.05 * r], [0.05 * r, 0.01]]))
    result = supac.minimize(lambda x: 0.0, parameters, supac.Catoni(1.0), budget=40)
    kl = posterior.kl(parameters.prior)
    record = result.record
    assert record.ending is not None
    record.ending = replace(record.ending, posterior=posterior, kl=kl)
    account = account_of(record)
    rows = account.learnt
    assert joint_kl(rows, kl) == pytest.approx(-0.5 * np.log1p(-(r**2)))
    assert [row.width for row in rows] == pytest.approx([0.5, 0.1])
    assert [row.shift for row in rows] == pytest.approx([0.5, -1.0])
    assert rows[0].posterior[1] == pytest.approx(4.0)
    assert rows[1].posterior[1] == pytest.approx(np.exp(-1.0))
    for row in rows:  # densities of x: they hold nearly all of the mass
        for x, height in (row.before, row.after):
            assert 0.97 < np.trapezoid(height, x) < 1.001


def test_the_command_overwrites_nothing(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    words = ["report", str(study / "run.supac"), "-o", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0
    assert "verdict: trust" in done.output
    drawn = supac.read_store(study / "run.supac").estimate.validated
    assert f"the mean true risk of these {drawn} parameter sets" in out.read_text()
    assert CliRunner().invoke(app, words).exit_code == 1
    more = ["--force", "--certificate", str(study / "certificate.json"), "--title", "Ours"]
    assert CliRunner().invoke(app, words + more).exit_code == 0
    assert "<h1>Ours</h1>" in out.read_text()
    wrong = CliRunner().invoke(app, [*words, "--force", "--certificate", str(study / "data.csv")])
    assert wrong.exit_code == 1
    assert "not a certificate" in wrong.output


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"), (1.0, "1"), (0.12345, "0.123"), (-2.5, "−2.5"), (123456.0, "123,456"),
        (1.5e9, "1.5·10⁹"), (2e-7, "2·10⁻⁷"), (np.nan, "–"), (np.inf, "∞"),
    ],
)  # fmt: skip
def test_numbers(value: float, words: str) -> None:
    assert number(value) == words


def test_limits_are_rounded_up() -> None:
    assert at_most(0.60001) == "0.601"
    assert at_most(0.6) == "0.6"
    assert at_most(0.123) == "0.123"
    assert at_most(12.34) == "12.4"


@pytest.mark.parametrize("low", [-3.0, 0.0, 1e-9, 2.5e4])
@pytest.mark.parametrize("width", [1e-9, 0.37, 1.0, 12345.0])
def test_ticks_are_few_and_inside(low: float, width: float) -> None:
    high = low + width
    found = ticks(low, high, 5)
    assert 2 <= len(found) <= 5 or width < 1e-8
    slack = 1e-9 * max(abs(low), abs(high))
    assert all(low - slack <= each <= high + slack for each in found)
    assert len(labels(found)) == len(found)


def test_a_range_has_room() -> None:
    assert span(np.array([1.0, 3.0]), room=0.5) == (0.0, 4.0)
    assert span(np.array([np.nan, 2.0]), zero=True) == pytest.approx((0.0, 2.1))
    assert span(np.array([2.0, 2.0])) == (1.0, 3.0)
    assert span(np.array([np.nan])) == pytest.approx((-0.05, 1.05))


def test_a_guarantee_far_above_the_misfit_is_explained(tmp_path: Path) -> None:
    def simulate(x: FloatArray) -> FloatArray:
        return np.outer([1.0, -1.0, 0.5, 2.0], x).ravel()

    noise = np.random.default_rng(0).normal(size=8)
    data = supac.Observations(("y",), simulate(np.array([0.5, -0.5])) + noise, np.ones(8))
    risk, prior = supac.Composite(simulate, supac.Welsch(), data), supac.gaussian([0, 0], np.eye(2))
    bound = supac.MaurerLangfordSeeger(8, delta=0.05)
    result = supac.minimize(risk, prior, bound, budget=40)
    page = supac.write_report(result, tmp_path / "page.html").read_text()
    assert "The verdict is about the search and its fit to these data" in page
