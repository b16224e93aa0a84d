"""Autoregressive errors and a discrepancy of the model, in problem files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import supac
from supac.posterior.observed import as_calibrated
from supac.posterior.outputs import Outputs
from supac.problem.columns import ColumnLoss
from supac.problem.correlated import Autoregressive, Discrepancy
from supac.problem.observation import ObservationLoss
from supac.problem_file import make_problem
from supac.problem_file.reader import check_compatible
from supac.report import Level, account_of, assess

TEXT = """
[parameters]
k = {{ prior = "normal", mean = 1.0, sd = 0.5 }}
{parameters}
[simulator]
python = "f:f"
arguments = "names"
[data]
file = "d.csv"
observed = ["X", "S"]
noise = 0.1
{data}
[bound]
temperature = 0.05
[run]
budget = 30
"""
TAU = 'tau = { prior = "lognormal", median = 2.0, log_sd = 0.7 }'
TWO = """a = { prior = "halfnormal", scale = 0.3 }
length = { prior = "lognormal", median = 2.0, log_sd = 0.7 }"""


def made(
    folder: Path,
    parameters: str,
    data: str,
    *,
    rows: int = 10,
    times: bool = True,
    n: int | None = None,
) -> object:
    lines = "\n".join(f"{i},{i + 0.1 * (-1) ** i},{2 * i}" for i in range(rows))
    (folder / "d.csv").write_text(f"{'time' if times else 'row'},X,S\n{lines}\n")
    (folder / "f.py").write_text(
        f"def f(k):\n    return {{'X': [k * i for i in range({rows})], "
        f"'S': [2 * k * i for i in range({rows})]}}\n"
    )
    text = TEXT.format(parameters=parameters, data=data)
    text = text if n is None else text.replace("[bound]", f"[bound]\nn = {n}\ndelta = 0.05")
    return make_problem(text, folder / "problem.toml")


def errors_of(ready: object) -> object:
    assert isinstance(ready, supac.ProblemFile)
    loss = getattr(ready.risk, "loss", None)
    assert isinstance(loss, ObservationLoss)
    assert isinstance(loss.loss, ColumnLoss)
    return loss.loss.errors


def test_a_correlation_time_makes_errors_autoregressive(tmp_path: Path) -> None:
    """The posterior is over it, too, and no run is made for it."""
    ready = made(tmp_path, TAU, 'correlation_time = "tau"')
    errors = errors_of(ready)
    assert isinstance(errors, Autoregressive)
    assert errors.series.tolist() == [0] * 10 + [1] * 10
    assert isinstance(ready, supac.ProblemFile)
    result = ready.minimize(budget=20)
    assert result.parameters is not None
    assert result.parameters.names == ("k", "tau")
    assert result.certificate is None
    with pytest.raises(ValueError, match="depend on each other, n measurements are not n indep"):
        result.certify(ready.risk, n=20, delta=0.05)


def test_a_bound_that_counts_data_is_refused_with_the_reason(tmp_path: Path) -> None:
    for parameters, data in ((TAU, 'correlation_time = "tau"'), ("", 'discrepancy = "auto"')):
        with pytest.raises(supac.ProblemFileError, match=r"not n independent data.* blocks that"):
            made(tmp_path, parameters, data, n=20)


def test_it_may_be_that_of_one_column(tmp_path: Path) -> None:
    errors = errors_of(made(tmp_path, TAU, 'correlation_time = { S = "tau" }'))
    assert isinstance(errors, Autoregressive)
    assert errors.memories.tolist() == [-1] * 10 + [0] * 10


def test_a_discrepancy_has_an_amplitude_and_a_length(tmp_path: Path) -> None:
    data = 'discrepancy = { amplitude = { X = "a" }, length = "length", covariance = "matern32" }'
    errors = errors_of(made(tmp_path, TWO, data))
    assert isinstance(errors, Discrepancy)
    assert errors.covariance == "matern32"
    assert errors.amplitudes.tolist() == [0] * 10 + [-1] * 10


def test_an_automatic_discrepancy_has_usual_priors(tmp_path: Path) -> None:
    ready = made(tmp_path, "", 'discrepancy = "auto"')
    assert isinstance(ready, supac.ProblemFile)
    names = ("k", "discrepancy_length", "discrepancy_X", "discrepancy_S")
    assert ready.parameters.names == names
    medians = ready.parameters.from_latent(np.zeros((1, 4)))[0]
    assert medians[1] == pytest.approx(9.0 / 5.0)
    spread = np.array([i + 0.1 * (-1) ** i for i in range(10)]).std()
    assert medians[2] == pytest.approx(0.1 * spread)
    assert isinstance(errors_of(ready), Discrepancy)


def test_what_is_known_of_a_discrepancy_is_a_setting(tmp_path: Path) -> None:
    """With the usual priors, or with one's own."""
    known = "zero_at = [0.0], flat_at = [0.0, 3]"
    errors = errors_of(made(tmp_path, "", f"discrepancy = {{ {known} }}"))
    assert isinstance(errors, Discrepancy)
    assert (errors.zero_at, errors.flat_at) == ((0.0,), (0.0, 3.0))
    assert errors.amplitudes.tolist() == [1] * 10 + [2] * 10
    data = f'discrepancy = {{ amplitude = "a", length = "length", {known} }}'
    errors = errors_of(made(tmp_path, TWO, data))
    assert isinstance(errors, Discrepancy)
    assert errors.flat_at == (0.0, 3.0)


