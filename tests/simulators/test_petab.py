from __future__ import annotations

import pickle
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import petab_example as example
import supac
from extras import needs
from supac import marginals
from supac.codec import from_spec, to_spec
from supac.simulators import petab
from supac.simulators.petab.formulas import formula, split

needs("roadrunner", "petab")
REFERENCE = Path(__file__).parents[3] / "shared" / "reference" / "petab"
PUBLISHED = {
    "Boehm_JProteomeRes2014": 138.2220,
    "Crauste_CellSystems2017": 190.965,
    "Fiedler_BMCSystBiol2016": -58.5839,
    "Bruno_JExpBot2016": -46.6882,
    "Zheng_PNAS2012": -278.3335,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return example.write(tmp_path)


def replace(path: Path, old: str, new: str, count: int = 1) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, count))


def test_the_likelihood_is_that_of_the_closed_form(path: Path) -> None:
    problem = petab.load(path)
    assert problem.parameters.names == ("k", "p", "scale", "sd")
    for factors in ((1.0, 1.0, 1.0, 1.0), (1.3, 0.8, 1.1, 2.0)):
        x = np.array(list(example.TRUTH.values())) * factors
        exact = example.negative_log_likelihood(*x)
        assert problem.negative_log_likelihood(x) == pytest.approx(exact, abs=1e-5)
    assert problem.nominal == pytest.approx(list(example.TRUTH.values()))
    assert problem.bound.temperature == 1.0 / 16


def test_runs_do_not_depend_on_those_before(path: Path) -> None:
    simulate = petab.load(path).risk.simulate
    first = simulate(np.array([0.4, 2.0, 3.0, 0.1]))
    simulate(np.array([4.0, 20.0, 1.0, 0.1]))
    assert np.array_equal(simulate(np.array([0.4, 2.0, 3.0, 0.1])), first)


def test_the_simulator_is_built_anew_in_each_process(path: Path) -> None:
    simulate = petab.load(path).risk.simulate
    x = np.array([0.4, 2.0, 3.0, 0.1])
    here = simulate(x)
    there = pickle.loads(pickle.dumps(simulate))
    for each in path.parent.iterdir():  # which another machine need not have
        each.unlink()
    assert np.array_equal(there(x), here)


def test_which_parameters_need_no_run(path: Path) -> None:
    assert petab.load(path).observation_parameters == ("scale", "sd")


FORMULAS = {  # of the observable `logged` and its noise: the observation parameters, and the terms
    "as it is": ("observableParameter1_logged*A", "noiseParameter1_logged", ("scale", "sd"), 16),
    "offset": ("1+2*observableParameter1_logged*(A+k)/p+sd", "sd/scale", ("scale", "sd"), 16),
    "noise of the value": ("scale*A", "sd+0.1*sd*logged", ("scale", "sd"), 16),
    "noise of the model": ("scale*A", "sd*sqrt(A)*k", ("scale", "sd"), 24),
    "another function of sd": ("scale*A", "exp(sd)", ("scale",), 17),
    "another function of both": ("log10(1+scale*A*exp(sd))", "sd", (), None),
}


@pytest.mark.parametrize("case", FORMULAS)
def test_observation_parameters_are_combined_with_what_is_simulated(path: Path, case: str) -> None:
    """The risk is the same as if all were simulated."""
    value, noise, own, terms = FORMULAS[case]
    table = path.parent / "observables.tsv"
    replace(table, "observableParameter1_logged*A\tnoiseParameter1_logged", f"{value}\t{noise}")
    measured = path.parent / "measurements.tsv"
    words = measured.read_text()
    words = words if "observableParameter" in value else words.replace("\tscale\tsd", "\t\tsd")
    measured.write_text(words if "Parameter1" in noise else words.replace("\tsd\n", "\t\n"))
    problem = petab.load(path)
    assert problem.observation_parameters == own
    plain = petab.load(path, observation=False)
    assert plain.observation_parameters == ()
    if terms is not None:
        simulate = problem.risk.simulate.simulate  # type: ignore[attr-defined]
        assert len(simulate(problem.nominal[: -len(own)])) == terms
    x = plain.parameters.sample(plain.parameters.prior, 5, 1)
    order = [plain.parameters.names.index(name) for name in problem.parameters.names]
    for each in x:
        assert problem.risk(each[order]) == pytest.approx(plain.risk(each), rel=1e-8)


