"""What a problem file may say: every table and key, what its value must be and what it means.

The checks and the reference in the documentation are made from the same tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from supac.problem import bounds, composite, marginals
from supac.problem_file.kinds import (
    ANY_TEXT,
    CORRELATED,
    FLAG,
    FUNCTION,
    NAMES,
    NOISE,
    NUMBER,
    POSITIVE,
    SHARE,
    SHARE_OR_ENDS,
    TABLE,
    TEMPERATURE,
    TEXT,
    TRADE_OFF,
    URL,
    WORDS,
    Kind,
    one_of,
    whole,
)


@dataclass(frozen=True)
class Setting:
    """One key of a table."""

    name: str
    kind: Kind
    meaning: str
    default: str = ""
    """In words, for the reference."""
    required: bool = False


@dataclass(frozen=True)
class Table:
    """A table of the file and its keys."""

    name: str
    meaning: str
    settings: tuple[Setting, ...]
    required: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Of its keys."""
        return tuple(each.name for each in self.settings)


PRIORS: Mapping[str, type[marginals.Marginal]] = {
    "normal": marginals.Normal,
    "lognormal": marginals.LogNormal,
    "uniform": marginals.Uniform,
    "loguniform": marginals.LogUniform,
    "halfnormal": marginals.HalfNormal,
    "logitnormal": marginals.LogitNormal,
}
BOUNDS: Mapping[str, type[bounds.Bound]] = {
    "catoni": bounds.Catoni,
    "mcallester": bounds.McAllester,
    "maurer-langford-seeger": bounds.MaurerLangfordSeeger,
    "tolstikhin-seldin": bounds.TolstikhinSeldin,
    "thiemann": bounds.Thiemann,
}
LOSSES: Mapping[str, type] = {
    "welsch": composite.Welsch,
    "capped-square": composite.CappedSquare,
    "mean-square": composite.MeanSquare,
    "root-mean-square": composite.RootMeanSquare,
}
BUILTINS = ("reaction", "adm1")


def shape_of(prior: str) -> tuple[str, ...]:
    """The numbers that a prior takes."""
    return tuple(f.name for f in fields(PRIORS[prior]) if f.name != "unit")