@pytest.mark.parametrize(
    ("parameters", "data", "words"),
    [
        ("", 'discrepancy = { zero_at = "0" }', "zero_at and flat_at, lists of times"),
        (
            "",
            'discrepancy = { flat_at = [0.0], covariance = "exponential" }',
            "flat_at needs one of .* exponential has no slopes",
        ),
        ("", 'correlation_time = "tau"', "correlation_time: tau is no parameter"),
        (
            'tau = { prior = "normal", mean = 1, sd = 1 }',
            'correlation_time = "tau"',
            "may be negative, but is a correlation_time",
        ),
        (
            f"{TAU}\n{TWO}",
            'correlation_time = "tau"\ndiscrepancy = { amplitude = "a", length = "length" }',
            "goes without discrepancy",
        ),
        (TWO, 'discrepancy = { amplitude = "a" }', 'must be "auto", or a table: two parameters'),
        (TAU, 'correlation_time = "tau"\n[loss]\nkind = "welsch"', 'needs kind = "likelihood"'),
    ],
)
def test_what_cannot_be_is_told(parameters: str, data: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(supac.ProblemFileError, match=words):
        made(tmp_path, parameters, data)


def test_they_need_times_and_a_discrepancy_few_data(tmp_path: Path) -> None:
    with pytest.raises(supac.ProblemFileError, match="needs times"):
        made(tmp_path, TAU, 'correlation_time = "tau"', times=False)
    data = 'discrepancy = { amplitude = "a", length = "length", covariance = "matern32" }'
    with pytest.raises(supac.ProblemFileError, match=r"has 310 measurements, .* at most 300"):
        made(tmp_path, TWO, data, rows=310)


def test_a_guarantee_is_refused_with_the_reason(tmp_path: Path) -> None:
    ready = TEXT.format(parameters=TAU, data='correlation_time = "tau"')
    made(tmp_path, TAU, 'correlation_time = "tau"')
    with pytest.raises(supac.ProblemFileError, match="nothing can be guaranteed for n data"):
        make_problem(ready.replace("temperature = 0.05", "n = 20"), tmp_path / "problem.toml")


def test_errors_that_are_taken_for_correlated_are_not_doubted_for_it(tmp_path: Path) -> None:
    ready = made(tmp_path, TAU, 'correlation_time = "tau"', rows=12)
    assert isinstance(ready, supac.ProblemFile)
    run = account_of(ready.minimize(budget=30))
    assert run.correlated_errors
    told = next(c for c in assess(run).checks if c.question == "Are the residuals like noise?")
    assert told.level is Level.TRUST
    assert "They need not be independent" in told.answer


def test_predictions_with_a_discrepancy_have_no_bands_of_measurements(tmp_path: Path) -> None:
    data = 'discrepancy = { amplitude = "a", length = "length" }'
    for parameters, text, known in ((TWO, data, False), (TAU, 'correlation_time = "tau"', True)):
        ready = made(tmp_path, parameters, text)
        assert isinstance(ready, supac.ProblemFile)
        result = ready.minimize(budget=20, store=tmp_path / f"{known}.supac")
        assert ready.observations is not None
        table = as_calibrated(Outputs.of_data(ready.observations), result.record)
        assert (table.noise is not None) == known


def test_a_store_with_missing_measurements_is_of_the_same_problem(tmp_path: Path) -> None:
    """The measurements are a part of the loss, and NaN does not equal itself."""
    made(tmp_path, TAU, 'correlation_time = "tau"\nmissing = "NA"', rows=6)
    table = tmp_path / "d.csv"
    table.write_text(table.read_text().replace("3,2.9,6", "3,NA,6"))
    text = TEXT.format(parameters=TAU, data='correlation_time = "tau"\nmissing = "NA"')
    (tmp_path / "problem.toml").write_text(text.replace("budget = 30", "budget = 12\nfirst = 6"))
    ready = supac.read_problem(tmp_path / "problem.toml")
    ready.minimize(store=tmp_path / "run.supac")
    assert check_compatible(ready, supac.read_store(tmp_path / "run.supac")) == []
