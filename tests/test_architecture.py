"""The shape of the house: which way imports point, and what the project's files may say."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from conftest import GROUPS, LONG, SLOW

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "supac"

# Lower layers first. A module may import from its own layer and from those below it.
LAYERS = [
    {"arrays", "codec", "early_signals", "jacobian"},
    {"families"},
    {"problem"},
    {"guarantee"},
    {"surrogate"},
    {"emulator"},
    {"shape"},
    {"search"},
    {"record"},
    {"exchange"},
    {"running"},
    {"calibration"},
    {"meta"},
    {"posterior"},
    {"plots", "problem_file"},
    {"report"},
    {"public"},
    {"cli", "__main__"},
]
FREE_STANDING = {"simulators"}


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name below `supac`."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__")] = path
    return found


# A record gives its result, which can be certified, exported and drawn, and a notebook shows values
# as HTML: methods of these modules reach up, or across, to what does that.
REACHES_UP = {
    # A base class says which of its kinds it is: for the type checker.
    "families.family": {"families.gaussian", "families.mixture"},
    "guarantee.certificate": {"report.notebook"},
    "problem.problem": {"report.notebook"},
    "record.best_run": {"report.notebook"},
    "record.calibrated": {
        *("report.notebook", "exchange.frames", "record.record"),
        *("running.execution", "posterior.prediction", "posterior.sensitivity"),
        "posterior.next_measurement",
    },
    "posterior.next_measurement": {"report.notebook_posterior"},
    "posterior.prediction": {"report.notebook_posterior"},
    "posterior.sensitivity": {"report.notebook_posterior"},
    "record.record": {"record.result"},
    "record.result": {
        "exchange.result_json",
        "calibration.certify",
        "calibration.old_keywords",
    },
}


def _statements(node: ast.AST, *, inside: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Yield statements, and True for those in functions or only for the type checker."""
    yield node, inside
    apart = isinstance(node, ast.FunctionDef) or (
        isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    for child in ast.iter_child_nodes(node):
        yield from _statements(child, inside=inside or apart)


@cache
def imported(name: str) -> set[str]:
    """The modules of ours that a module imports, named from below `supac`; "" for all of it."""
    path, found = modules()[name], set()
    for node, inside in _statements(parsed(path)):
        names: set[str] = set()
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            base = node.module or ""
            names = {
                f"{base}.{alias.name}" if _is_module(base, alias.name) else base
                for alias in node.names
            }
        elif isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
        ours = {each for each in names if each.split(".")[0] == "supac"}
        ours = {each.removeprefix("supac").removeprefix(".") for each in ours}
        found |= ours - (REACHES_UP.get(name, set()) if inside else set())
    return found


def _is_module(base: str, name: str) -> bool:
    return f"{base}.{name}".removeprefix("supac.") in modules()


def layer(name: str) -> int:
    top = name.split(".", maxsplit=1)[0]
    return next(i for i, members in enumerate(LAYERS) if top in members)


def test_every_module_has_a_layer() -> None:
    tops = {name.split(".")[0] for name in modules()} - {""}
    assert tops == set().union(*LAYERS) | FREE_STANDING


@pytest.mark.parametrize("name", sorted(set(modules()) - {""}))
def test_imports_point_down(name: str) -> None:
    assert "" not in imported(name) or layer(name) == len(LAYERS) - 1
    # A simulator is like a user's own; what makes a problem of it uses the same values as they do.
    problems = {
        *("simulators.adm1.problem", "simulators.drug"),
        *("simulators.pest.problem", "simulators.petab.problem"),
    }
    values = {"families", "problem"} if name in problems else set()
    for other in imported(name) - {""}:
        if name.split(".", maxsplit=1)[0] in FREE_STANDING:
            assert other.split(".")[0] in FREE_STANDING | values, f"{name} imports {other}"
        elif other.split(".")[0] not in FREE_STANDING:
            assert layer(other) <= layer(name), f"{name} imports {other} from a layer above it"


def test_modules_of_one_layer_do_not_import_in_circles() -> None:
    graph = {name: imported(name) & set(modules()) for name in modules() if name}

    def reachable(name: str, seen: frozenset[str]) -> frozenset[str]:
        for other in graph.get(name, set()) - seen:
            seen = reachable(other, seen | {other})
        return seen

    for name in graph:
        assert name not in reachable(name, frozenset()), f"{name} imports itself in the end"


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    driver = PACKAGE / "simulators" / "adm1" / "driver.py"  # one loop by design
    for path in set(modules().values()) - {driver}:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef):
                yield f"{path}: {node.name}", node


