"""Tables and keys of a problem file: types, meanings, defaults, and the check of a document.

The check of a file and the reference in the documentation are made from these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from dataclasses import Field as DataclassField
from typing import Any

from supac.problem.bounds import Bound
from supac.problem.fields import COVARIANCES
from supac.problem.losses import ResidualLoss
from supac.problem.marginals import Marginal
from supac.problem_file import values
from supac.problem_file.errors import Key, Source, closest, in_toml, suggestion
from supac.problem_file.simulator import Simulator
from supac.problem_file.values import FLAG, NAMES, TEXT, ValueType, integer, one_of, positive
from supac.running.jobs import CLUSTERS

PRIORS: Mapping[str, type[Marginal]] = Marginal.kinds
BOUNDS: Mapping[str, type[Bound]] = Bound.kinds
LOSSES: Mapping[str, type] = ResidualLoss.kinds
_COMMON = {"n", "delta", "ceiling", "unit"}  # fields that are keys of every bound or prior


@dataclass(frozen=True)
class Setting:
    """One key of a table."""

    name: str
    type: ValueType
    meaning: str
    default: str = ""
    """Default in words, for the reference."""
    required: bool = False
    of: tuple[str, ...] = ()
    """Kinds that take this key; empty for all."""

    @property
    def description(self) -> str:
        """Return the meaning, with the kinds that take the key."""
        kinds = ", ".join(f"`{kind}`" for kind in self.of)
        return f"{kinds}: {self.meaning}" if kinds else self.meaning


@dataclass(frozen=True)
class Table:
    """One table of the file."""

    name: str
    meaning: str
    settings: tuple[Setting, ...]
    required: bool = False
    kind: Callable[[Mapping[str, Any]], str] | None = None
    """Return the kind that the values of the table select; "" if they do not."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the keys."""
        return tuple(each.name for each in self.settings)


def shape_of(prior: str) -> tuple[str, ...]:
    """Return the names of the numbers that a prior takes."""
    return tuple(f.name for f in fields(PRIORS[prior]) if f.name not in _COMMON)


def needed_by(prior: str) -> tuple[str, ...]:
    """Return the names of the numbers that a prior cannot do without."""
    needed = {f.name for f in fields(PRIORS[prior]) if f.default is MISSING}
    return tuple(name for name in shape_of(prior) if name in needed)


def _options(kinds: Mapping[str, type]) -> list[Setting]:
    """Return a setting for each option of some classes: their dataclass fields."""
    found: dict[str, tuple[DataclassField[Any], list[str]]] = {}
    for kind, made in kinds.items():
        for each in fields(made) if is_dataclass(made) else ():
            if each.name not in _COMMON:
                takers = found.setdefault(each.name, (each, []))[1]
                takers += [kind] if each.name != kind else []  # a key that selects its kind
    return [_option(each, tuple(takers)) for each, takers in found.values()]


def _option(option: DataclassField[Any], kinds: tuple[str, ...]) -> Setting:
    about = option.metadata
    if not about:
        word = getattr(option.type, "__name__", option.type)
        texts = dict.fromkeys(("str", "str | Any"), TEXT)
        kinds_of = {**texts, "bool": FLAG, "tuple[float, ...]": values.NUMBERS}
        kind = kinds_of.get(str(word), values.NUMBER)
        return Setting(option.name, kind, "", of=kinds)
    kind = about["type"] if "type" in about else positive(about["below"], about["word"])
    default = about["default"]
    if not default and option.default is not None:
        default = in_toml(option.default) if "type" in about else f"{option.default:g}"
    return Setting(option.name, kind, about["meaning"], default, of=kinds)