def test_observation_parameters_are_last(path: Path) -> None:
    table = path.parent / "parameters.tsv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")
    problem = petab.load(path)
    assert problem.parameters.names == ("p", "k", "sd", "scale")
    assert petab.load(path, observation=False).parameters.names == ("sd", "scale", "p", "k")
    exact = example.negative_log_likelihood(**example.TRUTH)
    assert problem.negative_log_likelihood(problem.nominal) == pytest.approx(exact, abs=1e-5)


def test_searches_of_many_simulated_parameters_declare_none(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supac.simulators.petab.problem._MOST_SIMULATED", 1)
    assert petab.load(path).observation_parameters == ()
    assert petab.load(path, observation=True).observation_parameters == ("scale", "sd")


def test_something_is_simulated(path: Path) -> None:
    problem = petab.load(path, priors={"scale": marginals.LogNormal(2.0, 0.5)})
    assert problem.observation_parameters == ()


def test_combined_measurements_are_shown_as_what_was_measured(path: Path) -> None:
    problem, plain = petab.load(path), petab.load(path, observation=False)
    data = from_spec(to_spec(problem.risk.data))
    x = problem.parameters.sample(problem.parameters.prior, 3, 0)
    seen, drawn = data.table(np.array([problem.risk.simulate(each) for each in x]))
    expected, simulated = plain.measurements.table(np.array([plain.risk.simulate(e) for e in x]))
    assert simulated is not None
    np.testing.assert_allclose(drawn, simulated, rtol=1e-6)
    np.testing.assert_allclose(seen.noise, expected.noise, rtol=1e-6)
    np.testing.assert_array_equal(seen.values, expected.values)


def test_priors_are_uniform_on_their_scales_between_the_bounds(path: Path) -> None:
    priors = petab.load(path).parameters.marginals
    assert priors["k"] == marginals.LogUniform(0.01, 10.0)
    assert priors["scale"] == marginals.LogUniform(0.1, 30.0)
    replace(path.parent / "parameters.tsv", "k\tlog10", "k\tlin")
    assert petab.load(path).parameters.marginals["k"] == marginals.Uniform(0.01, 10.0)


@pytest.mark.parametrize(
    ("kind", "numbers", "base"),
    [
        ("parameterScaleNormal", "-0.5;0.2", marginals.LogNormal(10**-0.5, 0.2 * np.log(10.0))),
        ("logNormal", "-1;0.5", marginals.LogNormal(np.exp(-1.0), 0.5)),
        ("normal", "1;2", marginals.Normal(1.0, 2.0)),
        ("laplace", "1;2", marginals.Laplace(1.0, 2.0)),
        ("parameterScaleLaplace", "0;1", marginals.LogLaplace(1.0, np.log(10.0))),
    ],
)
def test_priors_of_the_file(path: Path, kind: str, numbers: str, base: marginals.Marginal) -> None:
    table = path.parent / "parameters.tsv"
    replace(table, "estimate\n", "estimate\tobjectivePriorType\tobjectivePriorParameters\n")
    replace(table, "0.4\t1\n", f"0.4\t1\t{kind}\t{numbers}\n")
    prior = petab.load(path).parameters.marginals["k"]
    assert isinstance(prior, marginals.Truncated)
    assert (prior.lower, prior.upper) == (0.01, 10.0)
    x = np.array([0.05, 1.0, 9.0])
    assert prior.base.log_prob(x) == pytest.approx(base.log_prob(x))


def test_priors_given_in_python_choose_what_is_calibrated(path: Path) -> None:
    problem = petab.load(path, priors={"p": marginals.LogNormal(2.0, 0.5)})
    expected = example.negative_log_likelihood(**{**example.TRUTH, "p": 2.2})
    assert problem.negative_log_likelihood(np.array([2.2])) == pytest.approx(expected, abs=1e-5)
    with pytest.raises(petab.PEtabError, match=r"kk is not in parameters.tsv.*did you mean k\?"):
        petab.load(path, priors={"kk": marginals.Normal(0.0, 1.0)})


def test_noise_that_depends_on_the_simulation(path: Path) -> None:
    replace(path.parent / "observables.tsv", "noiseParameter1_shifted", "0.1+0.3*shifted")
    table = path.parent / "measurements.tsv"
    table.write_text(table.read_text().replace(f"\t\t{example.KNOWN_NOISE}\n", "\t\t\n"))
    problem = petab.load(path, observation=False)
    data, x = problem.measurements, problem.nominal
    outputs = problem.risk.simulate(x)
    rows = np.flatnonzero(data.series == data.series[1])
    levels = outputs[data.measured + data.levels[rows]]
    assert levels == pytest.approx(0.1 + 0.3 * outputs[rows])


def test_version_2_of_the_same_problem(path: Path, tmp_path: Path) -> None:
    convert = pytest.importorskip("petab.v2.petab1to2").petab1to2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        convert(str(path), str(tmp_path / "two"))
    # The converter forgets logarithms; those to the base ten are none of version 2.
    observables = tmp_path / "two" / "observables.tsv"
    replace(
        observables, "noiseParameter1_logged\t\t", "noiseParameter1_logged*ln(10)\tlog-normal\t"
    )
    problem = petab.load(tmp_path / "two" / "problem.yaml")
    x = np.array(list(example.TRUTH.values())) * 1.1
    exact = example.negative_log_likelihood(*x)
    assert problem.negative_log_likelihood(x) == pytest.approx(exact, abs=1e-5)


def test_version_2_has_experiments_of_several_periods(path: Path, tmp_path: Path) -> None:
    convert = pytest.importorskip("petab.v2.petab1to2").petab1to2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        convert(str(path), str(tmp_path / "two"))
    experiments = tmp_path / "two" / "experiments.tsv"
    with experiments.open("a") as file:
        file.write("experiment____plain\tafter\t2.0\n")
    problem = petab.load(tmp_path / "two" / "problem.yaml", observation=False)
    data = problem.measurements
    outputs = problem.risk.simulate(np.array([0.4, 2.0, 1.0, 0.1]))
    first = [i for i, name in enumerate(data.names) if name == "logged (experiment____plain)"]
    there = np.flatnonzero(np.isin(data.series, first))
    grown = example.simulated("plain", 0.4, 2.0)
    assert data.times[there].tolist() == list(example.TIMES)
    expected = [*grown[:3], grown[2] * np.exp(-0.4 * 3.0)]
    assert outputs[there] == pytest.approx(expected, rel=1e-6)


WRONG_2 = [
    ("experiments.tsv", "plain\t0.0", "plain\t3.0",
     "measurements.tsv, line 2, column time: 0 is before 3, where the simulation begins"),
    ("experiments.tsv", "\tplain", "\tplane", "experiments.tsv, line 4, column conditionId: plane"),
    ("experiments.tsv", "plain\t0.0", "plain\tx", "experiments.tsv, line 4, column time: "),
    ("conditions.tsv", "\ton\t", "\tonn\t", "conditions.tsv, line 2, column targetId: onn is"),
    ("conditions.tsv", "\tstart", "\tstrat", "line 5, column targetValue: strat is not in"),
    ("measurements.tsv", "____plain", "____plan", "measurements.tsv, line 2, column experiment"),
    ("parameters.tsv", "true", "yes", "line 2, column estimate: yes is not true or false"),
    ("problem.yaml", "sbml", "bngl", "problem.yaml: the model must be in SBML, not in bngl"),
    ("observables.tsv", "\tnoiseParameter1_shifted\n", "\tnoiseParameter1_shiftd\n",
     "observables.tsv, line 3, column noiseFormula: noiseParameter1_shifted is neither in"),
]  # fmt: skip


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same problem in version 2."""
    convert = pytest.importorskip("petab.v2.petab1to2").petab1to2
    folder = tmp_path_factory.mktemp("second")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        convert(str(example.write(folder)), str(folder / "two"))
    return folder / "two"


@pytest.mark.parametrize(("file", "old", "new", "words"), WRONG_2)
def test_wrong_files_of_version_2_are_named_with_line_and_fix(
    second: Path, tmp_path: Path, file: str, old: str, new: str, words: str
) -> None:
    shutil.copytree(second, tmp_path, dirs_exist_ok=True)
    replace(tmp_path / file, old, new)
    with pytest.raises(petab.PEtabError) as caught:
        petab.load(tmp_path / "problem.yaml")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("problem.yaml", "format_version: 1", "format_version: 7", "problem.yaml: format_version"),
        ("problem.yaml", "[model.xml]", "[model.xml", "problem.yaml, line"),
        ("problem.yaml", "parameter_file", "parameter_fil", "did you mean parameter_fil?"),
        ("problem.yaml", "model.xml", "modle.xml", "did you mean model.xml?"),
        ("model.xml", "</listOfRules>", "", "model.xml, line"),
        ("parameters.tsv", "lowerBound", "lower", "line 1: there is no column lowerBound"),
        ("parameters.tsv", "0.01\t10\t0.4", "0,01\t10\t0.4", "parameters.tsv, line 2, column low"),
        ("parameters.tsv", "0.01\t10\t0.4", "20\t10\t0.4", "must be below upperBound 10"),
        ("parameters.tsv", "0.01\t10\t0.4", "0\t10\t0.4", "raise it, or use lin"),
        ("parameters.tsv", "p\tlog10", "k\tlog10", "line 3, column parameterId: k is in param"),
        ("parameters.tsv", "scale\tlog", "scale\tln", "line 5, column parameterScale: ln is not"),
        ("parameters.tsv", "lin\t0\t10\t1.5", "lin\t0\t10\t", "line 4, column nominalValue"),
        ("conditions.tsv", "\ton\t", "\tonn\t", "conditions.tsv, line 1: onn is not in the model"),
        ("conditions.tsv", "\tstart", "\tstrat", "conditions.tsv, line 2, column a0: strat is"),
        ("conditions.tsv", "on\ta0", "on\tk", "conditions.tsv, line 1: k is in parameters.tsv"),
        ("observables.tsv", "+offset", "+ofset", "ofset is neither in the model nor in the param"),
        ("observables.tsv", "+offset", "+*offset", "observables.tsv, line 3, column observableFo"),
        ("measurements.tsv", "shifted\t", "shiftet\t", "measurements.tsv, line 3, column observ"),
        ("measurements.tsv", "\tplain\t", "\tplane\t", "plane is not a condition; did you mean"),
        ("measurements.tsv", "scale\tsd", "scale\tsdd", "line 2, column noiseParameters: sdd is"),
        ("measurements.tsv", "scale\tsd", "scale\tsd;2", "2 values, but noiseFormula of logged"),
        ("measurements.tsv", "\t\t0.2", "\t\t-0.2", "line 3, column noiseParameters: the noise is"),
        ("measurements.tsv", "noiseParameters", "noiseParameter", "did you mean noiseParameters?"),
        ("measurements.tsv", "noiseParameters", "time", "line 1: there are two columns time"),
        ("measurements.tsv", "\ttime\t", "\ttme\t", "line 1: there is no column time"),
        ("measurements.tsv", "scale\tsd", "scale\tsd\t", "line 2: 8 cells, but the header has 7"),
        ("measurements.tsv", "\t0.0\tscale", "\t-1\tscale", "line 2, column time: -1 is before 0"),
        ("parameters.tsv", "k\tlog10", "kk\tlog10", "line 2, column parameterId: kk is neither in"),
        ("parameters.tsv", "parameterId", "parameterId name", "there is no column parameterId"),
        ("observables.tsv", "+offset", "+foo(offset)", "cannot be read: Unknown function: foo"),
        ("model.xml", "<ci>k</ci>", "<ci>kk</ci>", "uses 'kk' that is not the id of a species"),
        ("model.xml", 'compartment="', 'compartment="x', "refers to the compartment 'x"),
    ],
)
def test_wrong_files_are_named_with_line_and_fix(
    path: Path, file: str, old: str, new: str, words: str
) -> None:
    replace(path.parent / file, old, new)
    with pytest.raises(petab.PEtabError) as caught:
        petab.load(path)
    assert words in str(caught.value)


def test_a_noise_formula_without_parameters_is_the_one_to_mend(path: Path) -> None:
    replace(path.parent / "observables.tsv", "noiseParameter1_shifted", "-0.1")
    table = path.parent / "measurements.tsv"
    table.write_text(table.read_text().replace(f"\t\t{example.KNOWN_NOISE}\n", "\t\t\n"))
    words = r"^observables.tsv, line 3, column noiseFormula: the noise is -0.1, but must be above 0"
    with pytest.raises(petab.PEtabError, match=words):
        petab.load(path)


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("problem.yaml", b"", "problem.yaml: a PEtab problem is a mapping"),
        ("measurements.tsv", b"", "measurements.tsv is empty"),
        (
            "measurements.tsv",
            b"a\tb\nm\xfcll",
            "measurements.tsv, line 2: this is not text in UTF-8",
        ),
        ("parameters.tsv", b"parameterId estimate\n", "line 1: columns must be separated by tabs"),
        ("model.xml", b" \n", "model.xml is empty"),
        ("model.xml", b"<?xml version='1.0' encoding='UTF-8'?>\n<html/>", "model.xml, line 2: "),
        ("problem.yaml", b"\xff", "problem.yaml, line 1: this is not text in UTF-8"),
    ],
)
def test_what_is_no_file_of_petab_is_told(
    path: Path, file: str, content: bytes, words: str
) -> None:
    (path.parent / file).write_bytes(content)
    with pytest.raises(petab.PEtabError) as caught:
        petab.load(path)
    assert words in str(caught.value)


def test_a_failed_integration_is_a_failed_run(path: Path) -> None:
    replace(
        path.parent / "model.xml",
        "<ci>k</ci><ci>A</ci>",
        "<ci>k</ci><apply><exp/><ci>A</ci></apply>",
    )
    simulate = petab.load(path).risk.simulate
    with pytest.raises(petab.SimulationError, match=r"^the integrator failed in (plain|after): CV"):
        simulate(np.array([1e-9, 1e9, 1.0, 0.1]))


def test_truncated_and_laplace_priors_have_their_densities() -> None:
    u = np.linspace(-4.0, 4.0, 41)
    cases: list[tuple[marginals.Marginal, object]] = [
        (marginals.Truncated(marginals.Normal(1.0, 2.0), 0.0, 2.5),
         stats.truncnorm(-0.5, 0.75, loc=1.0, scale=2.0)),
        (marginals.Truncated(marginals.Normal(0.0, 1.0), 6.0, 9.0), stats.truncnorm(6.0, 9.0)),
        (marginals.Laplace(1.0, 2.0), stats.laplace(1.0, 2.0)),
        (marginals.LogLaplace(3.0, 0.5), stats.loglaplace(c=2.0, scale=3.0)),
    ]  # fmt: skip
    for prior, expected in cases:
        x = prior.from_latent(u)
        assert prior.to_latent(x) == pytest.approx(u, abs=1e-6)
        assert expected.cdf(x) == pytest.approx(stats.norm.cdf(u), abs=1e-9)  # type: ignore[attr-defined]
        assert prior.log_prob(x) == pytest.approx(expected.logpdf(x), abs=1e-6)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_search_finds_the_parameters(path: Path) -> None:
    problem = petab.load(path)
    result = supac.minimize(problem.risk, problem.parameters, problem.bound, budget=40, seed=3)
    draws = problem.parameters.sample(result.posterior, 2_000, 0)
    truth = np.array(list(example.TRUTH.values()))
    spread = np.log(draws).std(axis=0)
    assert (np.abs(np.log(draws).mean(axis=0) - np.log(truth)) < 3.5 * spread).all()
    assert (spread < 0.5).all()


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_likelihoods(name: str) -> None:
    path = REFERENCE / name / f"{name}.yaml"
    if not path.exists():
        pytest.skip(f"the PEtab collection is not at {REFERENCE}")
    problem = petab.load(path)
    nll = problem.negative_log_likelihood(problem.nominal)
    assert nll == pytest.approx(PUBLISHED[name], abs=1e-3)


def test_a_formula_of_many_summands_is_not_expanded() -> None:
    """Its parameters are simulated like others: expanding it would take minutes."""
    long = formula("(s*A + s*B + o)^40 * (s + A)^30").expression
    found = split(long, ("s", "o"))
    assert found.odd == {"s", "o"}
    short = split(formula("s*(A + B) + o").expression, ("s", "o"))
    assert not short.odd
    assert len(short.parts) == 2
