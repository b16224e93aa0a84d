"""From the text of a problem file to what it says."""

from __future__ import annotations

import json
import os
from pathlib import Path

from supac.problem.observations import Observations
from supac.problem_file.build import Builder
from supac.problem_file.check import check
from supac.problem_file.data import read_observations
from supac.problem_file.errors import Complaint, Complaints, ProblemFileError, parse
from supac.problem_file.fingerprints import checksum, named_file
from supac.problem_file.problem import ProblemFile
from supac.record.record import Record


def read_problem(path: str | os.PathLike[str]) -> ProblemFile:
    """Read and check a problem file; ProblemFileError with everything that is wrong with it."""
    text, place = _text_of(Path(path).absolute())
    return make_problem(text, place)


def _text_of(path: Path) -> tuple[str, Path]:
    """The text of a file, and where it is."""
    try:
        return path.read_text(encoding="utf-8-sig"), path
    except FileNotFoundError as error:
        message = "there is no such file; `supac init` writes one to begin with"
        raise ProblemFileError(path, [Complaint(message)]) from error
    except UnicodeDecodeError as error:
        raise ProblemFileError(path, [Complaint(f"is not text in UTF-8: {error}")]) from error
    except OSError as error:
        raise ProblemFileError(path, [Complaint(f"cannot be read: {error.strerror}")]) from error


def store_of(path: Path) -> Path:
    """The store that is meant: of a problem file its own, and otherwise the path itself."""
    if path.suffix != ".toml":
        return path
    text, place = _text_of(path.absolute())
    run = parse(text, place).get("run", {})
    name = run.get("store") if isinstance(run, dict) else None
    return named_file(path.parent, name if isinstance(name, str) else f"{path.stem}.supac")


def title_of(run: Record) -> str:
    """What the problem file of a store calls it; "" where there is none."""
    try:
        path, text, _ = _remembered(run)
        return str(parse(text, path).get("title", path.stem))
    except ValueError:
        return ""


def source_of(run: Record) -> tuple[str, str, dict[str, str]]:
    """The problem file of a store: its name, its text, and checksums of the files behind it.

    All empty where there is none.
    """
    try:
        path, text, files = _remembered(run)
    except ValueError:
        return "", "", {}
    return path.name, text, files


def observations_of(run: Record) -> Observations | None:
    """The data that a store's runs were compared with; nothing of the user's is run.

    None where there are no data, or where they are gone or have changed.
    """
    try:
        path, text, files = _remembered(run)
        table = parse(text, path)["data"]
        for folder in (run.file.absolute().parent, path.parent):
            file = named_file(folder, table["file"])
            if not file.is_file() or checksum([file]) != files.get("data"):
                continue
            return read_observations(table, folder, Complaints(path, text))
    except (KeyError, TypeError, ValueError, OSError):
        return None
    return None


def files_of(run: Record) -> dict[str, str]:
    """The checksums of the files behind a store's problem when it was begun."""
    return _remembered(run)[2]


def problem_of(run: Record, *, as_begun: bool = False) -> ProblemFile:
    """The problem file that a store was made from: beside the store, or else where it was.

    It must still say the same, so that a store that someone sent runs nothing by itself;
    `as_begun` trusts the text in the store.
    """
    path, text, _ = _remembered(run)
    places = [run.file.absolute().parent / path.name, path]
    there = [each for each in places if each.is_file()]
    same = [each for each in there if says(each, text)]
    if same:
        return make_problem(text, same[0])
    if as_begun:  # its paths begin where it was, as long as that folder is there
        return make_problem(text, path if path.parent.is_dir() else places[0])
    what = f"{there[0]} does not say what it said when" if there else f"{path} is gone since"
    file = there[0] if there else path.name
    raise ValueError(
        f"{what} {run.path} was begun, or last gone on with. To go by the present text of a file: "
        f"supac resume {file}, or supac certify {run.path} --problem {file}. To trust the text in "
        "the store: --as-begun"
    )


def says(path: Path, text: str) -> bool:
    """Whether a file has this text; one that cannot be read has not."""
    try:
        return _text_of(path)[0] == text
    except ProblemFileError:
        return False


def _remembered(run: Record) -> tuple[Path, str, dict[str, str]]:
    """The problem file's path and text, and the checksums of the files behind it."""
    try:
        known = json.loads(run.description)
        return Path(known["problem_file"]), str(known["text"]), dict(known["files"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{run.path} was not made by `supac run`: its simulator is not known. Go on from the "
            "script that made it, or say which problem file it belongs to"
        ) from error


def make_problem(text: str, path: Path) -> ProblemFile:
    """The problem of a text; relative paths in it begin in the folder of `path`."""
    document = parse(text, path)
    complaints = Complaints(path, text)
    check(document, complaints)
    complaints.raise_any()
    return Builder(document, path, text, complaints).build()
