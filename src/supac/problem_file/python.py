"""Functions of the user's own Python files."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from supac.problem_file.errors import suggestion
from supac.problem_file.own_code import code_checksum

_FOLDERS: set[Path] = set()
"""Folders of problem files whose modules have been loaded."""
_CHANGED: dict[Path, int] = {}
"""Times at which the files of these modules had been changed when they were loaded."""
_LIBRARY = os.path.join(sysconfig.get_path("stdlib"), "")
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_INSTALLED = f"{os.sep}site-packages{os.sep}"


class PythonFunctionError(ValueError):
    """The function does not exist, or its file cannot be run."""


class PythonFunction:
    """The function "module:name" of a file in `folder` or of an installed package.

    Other processes get its name and load it themselves.
    """

    def __init__(self, folder: Path, reference: str):
        module, _, name = reference.partition(":")
        self.folder, self.module, self.name = folder, module.strip(), name.strip()
        self._function: Callable[..., Any] | None = None
        self.__module__, self.__qualname__ = self.module, self.name

    def set_up(self) -> None:
        """Load the function if it is not loaded."""
        if self._function is None:
            self._function = self._load()

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function."""
        self.set_up()
        return self._function(*arguments, **named)  # type: ignore[misc]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_function": None}

    @property
    def returns_jacobian(self) -> bool:
        """True if the function is known to return pairs, as those of `supac.with_jacobian` do."""
        self.set_up()
        return bool(getattr(self._function, "returns_jacobian", False))

    @property
    def file(self) -> Path:
        """Return the path of the module beside the problem file, which may not exist."""
        return self.folder.joinpath(*self.module.split(".")).with_suffix(".py")

    @property
    def code(self) -> str:
        """Return the checksum of what the function depends on in its file; "" if not known."""
        return code_checksum(self.file, self.name)

    def missing_arguments(self, names: tuple[str, ...]) -> str:
        """Return an error message if the function cannot be called with these names, else ""."""
        self.set_up()
        try:
            signature = inspect.signature(self._function)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return ""
        try:
            signature.bind(**dict.fromkeys(names))
        except TypeError:
            return self._mismatch(signature, names)
        return ""

    def _mismatch(self, signature: inspect.Signature, names: tuple[str, ...]) -> str:
        """Return which arguments have no value, and which values have no argument."""
        every = list(signature.parameters.values())
        mine = [each.name for each in every if each.kind in _NAMED]
        missing = [
            each.name
            for each in every
            if each.kind in _NAMED and each.default is each.empty and each.name not in names
        ]
        extra = [name for name in names if name not in mine]
        words = []
        if len(missing) == 1:
            words.append(f"needs {missing[0]}, which is no parameter or setting of the file")
        elif missing:
            every_one = ", ".join(missing)
            words.append(f"needs {every_one}, none of which is a parameter or setting of the file")
        if extra:
            words.append(f"has no argument {' or '.join(extra)}")
        takes = ", ".join(signature.parameters)
        return f"{self.name}({takes}) {' and '.join(words) or 'cannot be called by name'}"

    def needs(self, name: str, *, after: int = 0) -> bool:
        """Return True for an argument without a value: it has no default, or None."""
        self.set_up()
        try:
            signature = inspect.signature(self._function)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return False
        every = {each.name: each for each in list(signature.parameters.values())[after:]}
        if name not in every or every[name].kind not in _NAMED:
            return False
        return every[name].default is None or every[name].default is inspect.Parameter.empty

    def takes(self, name: str) -> bool:
        """Return True if the function has an argument of this name."""
        return name in self.named_arguments()

    def named_arguments(self, asked: Iterable[str] = (), *, after: int = 0) -> list[str]:
        """Return arguments that can be given by name, after the first few.

        With `**options` these are all that are asked for.
        """
        self.set_up()
        try:
            signature = inspect.signature(self._function)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return []
        every = list(signature.parameters.values())[after:]
        names = [each.name for each in every if each.kind in _NAMED]
        takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in every)
        return names + [name for name in asked if takes_any and name not in names]

    def _load(self) -> Callable[..., Any]:
        module = _module(self.folder, self.module, self.file)
        function = getattr(module, self.name, None)
        if function is None:
            own = [name for name, each in vars(module).items() if callable(each)]
            hint = suggestion(self.name, own)
            raise PythonFunctionError(f"{self.module} has no function {self.name}{hint}")
        if not callable(function):
            raise PythonFunctionError(f"{self.module}:{self.name} is {function!r}, no function")
        return function


