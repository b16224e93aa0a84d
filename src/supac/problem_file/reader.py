"""Reading of problem files, from the disk and from stores."""

from __future__ import annotations

import json
import os
from pathlib import Path

from supac.problem.observations import Observations
from supac.problem_file.build import Builder
from supac.problem_file.check import check
from supac.problem_file.data import read_observations
from supac.problem_file.errors import FileError, FileErrors, ProblemFileError, parse
from supac.problem_file.fingerprints import checksum, named_file
from supac.problem_file.problem import ProblemFile
from supac.record.record import Record


def read_problem(path: str | os.PathLike[str]) -> ProblemFile:
    """Read and check a problem file; raise ProblemFileError with all its errors."""
    place = Path(path).absolute()
    return make_problem(_text_of(place), place)


def _text_of(path: Path) -> str:
    """Read the text of a problem file."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        message = "there is no such file; `supac init` writes one to begin with"
        raise ProblemFileError(path, [FileError(message)]) from error
    except UnicodeDecodeError as error:
        raise ProblemFileError(path, [FileError(f"is not text in UTF-8: {error}")]) from error
    except OSError as error:
        raise ProblemFileError(path, [FileError(f"cannot be read: {error.strerror}")]) from error


def store_of(path: Path) -> Path:
    """Return the store of a problem file; any other path is a store itself."""
    if path.suffix != ".toml":
        return path
    run = parse(_text_of(path.absolute()), path.absolute()).get("run", {})
    name = run.get("store") if isinstance(run, dict) else None
    return named_file(path.parent, name if isinstance(name, str) else f"{path.stem}.supac")


def title_of(run: Record) -> str:
    """Return the title in the problem file of a store; "" if it was made without one."""
    try:
        path, text, _ = _remembered(run)
        return str(parse(text, path).get("title", path.stem))
    except ValueError:
        return ""


def source_of(run: Record) -> tuple[str, str, dict[str, str]]:
    """Return the problem file of a store: name, text, and checksums of the files it names.

    All are empty if the store was made without a problem file.
    """
    try:
        path, text, files = _remembered(run)
    except ValueError:
        return "", "", {}
    return path.name, text, files


def observations_of(run: Record) -> Observations | None:
    """Read the data that a store's runs were compared with, without running the user's code.

    None if there are no data, or if they are missing or have changed.
    """
    try:
        path, text, files = _remembered(run)
        table = parse(text, path)["data"]
        for folder in (run.file.absolute().parent, path.parent):
            file = named_file(folder, table["file"])
            if not file.is_file() or checksum([file]) != files.get("data"):
                continue
            return read_observations(table, folder, FileErrors(path, text))
    except (KeyError, TypeError, ValueError, OSError):
        return None
    return None


def files_of(run: Record) -> dict[str, str]:
    """Return the checksums, at its beginning, of the files that a store's problem names."""
    return _remembered(run)[2]


def problem_of(run: Record, *, as_begun: bool = False) -> ProblemFile:
    """Read the problem file that a store was made from: beside the store, or where it was.

    Its text must be unchanged, so that a store from elsewhere cannot run code of its own;
    `as_begun` trusts the text in the store.
    """
    path, text, _ = _remembered(run)
    places = [run.file.absolute().parent / path.name, path]
    there = [each for each in places if each.is_file()]
    same = [each for each in there if says(each, text)]
    if same:
        return make_problem(text, same[0])
    if as_begun:  # paths in it are relative to its old folder, if that still exists
        return make_problem(text, path if path.parent.is_dir() else places[0])
    what = f"{there[0]} has changed" if there else f"{path} is missing"
    file = there[0] if there else path.name
    raise ValueError(
        f"{what} since the last run of {run.path}. To use the present text of a file: supac resume "
        f"{file}, or supac certify {run.path} --problem {file}. To trust the text in the store: "
        "--as-begun"
    )


def says(path: Path, text: str) -> bool:
    """Return True if a file can be read and has this text."""
    try:
        return _text_of(path) == text
    except ProblemFileError:
        return False


def _remembered(run: Record) -> tuple[Path, str, dict[str, str]]:
    """Return the problem file's path and text, and the checksums of the files it names."""
    try:
        known = json.loads(run.description)
        return Path(known["problem_file"]), str(known["text"]), dict(known["files"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{run.path} was not made by `supac run`, so its simulator is not known: continue from "
            "the script that made it, or name a problem file"
        ) from error


def make_problem(text: str, path: Path) -> ProblemFile:
    """Build the problem of a text; its paths are relative to the folder of `path`."""
    document = parse(text, path)
    errors = FileErrors(path, text)
    check(document, errors)
    errors.raise_any()
    return Builder(document, path, text, errors).build()