TITLE = Setting("title", TEXT, "the name of the problem in reports", "the file's name")
_CORRELATED = "which parameters may become correlated: all pairs, none, or those within a list"
_PAIRS = Setting("correlated", values.CORRELATED, _CORRELATED, '"all"')
_SHAPE = Setting(
    "shape", one_of("auto", "gaussian"),
    "a mixture of any shape where that is clearly better than a Gaussian, or a Gaussian", '"auto"'
)  # fmt: skip
POSTERIOR = Table("posterior", "Form of the posterior.", (_PAIRS, _SHAPE))
COARSE = Setting(
    "coarse", values.TABLE,
    "a coarse model of the same outputs, which is searched first: `[simulator.coarse]`", "none",
)  # fmt: skip
DATA = Table(
    "data",
    "Measurements. Without them the simulator returns residuals (given a loss) or the risk. "
    "Several files are several tables `[[data]]`.",
    (
        Setting(
            "file", TEXT, "a table with a header, separated by commas, semicolons or tabs",
            required=True,
        ),
        Setting("observed", NAMES, "the columns that the simulator predicts", required=True),
        Setting("noise", values.NOISE,
                'standard error of a measurement: a number, a column, a share such as "5 %" or '
                '"5 % + 0.02", a parameter, "unknown", or a table of these',
                required=True),
        Setting("scale", values.UNITS,
                "a parameter that what was simulated is multiplied by: it costs no run", "none"),
        Setting("offset", values.UNITS,
                "a parameter that is added to what was simulated: it costs no run", "none"),
        Setting("correlation_time", values.UNITS,
                "a parameter: the time over which errors forget their past (AR(1)); it costs no "
                "run",
                "independent errors"),
        Setting("discrepancy", values.DISCREPANCY,
                "parameters of a smooth difference of the model from the truth beside the noise: "
                'its `amplitude` in the unit of the column and its `length` in time, or "auto"; '
                "`zero_at` and `flat_at`: times at which it, or its slope, is known to be 0",
                "none"),
        Setting("units", values.UNITS,
                "of the observed columns; also read from a header such as `X [g/L]`", "none"),
        Setting("missing", values.MARKS,
                "what stands in the observed columns where nothing was measured, such as "
                '[-9999, "NA"]',
                "empty cells"),
        Setting("after_end", values.AFTER_END,
                "outputs of a run that ends before the data, by NaN or shorter columns: held at "
                "their last value, or a number",
                "a failed run"),
        Setting("name", TEXT, "of the experiment, in reports", "that of the file"),
        Setting("settings", values.SETTINGS,
                "what the simulator is given in this experiment beside the parameters",
                "none"),
        Setting("compare", one_of("difference", "log"),
                "simulated − observed, or the log of their ratio, with `noise = 0.1` for 10 %",
                '"difference"'),
        Setting("time", TEXT, "the column with the times, numbers or dates, if there is one",
                '"time"'),
        Setting("time_unit", one_of("s", "min", "h", "d"), "unit of the times",
                '"d" for dates'),
        Setting("time_format", TEXT,
                'form of the dates, such as "%d.%m.%Y %H:%M", if not 2024-03-01 13:30', "ISO 8601"),
        Setting("start", values.DATE, "the date at which the time is 0",
                "the earliest first row of the files of one run"),
        Setting("test", values.TEST,
                "held out from the search, for a certificate of their own: observed columns, or "
                "the one column that says `test` or `train` of each row, or periods; `[[data]]`: "
                "true for all of the file"),
        Setting("warm_up", values.WARM_UP,
                "rows before this date, or this long after the first row, are simulated and not "
                "compared",
                "none"),
        Setting("blocks", TEXT, "the column with a number for each independent block of rows"),
        Setting("sequential", FLAG,
                "rows may depend on earlier ones; certificates are of the mean conditional risk",
                "false"),
    ),
)  # fmt: skip
RUN = Table(
    "run",
    "Length of the search, and where its runs are stored.",
    (
        Setting("budget", integer(1), "number of runs of the simulator", required=True),
        Setting("seed", integer(0), "same seed, same result", "0"),
        Setting("store", TEXT, "the file in which every run is stored", "the file's name, .supac"),
        Setting("algorithm", one_of("supac", "paper"), "the recommended one, or SuPAC-CE",
                '"supac"'),
        Setting("validation", integer(0), "runs that validate the posterior",
                "a fifth of the budget, or a quarter of it up to 20, at most 60, plus a rest below "
                'one batch; 0 for "paper"'),
        Setting("first", integer(1), "runs of the first batch", "10 to 20"),
        Setting("batch", integer(1), "runs of each further batch",
                "2 or 3 while the posterior moves far, then 4 or 5, or more"),
        Setting("tolerance", positive(),
                "stop when the KL between successive posteriors is below this, such as 1e-3",
                "1e-12: hardly ever"),
        Setting("known", values.KNOWN,
                "runs that were made elsewhere: a table, a store, or an ensemble of another tool"),
        Setting("prior_has_seen_data", FLAG,
                "the priors were made from these data: only held-out data are certified", "false"),
        Setting("earlier_certificates", integer(0),
                "number of certificates on these data that were given elsewhere", "0"),
    ),
    required=True,
)  # fmt: skip
EXECUTION = Table(
    "execution",
    "Where runs are made, and what happens to those that fail.",
    (
        Setting("workers", integer(1), "processes on this machine", "one after the other"),
        Setting("dask", TEXT,
                'the address of a Dask scheduler, such as "tcp://10.0.0.1:8786", or its file'),
        Setting("cluster", one_of(*CLUSTERS),
                "a batch system whose jobs are the workers, at most so many as `workers`"),
        Setting("job", values.TABLE,
                "of `cluster`: `queue`, `account`, `walltime`, `cores`, `memory`, `setup`, "
                "lines of the shell that a job begins with, and all else that dask-jobqueue takes",
                "its own configuration file"),
        Setting("run", values.RUN_OF_TASKS,
                "`tasks` of a run, which `srun` starts in an allocation, and `options` of `srun`",
                "one process"),
        Setting("driver", values.TABLE,
                "of `supac run --submit`: the job of the search itself, with `queue`, `account`, "
                "`walltime`, `cores`, `memory`, `setup` and `directives`", "the queue of `job`"),
        Setting("stop", values.STOP,
                "the signal that ends a run that takes too long, and seconds until it is killed",
                '"TERM 10"'),
        Setting("mode", one_of("batch", "async"), "wait for whole batches, or for no run",
                '"batch"'),
        Setting("timeout", positive(), "seconds after which a run is killed", "none"),
        Setting("retries", integer(0), "attempts to repeat a crashed run", "2"),
        Setting("on_failure", one_of("penalise", "drop", "raise"),
                "a failed run counts as the ceiling or the worst risk seen, whichever is larger, "
                "is left out, or ends the search",
                '"penalise"'),
        Setting("max_failures", values.FRACTION, "the fraction of failed runs that ends the search",
                "0.5"),
    ),
)  # fmt: skip


