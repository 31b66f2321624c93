"""Of a module's text what Python runs: a test need not run again for a comment."""

import ast
import hashlib
import io
import re
import tokenize
from contextlib import suppress
from pathlib import Path

_CACHE = ".ledger/code.tsv"  # not committed: git's name of a module -> that of its code
_OURS = re.compile(r"(store_format|broker|udfs|jobs)/.*\.py$")


def code(text: str) -> str:
    """The text without comments, blank lines and, where nothing asks for them, docstrings.

    Raises SyntaxError.
    """
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row, column = token.start[0] - 1, token.start[1]
        if token.type == tokenize.COMMENT:
            before = lines[row][:column].rstrip()
            lines[row] = f"{before}\n" if before else ""
        elif token.type == tokenize.NL and not token.line.strip():
            lines[row] = ""
    if "__doc__" not in text:
        for node in ast.walk(ast.parse(text)):
            _without_docstring(node, lines)
    return "".join(lines)


def _without_docstring(node: ast.AST, lines: list[str]) -> None:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return
    first = node.body[0] if node.body else None
    if not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Constant):
        return
    if isinstance(first.value.value, str) and first.end_lineno:
        for row in range(first.lineno - 1, first.end_lineno):
            lines[row] = ""


def names(root: Path, blobs: dict[str, str]) -> dict[str, str]:
    """Path -> git's name of a file, and that of its code where the file is one of the product's."""
    cache = root / _CACHE
    known = dict(re.findall(r"(\w+)\t(\w+)", cache.read_text())) if cache.exists() else {}
    found, new = {}, {}
    for path, blob in blobs.items():
        name = known.get(blob) if _OURS.match(path) else blob
        if name is None:
            name = _name(root / path)
            known[blob] = new[blob] = name
        found[path] = name
    if new and cache.parent.is_dir():
        with cache.open("a") as file:  # at once: another pytest may do the same
            file.write("".join(f"{blob}\t{name}\n" for blob, name in new.items()))
    return found


def _name(path: Path) -> str:
    text = path.read_text("utf-8")
    with suppress(SyntaxError, tokenize.TokenError):  # half edited: all of its text counts
        text = code(text)
    return hashlib.sha1(text.encode()).hexdigest()