def _classes_asked_for(node: ast.expr) -> set[str]:
    """The names of the classes in the second argument of `isinstance`."""
    if isinstance(node, ast.Tuple):
        return set().union(*map(_classes_asked_for, node.elts))
    if isinstance(node, ast.BinOp):
        return _classes_asked_for(node.left) | _classes_asked_for(node.right)
    return {node.id} if isinstance(node, ast.Name) else set()


def test_few_places_ask_for_the_class_of_what_is_ours() -> None:
    """A class that is asked for twice gets a member that answers, or one function that asks."""
    trees = [parsed(path) for path in modules().values()]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    own = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    asked = [
        sorted(_classes_asked_for(node.args[1]) & own)
        for node in nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass")
    ]
    asked = [names for names in asked if names]
    often = Counter(name for names in asked for name in names)
    assert len(asked) <= 140, often.most_common(9)


PROTOCOLS = {
    *("Algorithm", "Bound", "Estimator", "FittedEmulator", "Marginal", "ParametricFamily"),
    *("Placement", "RiskModel", "StepRule", "TrainingSet", "Whitening", "WorkerPool"),
}
# Names that data and losses of the user's own, and FMUs, have too.
OF_OTHERS = {"for_data", "sequential", "tolerance"}


def test_own_protocols_are_not_probed() -> None:
    """A member that a base class of ours declares is there: `getattr` would hide its absence."""
    nodes = [node for path in modules().values() for node in ast.walk(parsed(path))]
    members = set()
    for node in nodes:
        if isinstance(node, ast.ClassDef) and node.name in PROTOCOLS:
            functions = [each.name for each in node.body if isinstance(each, ast.FunctionDef)]
            members |= {name for name in functions if not name.startswith("_")}
            named = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
            members |= {ast.unparse(name) for name in named}
    assert {"predict", "informative", "proof"} <= members
    probed = [
        ast.unparse(node)
        for node in nodes
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("getattr", "hasattr")
        and isinstance(node.args[1], ast.Constant)
        and node.args[1].value in members - OF_OTHERS
    ]
    assert not probed


def test_the_root_has_few_modules() -> None:
    found = {path.name for path in PACKAGE.glob("*.py")}
    # The first comes before all other imports; workers import the second, and little else.
    light = {"early_signals.py", "jacobian.py"}
    assert found == {"__init__.py", "__main__.py", "arrays.py", "public.py", *light}


def test_functions_are_short_and_have_few_parameters() -> None:
    for name, node in functions():
        lines = (node.end_lineno or 0) - node.lineno + 1
        assert lines <= 60, f"{name} has {lines} lines"
        given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
        names = {each.arg for each in given} - {"self", "cls"}
        assert len(names) <= 14, f"{name} has {len(names)} parameters"


def test_docstrings_begin_with_what_a_thing_is_or_does() -> None:
    riddle = re.compile(r'"""(What|Whether|How|Where|So many|The same|Those|Why)\b')
    for path in modules().values():  # also those of fields and constants
        found = [line for line in path.read_text().splitlines() if riddle.match(line.strip())]
        assert not found, f"{path}: {found}"