FIELD = (
    Setting(
        "field",
        values.GRID,
        "a field in place of one parameter: for each axis the number of its points, which are "
        "the centres of equal cells of (0, 1), or their coordinates",
        "one parameter",
    ),
    Setting(
        "length",
        values.LENGTHS,
        "distance over which the values of a field are alike, for all axes or for each",
        "needed with `field`",
    ),
    Setting(
        "covariance",
        one_of(*COVARIANCES),
        "how a field is correlated, from rough to smooth",
        '"matern32"',
    ),
    Setting(
        "nugget",
        values.FRACTION,
        "fraction of a field's variance that is independent from point to point",
        "1e-6",
    ),
)


def parameter_table() -> Table:
    """Return the table of one parameter, with the options of all known priors."""
    prior = Setting("prior", one_of(*PRIORS), "the distribution before the data", required=True)
    unit = Setting("unit", values.ANY_TEXT, "shown with every value", "none")
    meaning = (
        "One table, or one line, per parameter: its prior in your units. A number in its place is "
        'a fixed value, a text a formula: `k2 = 0.4`, `k3 = "2 * k1"`; with a unit, '
        '`k2 = { value = 0.4, unit = "1/h" }` and `k3 = { formula = "2 * k1", unit = "1/h" }`.'
    )
    return Table("parameters.NAME", meaning, (prior, unit, *FIELD, *_options(PRIORS)))


_WITHOUT_PRIOR = Table(
    "parameters.NAME",
    "A parameter that is not sought.",
    (
        Setting("value", values.NUMBER, "the fixed value"),
        Setting("formula", TEXT, "the value as a formula of other parameters"),
        Setting("unit", values.ANY_TEXT, "shown with every value", "none"),
    ),
)


def loss_kind(table: Mapping[str, Any]) -> str:
    """Return the kind of loss, which may be `python`; "" if it is not known."""
    return "python" if "python" in table else _known(table.get("kind", "welsch"), LOSSES)