TITLE = Setting("title", TEXT, "what reports call the problem", "the file's name")
PARAMETER = Table(
    "parameters.NAME",
    "One table, or one line, for each parameter: its prior in your units.",
    (
        Setting(
            "prior", one_of(*PRIORS), "the law of the parameter before the data", required=True
        ),
        Setting("unit", ANY_TEXT, "shown wherever the parameter is", "none"),
        *(
            Setting(name, NUMBER, f"of {', '.join(p for p in PRIORS if name in shape_of(p))}")
            for name in dict.fromkeys(name for prior in PRIORS for name in shape_of(prior))
        ),
    ),
)
POSTERIOR = Table(
    "posterior",
    "What may be learnt of the parameters.",
    (
        Setting(
            "correlated",
            CORRELATED,
            "which parameters may become correlated: all pairs, none, or those within a list",
            '"all"',
        ),
    ),
)
SIMULATOR = Table(
    "simulator",
    "What makes the runs: exactly one of `python`, `command`, `umbridge` and `builtin`.",
    (
        Setting("python", FUNCTION, "a function of a Python file beside this one, or of a package"),
        Setting(
            "arguments",
            one_of("array", "names"),
            "`python`: called with one array, or with every parameter by its name",
            '"array"',
        ),
        Setting("vectorized", FLAG, "`python`: takes an (n, dim) array of points", "false"),
        Setting("command", WORDS, "a program and its arguments; no shell is involved"),
        Setting("inputs", one_of("json", "csv"), "`command`: what it reads", '"json"'),
        Setting(
            "key",
            NAMES,
            "`command`: where in `output.json` the answer is",
            "the observed columns",
        ),
        Setting("scratch", TEXT, "`command`: where the folders of the runs are made", "temporary"),
        Setting(
            "keep",
            one_of("none", "failed", "all"),
            "`command`: which of these folders are kept",
            '"none"',
        ),
        Setting("umbridge", URL, "the address of an UM-Bridge server"),
        Setting("model", TEXT, "`umbridge`: the name of the model there", '"forward"'),
        Setting("config", TABLE, "`umbridge`: what the model is told beside the parameters"),
        Setting("builtin", one_of(*BUILTINS), "a model that comes with supac"),
        Setting("digester", TEXT, "`adm1`: the folder with the plant's data", "synthetic data"),
        Setting("variant", one_of("dae", "split"), "`adm1`: how pH is solved", '"dae"'),
    ),
    required=True,
)
OPTIONS_OF = {
    "python": ("arguments", "vectorized"),
    "command": ("inputs", "key", "scratch", "keep"),
    "umbridge": ("model", "config"),
    "builtin": ("digester", "variant"),
}
"""Which keys of the simulator go with which kind of it."""
DATA = Table(
    "data",
    "What was measured. Without it the simulator returns residuals (given a loss) or the risk.",
    (
        Setting("file", TEXT, "a table of comma-separated values with a header", required=True),
        Setting("observed", NAMES, "the columns that the simulator predicts", required=True),
        Setting(
            "noise",
            NOISE,
            "the usual error of one measurement, in its unit: a number, the name of a column, or "
            "one of these for each observed column",
            required=True,
        ),
        Setting(
            "compare",
            one_of("difference", "log"),
            "simulated − observed, or the logarithm of their ratio, with `noise = 0.1` for 10 %",
            '"difference"',
        ),
        Setting("time", TEXT, "the column with the times, if there is one", '"time"'),
    ),
)
LOSS = Table(
    "loss",
    "From the residuals (simulated − observed)/noise to one risk.",
    (
        Setting("kind", one_of(*LOSSES), "how a misfit counts", '"welsch"'),
        Setting("width", POSITIVE, "`welsch`: the residual from which it flattens", "3"),
        Setting("cap", POSITIVE, "`capped-square`: the residual from which it is 1", "3"),
        Setting("python", FUNCTION, "instead of `kind`, your own: residuals (n, m) → risks (n,)"),
    ),
)
BOUND = Table(
    "bound",
    "What is minimised, and what it guarantees.",
    (
        Setting(
            "kind",
            one_of(*BOUNDS),
            "which bound",
            '"catoni" with a `temperature`, else "maurer-langford-seeger"',
        ),
        Setting(
            "temperature",
            TEMPERATURE,
            '`catoni`: the price of KL, fixed before the data were seen; "auto" needs `n`',
            '"auto"',
        ),
        Setting(
            "n",
            whole(1),
            "how many *independent* data there are; a certificate needs it, and so do all bounds "
            "but `catoni` with a number as `temperature`",
        ),
        Setting("delta", SHARE, "the probability that the guarantee may fail", "0.05"),
        Setting("ceiling", POSITIVE, "the largest possible risk", "1, for adm1 3"),
        Setting(
            "trade_off",
            TRADE_OFF,
            "`thiemann`: its own parameter",
            "the best",
        ),
    ),
    required=True,
)
RUN = Table(
    "run",
    "How long to search, and where to keep the runs.",
    (
        Setting("budget", whole(1), "how many runs of the simulator", required=True),
        Setting("seed", whole(0), "same seed, same result", "0"),
        Setting("store", TEXT, "the file in which every run is kept", "the file's name, .supac"),
        Setting(
            "algorithm", one_of("supac", "paper"), "the recommended one, or SuPAC-CE", '"supac"'
        ),
        Setting(
            "validation",
            whole(0),
            "runs that check the posterior",
            'a fifth of the budget, at most 60, and what fills no further batch; none for "paper"',
        ),
        Setting("first", whole(1), "runs of the first batch", "10 to 20"),
        Setting("batch", whole(1), "runs of each further batch", "10 or more"),
        Setting(
            "tolerance",
            POSITIVE,
            "stop early where successive posteriors differ by less than this KL, such as 1e-3",
            "1e-12: hardly ever",
        ),
        Setting("known", TEXT, "a table of runs that were made elsewhere"),
    ),
    required=True,
)
EXECUTION = Table(
    "execution",
    "Where runs are made, and what happens to those that fail.",
    (
        Setting("workers", whole(1), "processes on this machine", "one after the other"),
        Setting("dask", TEXT, 'the address of a Dask scheduler, such as "tcp://10.0.0.1:8786"'),
        Setting(
            "mode", one_of("batch", "async"), "wait for whole batches, or for no run", '"batch"'
        ),
        Setting("timeout", POSITIVE, "seconds after which a run is killed", "none"),
        Setting("retries", whole(0), "how often a crashed run is tried again", "2"),
        Setting(
            "on_failure",
            one_of("penalise", "drop", "raise"),
            "a failed run counts as the ceiling, is left out, or ends everything",
            '"penalise"',
        ),
        Setting(
            "max_failures", SHARE_OR_ENDS, "the share of failed runs that ends the search", "0.5"
        ),
    ),
)
TABLES = (POSTERIOR, SIMULATOR, DATA, LOSS, BOUND, RUN, EXECUTION)
