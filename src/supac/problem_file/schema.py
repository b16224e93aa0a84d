"""Tables and keys of a problem file: types, meanings and defaults.

The checks of a file and the reference in the documentation are made from these tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, fields, is_dataclass
from typing import Any

from supac.problem.bounds import Bound
from supac.problem.composite import ResidualLoss
from supac.problem.marginals import Marginal
from supac.problem_file import values
from supac.problem_file.values import FLAG, NAMES, TEXT, ValueType, integer, one_of, positive

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
    of: str = ""
    """Kinds that take this key; "" for all."""

    @property
    def description(self) -> str:
        """Return the meaning, with the kinds that take the key."""
        kinds = ", ".join(f"`{kind}`" for kind in self.of.split())
        return f"{kinds}: {self.meaning}" if kinds else self.meaning


@dataclass(frozen=True)
class Table:
    """One table of the file."""

    name: str
    meaning: str
    settings: tuple[Setting, ...]
    required: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the keys."""
        return tuple(each.name for each in self.settings)


def shape_of(prior: str) -> tuple[str, ...]:
    """Return the names of the numbers that a prior takes."""
    return tuple(f.name for f in fields(PRIORS[prior]) if f.name not in _COMMON)


def _options(kinds: Mapping[str, type]) -> list[Setting]:
    """Return a setting for each option of some classes: their dataclass fields."""
    found: dict[str, tuple[Field[Any], list[str]]] = {}
    for kind, made in kinds.items():
        for each in fields(made) if is_dataclass(made) else ():
            if each.name not in _COMMON:
                found.setdefault(each.name, (each, []))[1].append(kind)
    return [_option(each, " ".join(takers)) for each, takers in found.values()]


def _option(option: Field[Any], kinds: str) -> Setting:
    about = option.metadata
    if not about:
        word = getattr(option.type, "__name__", option.type)
        kind = {"str": TEXT, "bool": FLAG}.get(str(word), values.NUMBER)
        return Setting(option.name, kind, "an option", of=kinds)
    default = about["default"] or f"{option.default:g}"
    kind = positive(about["below"], about["word"])
    return Setting(option.name, kind, about["meaning"], default, of=kinds)