def bound_kind(table: Mapping[str, Any]) -> str:
    """Return the kind of bound, with a temperature that of Catoni; "" if it is not known."""
    default = "catoni" if "temperature" in table else "maurer-langford-seeger"
    return _known(table.get("kind", default), BOUNDS)


def _known(kind: Any, kinds: Mapping[str, type]) -> str:
    return kind if isinstance(kind, str) and kind in kinds else ""


def tables() -> tuple[Table, ...]:
    """Return every table but [parameters], with the options of all known kinds."""
    *others, last = (f"`{kind}`" for kind in Simulator.kinds)
    simulator = Table(
        "simulator",
        f"The simulator: exactly one of {', '.join(others)} and {last}.",
        (*_options(Simulator.kinds), COARSE),
        required=True,
        kind=Simulator.kind_in,
    )
    loss = Table(
        "loss",
        "From the residuals (simulated − observed)/noise to one risk.",
        (
            Setting("kind", one_of(*LOSSES), "which loss", '"welsch"'),
            *_options(LOSSES),
            Setting("python", values.FUNCTION,
                    "instead of `kind`, a function of your own: residuals (n, m) → risks (n,)"),
        ),
        kind=loss_kind,
    )  # fmt: skip
    bound = Table(
        "bound",
        "The bound that is minimised.",
        (
            Setting("kind", one_of(*BOUNDS), "which bound",
                    '"catoni" with a `temperature`, else "maurer-langford-seeger"'),
            Setting("n", integer(1),
                    "number of *independent* data, for certificates and without `temperature`",
                    "that of `blocks` in [data], where there are some"),
            Setting("delta", positive(1.0), "probability that the guarantee fails", "0.05"),
            Setting("ceiling", positive(),
                    "the largest possible risk; of a mean square, the cap of the loss of a datum",
                    "1, for adm1 3; of a mean square or its root without `n`, that of 3 noises"),
            *_options(BOUNDS),
        ),
        required=True,
        kind=bound_kind,
    )  # fmt: skip
    return POSTERIOR, simulator, DATA, loss, bound, RUN, EXECUTION


def coarse_table(simulator: Mapping[str, Any]) -> Table:
    """Return the table [simulator.coarse] beside this table [simulator]."""
    default = Simulator.kind_in(simulator)
    meaning = (
        "A coarse model of the same parameters and outputs, such as one with a coarse mesh or a "
        "large time step: its keys are in place of those of `[simulator]`, or it is a simulator of "
        "another kind. `{level}` in a command or a template of either is 0 for the fine model, 1 "
        "for the coarse one. [How](levels.md#without-programming)."
    )
    cost = Setting(
        "cost", positive(1.0), "cost of one of its runs in runs of the fine model", "measured"
    )
    return Table(
        "simulator.coarse",
        meaning,
        (cost, *_options(Simulator.kinds)),
        kind=lambda given: Simulator.kind_in(given) or default,
    )


def check(source: Source) -> None:
    """Raise ProblemFileError with an error for each unknown or missing key and wrong value."""
    known = {table.name: table for table in tables()}
    for name, value in source.document.items():
        if name == "title":
            check_value(TITLE, value, (name,), source)
        elif name == "parameters":
            _check_parameters(value, source)
        elif name == "constraints":
            _check_constraints(value, source)
        elif name not in known:
            top = ["title", "parameters", "constraints", *known]
            source.add((name,), _unknown(name, top, None))
        elif isinstance(value, dict):
            check_table(known[name], value, (name,), source)
            if name == "simulator" and isinstance(value.get("coarse"), dict):
                check_table(coarse_table(value), value["coarse"], (name, "coarse"), source)
        elif name == "data" and isinstance(value, list) and all(isinstance(v, dict) for v in value):
            for i, each in enumerate(value):
                check_table(known[name], each, (name, i), source)
        else:
            source.add((name,), f"must be a table: write [{name}] on a line of its own")
    meant = {closest(name, known) for name in source.document if name not in known}
    for table in known.values():
        if table.required and table.name not in {*source.document, *meant}:
            about = table.meaning[0].lower() + table.meaning[1:].rstrip(".")
            source.add((), f"the table [{table.name}] is missing: {about}")
    source.raise_any()


