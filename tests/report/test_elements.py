"""Pieces of a page: whatever comes from elsewhere is escaped, whatever we wrote is not."""

from __future__ import annotations

import pytest

import supac
from supac.record.parameter_change import parameter_changes
from supac.report import figures
from supac.report.elements import Markup, code, facts, figure, fill, items, prose, section, table
from supac.report.words import count_of, escape, listed, number, percent, with_range

EVIL = '<script>"&\x1b\x00'
SAFE = "&lt;script&gt;&quot;&amp;␛␀"


def test_texts_of_others_are_escaped_everywhere() -> None:
    pieces = [
        section("failures", words=EVIL, table=Markup("<p>ours</p>")),
        table(EVIL, [EVIL], [[EVIL, EVIL]]),
        facts([(EVIL, EVIL)]),
        figure(Markup("<svg/>"), EVIL),
        items([EVIL]),
        fill("<p>$words</p>", words=EVIL),
        code(EVIL, EVIL),
    ]
    for piece in pieces:
        assert "<script>" not in piece
        assert SAFE in piece
    assert escape(EVIL) == SAFE
    assert "<p>ours</p>" in pieces[0]


def test_commands_in_a_text_are_set_as_code() -> None:
    assert prose(f"Run `supac show` {EVIL}.") == f"Run <code>supac show</code> {SAFE}."
    assert prose("a ` alone") == "a ` alone"


def test_a_line_of_a_section_that_is_empty_is_left_out() -> None:
    assert section("failures", words="None.", table="").endswith("<p>None.</p>\n</section>")


def test_our_own_markup_is_left_as_it_is() -> None:
    assert items([Markup("<b>bold</b>")]) == "<ul><li><b>bold</b></li></ul>"


def test_a_table_names_its_rows_and_columns() -> None:
    made = table("Runs", ["name", "risk"], [["first", 1], ["second", 2]], numbers=[1])
    assert made.count('<th scope="col"') == 2
    assert made.count('<th scope="row"') == 2
    assert made.count('<td class="number"') == 2
    assert "<caption>Runs</caption>" in made


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (number(float("nan")), "–"),
        (number(-float("inf")), "\N{MINUS SIGN}∞"),
        (number(-1.5e-7), "\N{MINUS SIGN}1.5·10⁻⁷"),
        (number(12_345.6), "12,346"),
        (with_range((1e-7, 2e-7, 3e-7)), "2 (1 to 3)·10⁻⁷"),
        (with_range((0.5, 1.0, 2.0)), "1 (0.5 to 2)"),
        (with_range((4e-10, 7e-8, 1.2e-3)), "7·10⁻⁸ (4·10⁻¹⁰ to 0.0012)"),
        (percent(0.05), "5.0 %"),
        (percent(0.95), "95 %"),
        (count_of(1, "run", "runs"), "1 run"),
        (count_of(2_000, "run", "runs"), "2,000 runs"),
        (listed(["a", "b", "c"]), "a, b and c"),
        (listed(["a"]), "a"),
    ],
)
def test_numbers_and_lists_in_words(said: str, words: str) -> None:
    assert said == words


def test_a_prior_of_many_decades_is_drawn_over_its_logarithm() -> None:
    parameters = supac.Parameters(
        {"k": supac.marginals.LogUniform(1e-5, 1e5), "p": supac.marginals.LogNormal(1.0, 0.5)}
    )
    rows = parameter_changes(parameters.prior, parameters.prior, parameters)
    wide, narrow = (figures.marginal(row, i) for i, row in enumerate(rows))
    assert "10⁰" in wide
    assert "10⁻" not in narrow