def _module(folder: Path, name: str, file: Path) -> ModuleType:
    """Import the module, from a file in the folder rather than an installed package."""
    if name.endswith(".py") and not file.is_file():  # not a module `py` of a package `model`
        raise PythonFunctionError(f'write "{name.removesuffix(".py")}:…", without .py')
    if file.is_file() and name in sys.stdlib_module_names:
        raise PythonFunctionError(f"{file.name} has the name of a Python module: rename it")
    package = name.partition(".")[0]
    _forget_others(folder.resolve())
    if file.is_file() and package in sys.modules and not _own_files([package, name]):
        raise PythonFunctionError(f"{file.name} has the name of an installed package: rename it")
    # First of all places, also for imports from files beside it.
    sys.path[:] = [str(folder), *(place for place in sys.path if place != str(folder))]
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
        _CHANGED.update({each: each.stat().st_mtime_ns for each in _own_files(sys.modules)})
        return module
    except (Exception, SystemExit) as error:
        # The module or its package is missing, not one that it imports.
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            near = [f"{each.stem}:" for each in folder.glob("*.py")]
            hint = suggestion(f"{name}:", near).replace(":", "") or f" in {folder}"
            raise PythonFunctionError(f"there is no {name}.py{hint}") from error
        ended = ' when it was loaded: put the code of a script below `if __name__ == "__main__":`'
        hint = ended if isinstance(error, SystemExit) else ""
        raise PythonFunctionError(f"{_place(error, folder, file)}{hint}") from error


def _own_files(names: Iterable[str]) -> dict[Path, str]:
    """Return the files of loaded modules that lie in a folder of problem files, with their names.

    Packages installed in an environment inside such a folder are not among them.
    """
    # There may be thousands of modules: links are followed only of those that are not installed.
    files = {
        os.path.realpath(file): name
        for name in names
        if (file := getattr(sys.modules.get(name), "__file__", None))
        and not (file.startswith(_LIBRARY) or _INSTALLED in file)
    }
    folders = tuple(os.path.join(folder, "") for folder in _FOLDERS)
    return {
        Path(file): name
        for file, name in files.items()
        if file.startswith(folders)
        and not (_INSTALLED in file or Path(file).is_relative_to(sys.prefix))
    }


def _forget_others(folder: Path) -> None:
    """Forget modules of other folders, and those of this one if a file has changed since.

    Two problems may both have a `model.py`, or a helper that it imports.
    """
    _FOLDERS.add(folder)
    files = _own_files(list(sys.modules))
    mine = {file for file in files if file.is_relative_to(folder)}
    changed = any(_CHANGED.get(each) != _modified(each) for each in mine if each in _CHANGED)
    for file, name in files.items():
        if file not in mine or changed:
            del sys.modules[name]


def _modified(file: Path) -> int | None:
    return file.stat().st_mtime_ns if file.exists() else None


def _place(error: BaseException, folder: Path, file: Path) -> str:
    """Describe an error of the user's file, with its line."""
    if isinstance(error, SyntaxError):
        return f"{Path(error.filename or file).name}, line {error.lineno}: {error.msg}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(folder)
    ]
    where = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else file.name
    words = f": {error}" if str(error) else ""
    return f"{where} raised {type(error).__name__}{words}"