def check_table(table: Table, given: Mapping[str, Any], key: Key, source: Source) -> None:
    """Add an error for each unknown or missing key of a table, and each wrong value."""
    settings = {each.name: each for each in table.settings}
    kind = table.kind(given) if table.kind else ""
    for name, value in given.items():
        setting = settings.get(name)
        if setting is None:
            source.add((*key, name), _unknown(name, table.names, table))
        elif kind and setting.of and kind not in setting.of:
            takers = " and ".join(setting.of)
            source.add((*key, name), f"goes with {takers}, not with {kind}: remove it")
        else:
            check_value(setting, value, (*key, name), source)
    meant = {closest(name, table.names) for name in given if name not in settings}
    for each in table.settings:
        if each.required and each.name not in {*given, *meant}:
            message = f"{each.name} is missing: {each.description}, {each.type.description}"
            source.add(key, message)


def check_value(setting: Setting, value: Any, key: Key, source: Source) -> None:
    """Add an error if a key does not accept a value."""
    message = setting.type.error(value)
    if message:
        about = f" ({setting.description})" if setting.meaning else ""
        source.add(key, f"{message}{about}")


def _check_parameters(value: Any, source: Source) -> None:
    if not isinstance(value, dict):
        example = 'k = { prior = "lognormal", median = 1.0, log_sd = 0.5, unit = "1/h" }'
        source.add(("parameters",), f"must be a table with a line per parameter: {example}")
        return
    for name, prior in value.items():
        key = ("parameters", name)
        if isinstance(prior, dict):
            _check_prior(prior, key, source)
        elif not (values.NUMBER.accepts(prior) or TEXT.accepts(prior)):
            example = f'{name} = {{ prior = "normal", mean = 0.0, sd = 1.0 }}'
            message = f"must be a prior, a number or a formula, not {in_toml(prior)}"
            source.add(key, f"{message}; such as {example}")


def _check_constraints(value: Any, source: Source) -> None:
    if not isinstance(value, dict):
        words = 'must be a table with a line per constraint: order = "k1 < k2"'
        source.add(("constraints",), words)
        return
    for name, rule in value.items():
        message = TEXT.error(rule)
        if message:
            source.add(("constraints", name), f"{message} (such as k1 < k2)")


def _check_prior(entry: Mapping[str, Any], key: Key, source: Source) -> None:
    """Check one parameter: each prior takes certain numbers and no others."""
    prior, table = entry.get("prior"), parameter_table()
    if "prior" not in entry and {"value", "formula"} & set(entry):
        check_table(_WITHOUT_PRIOR, entry, key, source)
        if {"value", "formula"} <= set(entry):
            source.add((*key, "formula"), "goes without value: keep one of them")
        return
    if not isinstance(prior, str) or prior not in PRIORS:
        check_table(table, entry, key, source)
        return
    takes = shape_of(prior) + (("length",) if "field" in entry else ())
    names = tuple(each.name for each in FIELD)
    allowed = ("prior", "unit", *takes, *(names if "field" in entry else ()))
    words = f"{prior} takes {', '.join(takes)}"
    needed = (*needed_by(prior), *takes[len(shape_of(prior)) :])
    for setting in table.settings:
        if setting.name in allowed and setting.name in entry:
            check_value(setting, entry[setting.name], (*key, setting.name), source)
    others = [name for name in entry if name not in allowed]
    for name in others:
        alone = "goes with field: remove it, or add field = [20, 10] for a grid of 20 by 10 points"
        close = suggestion(name, allowed)
        told = alone if name in names else f"{words}, not {name}{close}"
        source.add((*key, name), told)
    meant = {closest(name, allowed) for name in others}
    missing = [name for name in needed if name not in {*entry, *meant}]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        source.add(key, f"{words}: {' and '.join(missing)} {verb} missing")


def _unknown(name: str, known: Sequence[str], table: Table | None) -> str:
    """Return the message for an unknown key: a similar one, its own table, or all known keys."""
    where = "at the top of the file" if table is None else f"in [{table.name}]"
    others = [each.name for each in tables() if name in each.names]
    close = suggestion(name, known)
    if others and not close:
        return f"is not known {where}; it belongs in [{others[0]}]"
    return f"is not known {where}{close or '; known are ' + ', '.join(known)}"
