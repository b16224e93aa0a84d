"""The code of a Python file that one of its functions depends on."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BY_ANY_NAME = {
    *("globals", "vars", "eval", "exec", "locals", "__import__"),
    *("getattr", "modules", "__subclasses__"),
}


def code_checksum(file: Path, function: str) -> str:
    """Return the SHA-256 of what a function depends on in its file; "" if that is not known.

    These are its definition, the plain definitions, assignments and imports of the file that it
    names, directly or by way of others, and all other statements, which may do anything, such as
    decorated functions and assignments that call something: but neither other functions nor
    comments nor what is run as a script only.
    """
    try:
        module = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ""
    statements = [each for each in module.body if not (_is_docstring(each) or _is_script(each))]
    bound = [set(_bound(each)) for each in statements]
    wanted, found = {function}, set[int]()
    if function not in set().union(*bound):
        return ""
    while True:
        new = {i for i, names in enumerate(bound) if not names or names & wanted} - found
        if not new:
            break
        found |= new
        wanted |= {name for i in new for name in _named(statements[i])}
    if wanted & _BY_ANY_NAME:
        return ""
    text = "\n".join(ast.unparse(statements[i]) for i in sorted(found))
    return hashlib.sha256(text.encode()).hexdigest()


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Return the names that a definition, import or assignment binds and does no more than that."""
    if isinstance(statement, _DEFINITIONS):
        inherits = isinstance(statement, ast.ClassDef) and (statement.bases or statement.keywords)
        if not (statement.decorator_list or inherits):
            yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        names = [each.asname or each.name.partition(".")[0] for each in statement.names]
        yield from (() if "*" in names else names)
    elif isinstance(statement, ast.Assign | ast.AnnAssign) and not _calls(statement):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        parts = [part for target in targets for part in _parts(target)]
        if all(isinstance(part, ast.Name) for part in parts):
            yield from (part.id for part in parts if isinstance(part, ast.Name))


def _parts(target: ast.expr) -> Iterator[ast.expr]:
    """Return the targets of an assignment to several names."""
    if isinstance(target, ast.Tuple | ast.List):
        for each in target.elts:
            yield from _parts(each)
    else:
        yield target.value if isinstance(target, ast.Starred) else target


def _calls(statement: ast.stmt) -> bool:
    return any(isinstance(each, ast.Call | ast.Await) for each in ast.walk(statement))


def _named(statement: ast.stmt) -> Iterator[str]:
    """Return all names in a statement, and those by which it may reach any other."""
    for each in ast.walk(statement):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute) and each.attr in _BY_ANY_NAME:
            yield each.attr


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_script(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and ast.unparse(statement.test) in (
        "__name__ == '__main__'",
        "'__main__' == __name__",
    )
