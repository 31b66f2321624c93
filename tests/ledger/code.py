"""Of a module's text what Python runs: a test need not run again for a comment."""

import ast
import io
import tokenize


def code(text: str) -> str:
    """The text without comments, blank lines and, where nothing asks for them, docstrings.

    Raises SyntaxError.
    """
    return "".join(lines(text))


def lines(text: str) -> list[str]:
    """That text's lines, those that are left out as "", so that numbers stay."""
    found = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row, column = token.start[0] - 1, token.start[1]
        if token.type == tokenize.COMMENT:
            before = found[row][:column].rstrip()
            found[row] = f"{before}\n" if before else ""
        elif token.type == tokenize.NL and not token.line.strip():
            found[row] = ""
    if "__doc__" not in text:
        for node in ast.walk(ast.parse(text)):
            _without_docstring(node, found)
    return found


def _without_docstring(node: ast.AST, lines: list[str]) -> None:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return
    first = node.body[0] if node.body else None
    if not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Constant):
        return
    if isinstance(first.value.value, str) and first.end_lineno:
        for row in range(first.lineno - 1, first.end_lineno):
            lines[row] = ""