def test_the_page_names_packages_and_files_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    told = set(re.findall(r"`([\w/]+\.py|\w+/)`", page))
    packages = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    assert packages <= told
    files = [path.relative_to(PACKAGE.parent).as_posix() for path in modules().values()]
    for name in told - packages - {"store/"}:
        here = (ROOT / name).exists() or any(f"/{path}".endswith(f"/{name}") for path in files)
        assert here, f"docs/architecture.md: {name} is not there"


def test_no_line_of_a_document_is_longer_than_a_hundred_characters() -> None:
    places = (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "tests").rglob("*.md"))
    for path in places:
        lines = enumerate(path.read_text().splitlines(), start=1)
        assert not [number for number, line in lines if len(line) > 100], path


def test_tests_lie_where_their_package_lies() -> None:
    packages = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    kinds = {"laws", "theorems", "faults", "examples", "experiments", "slurm"}
    tests = ROOT / "tests"
    places = {path.relative_to(tests).parts[0] for path in tests.glob("*/**/test_*.py")}
    assert places <= packages | kinds


def test_slow_tests_and_groups_are_named_as_they_are() -> None:
    places = {*SLOW, *LONG, *(place for group in GROUPS.values() for place in group)}
    assert [place for place in sorted(places) if not (ROOT / place).exists()] == []


def test_the_core_imports_without_the_extras() -> None:
    extras = (
        *("matplotlib", "faiss", "numba", "pandas", "xarray", "arviz", "fmpy"),
        *("pyemu", "petab", "libsbml", "roadrunner", "sympy", "yaml"),
    )
    hidden = f"import sys; sys.modules.update({{m: None for m in {extras}}}); "
    use = "import supac, supac.cli; "
    run = "supac.minimize(lambda x: 0.0, supac.beta(1, 1), supac.Catoni(1), budget=24)"
    subprocess.run([sys.executable, "-c", hidden + use + run], check=True)


def test_what_few_need_is_imported_when_it_is_asked_for() -> None:
    code = (
        "import supac, sys; supac.minimize; "
        "heavy = {'scipy.stats', 'scipy.optimize', 'rich', 'typer', 'supac.problem_file', "
        "'supac.simulators.adm1', 'supac.simulators.petab', 'supac.problem.frozen', 'numba', "
        "'matplotlib', 'distributed', 'pandas', 'xarray', 'arviz', 'fmpy', "
        "'supac.simulators.fmi'} & set(sys.modules); "
        "assert not heavy, heavy; "
        "supac.read_problem, supac.simulators.adm1.example, supac.simulators.drug"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("code", ["import supac", "import supac.cli", "HELP"])
def test_the_package_and_its_help_need_neither_numpy_nor_scipy(code: str) -> None:
    asked = "import sys; sys.argv[1:] = ['--help']\ntry:\n    from supac.cli import app; app()\n"
    code = asked + "except SystemExit: pass" if code == "HELP" else code
    heavy = ("numpy", "scipy", "cloudpickle", "supac.public", "supac.cli.stores")
    check = f"\nimport sys\nfound = {set(heavy)} & set(sys.modules)\nassert not found, found"
    subprocess.run([sys.executable, "-c", code + check], check=True, capture_output=True)


def test_a_missing_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['faiss'] = None; import supac; "
        "supac.minimize(lambda x: 0.0, supac.beta(1, 1), supac.Catoni(1), budget=9, "
        "algorithm=supac.SuPAC(supac.Voronoi(approximate=True)))"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert "pip install 'supac[search]'" in outcome.stderr


def test_every_dependency_is_pinned_without_addresses() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line]
    assert all("==" in line and "://" not in line and "@" not in line for line in lines)
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = list(project["project"]["dependencies"]) + project["build-system"]["requires"]
    for extra in project["project"]["optional-dependencies"].values():
        wanted += extra
    names = {w.split(">")[0].split("[")[0].lower() for w in wanted} - {"supac"}
    assert names <= pinned
