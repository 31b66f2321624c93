"""A module's parts, which are what its names stand for at its top, and what each of them uses."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tokenize import TokenError
from typing import NamedTuple

from tests.ledger import code

_CACHE = ".ledger/parts.txt"  # not committed: git's name of a module -> its parts
PACKAGES = r"(?:reput|tests|scripts|benchmarks)"
_NAMED = re.compile(rf"\b{PACKAGES}(?:\.\w+)+")
_COMMAND_LINE = re.compile(r"^reput$|^reput |-m reput\b")
_WORD = re.compile(r"[a-z][\w-]*")
_ANNOTATION = 200  # a longer string is none
_ASKS = re.compile(r"\.(usefixtures|getfixturevalue)$")
_FIXTURE = re.compile(r"pytest\.fixture|^fixture")


class Part(NamedTuple):
    """A function, a class or what is assigned; "" is what else runs as the module is imported."""

    digest: str  # of its code: no comments, no docstrings
    uses: tuple[str, ...]  # names of this module, some with attributes, and dotted ones of others
    words: tuple[str, ...]  # of tests alone: those of its strings, and @ what may be a fixture
    command_line: bool  # whether a string of it starts reput
    fixture: str  # "": none, "named", or "autouse"


class Parts(NamedTuple):
    parts: dict[str, Part]
    imports: dict[str, str]  # name here -> dotted name, imports within functions too
    passed_on: list[str]  # dotted names that are imported and not used


def read(root: Path, blobs: Mapping[str, str]) -> dict[str, Parts]:
    """Of each Python file; kept by git's names of them, as parsing a thousand takes a while."""
    cache = root / _CACHE
    version = hashlib.sha1(Path(__file__).read_bytes()).hexdigest()
    known: dict[str, Parts] = {}
    lines = cache.read_text("utf-8").splitlines() if cache.exists() else []
    if lines[:1] == [version]:
        for line in lines[1:]:
            with suppress(ValueError):  # the last line, of a pytest that was killed as it wrote
                blob, parts, *others = json.loads(line)
                known[blob] = Parts({name: _part(each) for name, each in parts.items()}, *others)
    new: dict[str, Parts] = {}
    found = {}
    for path, blob in blobs.items():
        if path.endswith(".py"):
            key = f"{blob}{'t' if path.startswith('tests/') else ''}"
            if key not in known:
                known[key] = new[key] = split(root / path, path.startswith("tests/"))
            found[path] = known[key]
    fresh = lines[:1] != [version]
    if cache.parent.is_dir() and (new or fresh):
        text = [version] if fresh else []
        text += [json.dumps([key, *each]) for key, each in new.items()]
        with cache.open("w" if fresh else "a", encoding="utf-8") as file:  # at once: others may too
            file.write("".join(f"{line}\n" for line in text))
    return found


def _part(fields: list[object]) -> Part:
    digest, uses, words, command_line, fixture = fields
    return Part(digest, tuple(uses), tuple(words), command_line, fixture)  # type: ignore[arg-type]


def split(path: Path, of_tests: bool) -> Parts:
    """A file that Python cannot parse, as one that is half edited, has one part: all of it."""
    text = path.read_text("utf-8")
    try:
        tree, lines = ast.parse(text), code.lines(text)
    except (SyntaxError, TokenError):
        whole = hashlib.sha1(text.encode()).hexdigest()
        return Parts({"": Part(whole, tuple(_NAMED.findall(text)), (), False, "")}, {}, [])
    nodes: dict[str, list[ast.stmt]] = {"": []}
    for node in _statements(tree.body):
        for name in _names(node) or [""]:
            nodes.setdefault(name, []).append(node)
    imports = dict(_imports(tree))
    used = {word for each in ast.walk(tree) for word in _mentioned(each)}
    return Parts(
        {name: _of(each, lines, of_tests) for name, each in nodes.items()},
        imports,
        [dotted for name, dotted in imports.items() if name not in used],
    )


def _mentioned(node: ast.AST) -> list[str]:
    """Names, those of annotations too, and those that strings may name."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.findall(r"\w+", node.value) if len(node.value) < _ANNOTATION else []
    return [node.id] if isinstance(node, ast.Name) else []


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """What runs on an import, imports aside: they are looked up where a name is used."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.If) and re.search("TYPE_CHECKING|__main__", ast.unparse(node.test)):
            continue
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            yield node


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return []
    stored = [each for target in targets if target for each in ast.walk(target)]
    return [
        each.id for each in stored if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    ]


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for each in node.names:
                yield each.asname or each.name, f"{node.module}.{each.name}"
        elif isinstance(node, ast.Import):
            for each in node.names:
                first = each.name.partition(".")[0]
                yield (each.asname, each.name) if each.asname else (first, first)


def _of(nodes: list[ast.stmt], lines: list[str], of_tests: bool) -> Part:
    digest = hashlib.sha1()
    uses: set[str] = set()
    words: set[str] = set()
    command_line, fixture = False, ""
    for node in nodes:
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(each.lineno for each in decorators)])
        digest.update("".join(lines[first - 1 : node.end_lineno]).encode())
        for each in decorators:
            if _FIXTURE.search(said := ast.unparse(each)):
                fixture = "autouse" if "autouse=True" in said else "named"
        for each in _runs(node):
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                uses.update(_NAMED.findall(each.value))
                if of_tests:
                    words.update(_WORD.findall(each.value))
                    command_line |= bool(_COMMAND_LINE.search(each.value))
            elif isinstance(each, ast.arg) and of_tests:
                words.add(f"@{each.arg}")
                uses.add(each.arg)
            elif isinstance(each, ast.Call) and _ASKS.search(_dotted(each.func)):
                words.update(f"@{a.value}" for a in each.args if isinstance(a, ast.Constant))
            elif dotted := _dotted(each):
                uses.add(dotted)
    sorted_uses, sorted_words = tuple(sorted(uses)), tuple(sorted(words))
    return Part(digest.hexdigest()[:12], sorted_uses, sorted_words, command_line, fixture)


def _runs(node: ast.AST) -> Iterator[ast.AST]:
    """What Python evaluates of a node: no annotations, no docstrings; a.b.c is one."""
    yield node
    if _dotted(node):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
                continue
            if isinstance(each, ast.AST):
                yield from _runs(each)


def _dotted(node: ast.AST) -> str:
    """a.b.c of a name with attributes, "" of another node."""
    ends: list[str] = []
    while isinstance(node, ast.Attribute):
        ends.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(ends)]) if isinstance(node, ast.Name) else ""