TITLE = Setting("title", TEXT, "the name of the problem in reports", "the file's name")
_CORRELATED = "which parameters may become correlated: all pairs, none, or those within a list"
_PAIRS = Setting("correlated", values.CORRELATED, _CORRELATED, '"all"')
POSTERIOR = Table("posterior", "Form of the posterior.", (_PAIRS,))
SIMULATOR = Table(
    "simulator",
    "The simulator: exactly one of `python`, `command`, `umbridge` and `builtin`.",
    (
        Setting("python", values.FUNCTION,
                "a function of a Python file beside this one, or of a package"),
        Setting("arguments", one_of("array", "names"),
                "call it with one array, or with every parameter by name", '"array"', of="python"),
        Setting("vectorized", FLAG, "it takes an (n, dim) array of points", "false", of="python"),
        Setting("command", values.WORDS, "a program and its arguments, started without a shell"),
        Setting("inputs", one_of("json", "csv"), "format of its input file", '"json"',
                of="command"),
        Setting("key", NAMES, "key or keys of `output.json` with the answer",
                "the observed columns", of="command"),
        Setting("scratch", TEXT, "folder for the folders of the runs", "temporary", of="command"),
        Setting("keep", one_of("none", "failed", "all"), "which of these folders are kept",
                '"none"', of="command"),
        Setting("umbridge", values.URL, "the address of an UM-Bridge server"),
        Setting("model", TEXT, "the name of the model on the server", '"forward"', of="umbridge"),
        Setting("config", values.TABLE, "configuration that is passed to the model", of="umbridge"),
        Setting("builtin", one_of("reaction", "adm1"), "a model that comes with supac"),
        Setting("digester", TEXT, "for adm1, the folder with the plant's data", "synthetic data",
                of="builtin"),
        Setting("variant", one_of("dae", "split"), "for adm1, how pH is solved", '"dae"',
                of="builtin"),
    ),
    required=True,
)  # fmt: skip
OPTIONS_OF = {
    kind.name: tuple(each.name for each in SIMULATOR.settings if each.of == kind.name)
    for kind in SIMULATOR.settings
    if not kind.of
}
"""Keys that each kind of simulator takes."""
DATA = Table(
    "data",
    "Measurements. Without them the simulator returns residuals (given a loss) or the risk.",
    (
        Setting("file", TEXT, "a table of comma-separated values with a header", required=True),
        Setting("observed", NAMES, "the columns that the simulator predicts", required=True),
        Setting("noise", values.NOISE,
                "standard error of a measurement: a number, a column, or a table of these",
                required=True),
        Setting("compare", one_of("difference", "log"),
                "simulated − observed, or the log of their ratio, with `noise = 0.1` for 10 %",
                '"difference"'),
        Setting("time", TEXT, "the column with the times, if there is one", '"time"'),
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
                'a fifth of the budget, at most 60, plus a rest below one batch; 0 for "paper"'),
        Setting("first", integer(1), "runs of the first batch", "10 to 20"),
        Setting("batch", integer(1), "runs of each further batch", "10 or more"),
        Setting("tolerance", positive(),
                "stop when the KL between successive posteriors is below this, such as 1e-3",
                "1e-12: hardly ever"),
        Setting("known", TEXT, "a table of runs that were made elsewhere"),
    ),
    required=True,
)  # fmt: skip
EXECUTION = Table(
    "execution",
    "Where runs are made, and what happens to those that fail.",
    (
        Setting("workers", integer(1), "processes on this machine", "one after the other"),
        Setting("dask", TEXT, 'the address of a Dask scheduler, such as "tcp://10.0.0.1:8786"'),
        Setting("mode", one_of("batch", "async"), "wait for whole batches, or for no run",
                '"batch"'),
        Setting("timeout", positive(), "seconds after which a run is killed", "none"),
        Setting("retries", integer(0), "attempts to repeat a crashed run", "2"),
        Setting("on_failure", one_of("penalise", "drop", "raise"),
                "a failed run counts as the ceiling, is left out, or ends the search",
                '"penalise"'),
        Setting("max_failures", values.FRACTION, "the fraction of failed runs that ends the search",
                "0.5"),
    ),
)  # fmt: skip


def parameter_table() -> Table:
    """Return the table of one parameter, with the options of all known priors."""
    prior = Setting("prior", one_of(*PRIORS), "the distribution before the data", required=True)
    unit = Setting("unit", values.ANY_TEXT, "shown with every value", "none")
    meaning = "One table, or one line, per parameter: its prior in your units."
    return Table("parameters.NAME", meaning, (prior, unit, *_options(PRIORS)))


def tables() -> tuple[Table, ...]:
    """Return every table but [parameters], with the options of all known losses and bounds."""
    loss = Table(
        "loss",
        "From the residuals (simulated − observed)/noise to one risk.",
        (
            Setting("kind", one_of(*LOSSES), "which loss", '"welsch"'),
            *_options(LOSSES),
            Setting("python", values.FUNCTION,
                    "instead of `kind`, a function of your own: residuals (n, m) → risks (n,)"),
        ),
    )  # fmt: skip
    bound = Table(
        "bound",
        "The bound that is minimised.",
        (
            Setting("kind", one_of(*BOUNDS), "which bound",
                    '"catoni" with a `temperature`, else "maurer-langford-seeger"'),
            Setting("n", integer(1),
                    "number of *independent* data, for certificates and without `temperature`"),
            Setting("delta", positive(1.0), "probability that the guarantee fails", "0.05"),
            Setting("ceiling", positive(), "the largest possible risk", "1, for adm1 3"),
            *_options(BOUNDS),
        ),
        required=True,
    )  # fmt: skip
    return POSTERIOR, SIMULATOR, DATA, loss, bound, RUN, EXECUTION
