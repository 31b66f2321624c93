"""Move modules to where `scripts/house.tsv` says, and join those that become one.

    python -m scripts.moved                        # every row that has not been done yet
    python -m scripts.moved store_format/files     # only the rows of these folders or modules

Code is not changed: a joined module is its parts, one after the other, with one head of imports. All
that names a module follows: imports, strings as `reput.jobs.check.check`, paths in prose, the tests at
a module's path. A name that two parts define stops the script, unless `RENAMED` or `SAME` knows it.
"""

import ast
import builtins
import csv
import re
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "scripts" / "house.tsv"
PACKAGES = ("store_format", "broker", "udfs", "jobs")
_PROSE = (
    ".md",
    ".tsv",
    ".toml",
    ".yml",
    ".yaml",
    ".sh",
    ".cfg",
    ".txt",
    ".java",
    ".ipynb",
    ".1",
    "",
)
_WIDTH = 98  # of a comment, without its sign
_LEFT_OUT = {"scripts/house.tsv", "scripts/moved.py"}

# Names that two parts of one module define: (module, name) -> what it is called from now on.
RENAMED: dict[tuple[str, str], str] = {
    ("store_format/rocksdb/services.py", "_number"): "_number_in",
    ("store_format/damage/old_index.py", "_STORED"): "_STORED_FAULT",
    ("store_format/damage/old_index.py", "_KEYS"): "_KEYS_FAULT",
    ("store_format/describe/tiered_index.py", "_damage"): "_damaged_header",
    ("broker/remoting/header_binary.py", "_LANGUAGES"): "_LANGUAGE_NUMBERS",
    ("broker/remoting/header_binary.py", "_text"): "_text_at",
    ("broker/remoting/header_json.py", "_text"): "_field_text",
    ("broker/replication/master.py", "_Common"): "_AnyMaster",
    ("broker/replication/slave.py", "_Common"): "_AnySlave",
    ("broker/serving/offset_requests.py", "everything"): "all_offsets",
    ("broker/serving/group_configs.py", "everything"): "all_configs",
    ("broker/serving/cluster.py", "settings"): "name_server_settings",
    ("broker/serving/runtime.py", "settings"): "broker_settings",
    ("udfs/damage/false_transactions.py", "_WINDOW_BYTES"): "_TRANSACTIONS_WINDOW_BYTES",
    ("udfs/comparing/log_ranges.py", "Row"): "RangeRow",
    ("jobs/console/releases.py", "_WIDTH"): "_LINE_WIDTH",
    ("jobs/judging/verify_report.py", "_SHOWN"): "_SHOWN_DIFFERENCES",
    ("jobs/exporting/append_exported.py", "_rows"): "_exported_rows",
    ("jobs/replicating/ask_master.py", "_RECEIVE_BYTES"): "_ANSWER_BYTES",
    ("jobs/serve/access_keys.py", "_BYTES_MOST"): "_KEYS_BYTES_MOST",
    ("jobs/serve/offsets_file.py", "_BYTES_MOST"): "_OFFSETS_BYTES_MOST",
}
# Names that stand for the same thing in each part, if not to the letter: the first serves all.
SAME = {
    ("store_format/kernels/bytes.py", "_WORD"), ("store_format/filter/rows.py", "_EQUAL"),
    ("store_format/damage/resync.py", "Bytes"), ("store_format/filter/texts.py", "Bytes"),
    ("store_format/describe/log.py", "Bytes"), ("store_format/describe/files.py", "_damage"),
    ("udfs/convert/write.py", "Numbers"), ("broker/writer/copies.py", "RecordRules"),
    ("broker/writer/copies.py", "Read"), ("jobs/sockets/opened.py", "_KILL_SECONDS"),
}  # fmt: skip
# Tables that each part adds to.
ADDED = ("HANDLERS",)
# Where the helpers and data of a folder of tests go, if its modules go to several folders.
FOLDERS = {
    "store_format/disk": "store_format/files", "store_format/storage": "store_format/files",
    "store_format/java": "store_format", "store_format/derive": "store_format/dispatch",
    "store_format/convert": "store_format/rewrite", "broker/remoting": "broker/wire",
    "broker/replication": "broker/wire", "broker/pop": "broker/serving",
    "udfs/comparing": "udfs/compare", "jobs/spark": "jobs/engines", "jobs/serve": "jobs/sockets",
}  # fmt: skip


class Row(NamedTuple):
    today: str
    tomorrow: str
    idea: str


class Part(NamedTuple):
    """A module of today, taken apart."""

    path: str
    docstring: str
    heads: list[ast.Import | ast.ImportFrom]  # imports at its top
    typing: list[ast.Import | ast.ImportFrom]  # those below `if TYPE_CHECKING:`
    body: str  # all else


def main() -> None:
    rows = [Row(*row) for row in csv.reader(TABLE.open(), delimiter="\t")][1:]
    wanted = sys.argv[1:]
    rows = [row for row in rows if (ROOT / row.today).exists() and _is_wanted(row, wanted)]
    house = House(rows)
    house.move()


def _is_wanted(row: Row, wanted: list[str]) -> bool:
    folder = str(PurePosixPath(row.tomorrow).parent)
    if not row.tomorrow.endswith(".py"):
        return False  # out of the packages: by hand
    return not wanted or folder in wanted or row.tomorrow in wanted


def dotted(path: str) -> str:
    return "reput." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


_DOTTED_RENAMES = {(dotted(module), old): new for (module, old), new in RENAMED.items()}


class House:
    def __init__(self, rows: list[Row]) -> None:
        self.parts: dict[str, list[str]] = defaultdict(list)
        self.ideas = {row.tomorrow: row.idea for row in rows}
        for row in rows:
            self.parts[row.tomorrow].append(row.today)
        self.moved = {row.today: row.tomorrow for row in rows}
        self.tests = self._test_paths()
        names = {dotted(today): dotted(tomorrow) for today, tomorrow in self.moved.items()}
        names |= {
            today.removesuffix(".py").replace("/", "."): tomorrow.removesuffix(".py").replace("/", ".")
            for today, tomorrow in self.tests.items() if today.endswith(".py")
        }  # fmt: skip
        self.names = {today: tomorrow for today, tomorrow in names.items() if today != tomorrow}
        self.same_place = set(names) - set(self.names)
        self.pairs = self._pairs()
        self.files = self._file_names()

    # -- where tests go ------------------------------------------------------------------------

    def _test_paths(self) -> dict[str, str]:
        found: dict[str, str] = {}
        self.gone: list[Path] = []
        for today, tomorrow in self.moved.items():
            old, new = PurePosixPath(today), PurePosixPath(tomorrow)
            if old.name == "__init__.py" and new.name == "__init__.py":
                continue
            base = new.stem if new.name != "__init__.py" else new.parent.name
            own = old.stem if old.name != "__init__.py" else old.parent.name
            alone = sum(self._has_test(each) for each in self.parts[tomorrow]) == 1
            name = f"test_{base}.py" if alone or own == base else f"test_{base}_{own}.py"
            test = f"tests/{old.parent}/test_{own}.py"
            if self._has_test(today):
                found[test] = f"tests/{new.parent}/{name}"
        for old_folder, new_folder in FOLDERS.items():
            here = ROOT / "tests" / old_folder
            done = any(str(PurePosixPath(today).parent) == old_folder for today in self.moved)
            for path in sorted(here.rglob("*")) if done and here.is_dir() else ():
                if path.is_dir() or "__pycache__" in path.parts:
                    continue
                inside = path.relative_to(here)
                module = f"{old_folder}/{inside.name.removeprefix('test_')}"
                if (
                    inside.name != "__init__.py"
                    and module not in self.moved
                    and (ROOT / module).exists()
                ):
                    continue  # of a module that is moved later
                test = f"tests/{old_folder}/{inside}"
                there = f"tests/{new_folder}/{inside}"
                if str(inside) == "__init__.py" and (
                    (ROOT / there).exists() or there in found.values()
                ):
                    self.gone.append(path)
                elif test not in found:
                    found[test] = f"tests/{new_folder}/{inside}"
        goals = list(found.values())
        twice = sorted({goal for goal in goals if goals.count(goal) > 1})
        if twice:
            raise SystemExit(f"two tests for one place: {twice}")
        return {today: tomorrow for today, tomorrow in found.items() if today != tomorrow}

    def _has_test(self, module: str) -> bool:
        path = PurePosixPath(module)
        own = path.stem if path.name != "__init__.py" else path.parent.name
        return (ROOT / "tests" / path.parent / f"test_{own}.py").exists()

    # -- moving --------------------------------------------------------------------------------

    def move(self) -> None:
        texts: dict[str, str] = {}
        for tomorrow, parts in self.parts.items():
            if len(parts) == 1:
                texts[tomorrow] = (ROOT / parts[0]).read_text("utf-8")
            else:
                texts[tomorrow] = self.joined(tomorrow, parts)
        for today in self.moved:
            (ROOT / today).unlink()
        for path in self.gone:
            path.unlink()
        for today, tomorrow in self.tests.items():
            (ROOT / tomorrow).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / today).rename(ROOT / tomorrow)
        for tomorrow, text in texts.items():
            (ROOT / tomorrow).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / tomorrow).write_text(text, "utf-8")
        self._packages()
        for path in self._files():
            text = path.read_text("utf-8")
            changed = self.renamed(text, path.suffix, str(path.relative_to(ROOT)))
            if changed != text:
                path.write_text(changed, "utf-8")
        _drop_empty_folders()
        sources = [*PACKAGES, "reput", "tests", "notebooks", "benchmarks", "scripts"]
        ruff = [sys.executable, "-m", "ruff"]
        select = ["--select", "I", "--fix", "--quiet"]
        subprocess.run([*ruff, "check", *select, *sources], cwd=ROOT, check=False)
        select = ["--select", "F401,D202", "--fix", "--quiet"]
        subprocess.run([*ruff, "check", *select, *PACKAGES], cwd=ROOT, check=False)
        subprocess.run([*ruff, "format", "--quiet", *sources], cwd=ROOT, check=True)

    def _packages(self) -> None:
        """Each folder that modules or their tests have gone to is a package."""
        folders = {str(PurePosixPath(path).parent) for path in self.moved.values()}
        for folder in sorted(folders | {f"tests/{each}" for each in folders}):
            init = ROOT / folder / "__init__.py"
            if init.parent.is_dir() and not init.exists():
                init.write_text("")
                print(f"made empty: {init.relative_to(ROOT)}")

    def _files(self) -> Iterator[Path]:
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        for name in listed.stdout.splitlines():
            path = ROOT / name
            if name in _LEFT_OUT or path.is_symlink() or not path.is_file():
                continue
            if path.suffix == ".py" or path.suffix in _PROSE:
                try:
                    path.read_text("utf-8")
                except UnicodeDecodeError:
                    continue
                yield path

    # -- joining -------------------------------------------------------------------------------

    def joined(self, tomorrow: str, paths: list[str]) -> str:
        parts = [taken_apart(path) for path in paths]
        parts = self._in_order(parts, PurePosixPath(tomorrow).stem)
        self._refuse_two_meanings(tomorrow, parts)
        own = {dotted(path) for path in paths}
        defined = {name for part in parts for name in defined_names(part.body)}
        same = {name for place, name in SAME if place == tomorrow} | self._alike(parts)
        heads: list[str] = []
        seen: set[str] = set()
        for part in parts:
            for node in part.heads:
                heads += _kept(node, own, seen)
        typing = []
        for part in parts:
            for node in part.typing:
                typing += _kept(node, own, seen | defined)
        future = [line for line in heads if line.startswith("from __future__")]
        heads = [line for line in heads if line not in future]
        stem = PurePosixPath(tomorrow).stem
        named = [part for part in parts if PurePosixPath(part.path).stem == stem]
        doc = named[0].docstring if named else self.ideas[tomorrow].replace("`", "`")
        doc = doc[0].upper() + doc[1:]
        doc = doc if named or doc.endswith(".") else doc + "."
        end = "\n" if "\n" in doc else ""
        text = f'"""{doc}{end}"""\n\n' + "\n".join([*future, "", *heads]) + "\n\n"
        if typing:
            if "TYPE_CHECKING" not in seen:
                text = text.replace("\n\n", "\n\nfrom typing import TYPE_CHECKING\n", 1)
            text += "if TYPE_CHECKING:\n" + "\n".join(f"    {line}" for line in typing) + "\n\n"
        done = {line.rpartition(" ")[2] for line in heads} & same
        for part in parts:
            body = _without(part.body, own, same, done)
            done |= defined_names(part.body)
            if not body.strip():
                continue
            if part not in named:
                text += section(part.docstring)
            text += body.strip("\n") + "\n\n\n"
        return text.rstrip("\n") + "\n"

    def _alike(self, parts: list[Part]) -> set[str]:
        """The names that two parts define, to the letter."""
        seen: dict[str, str] = {}
        alike = set()
        for part in parts:
            for node in ast.parse(part.body).body:
                for name in defined_names(ast.unparse(node)):
                    if seen.setdefault(name, ast.unparse(node)) == ast.unparse(node):
                        alike.add(name)
                    else:
                        alike.discard(name)
        return alike

    def _in_order(self, parts: list[Part], stem: str) -> list[Part]:
        """What a part uses as it is imported stands before it; else the namesake first."""
        left = sorted(parts, key=lambda part: PurePosixPath(part.path).stem != stem)
        ordered: list[Part] = []
        while left:
            for part in left:
                others = {dotted(each.path) for each in left if each is not part}
                if not any(_names_one_of(node, others) for node in part.heads):
                    ordered.append(part)
                    left.remove(part)
                    break
            else:
                raise SystemExit(f"a circle of {[part.path for part in left]}")
        return ordered

    def _refuse_two_meanings(self, tomorrow: str, parts: list[Part]) -> None:
        defined: dict[str, str] = {}
        own = {dotted(part.path) for part in parts}
        alike = self._alike(parts)
        for part in parts:
            for name in defined_names(part.body):
                if (
                    name in defined
                    and (tomorrow, name) not in SAME
                    and name not in (*ADDED, *alike)
                ):
                    raise SystemExit(f"{tomorrow}: {name} is in {defined[name]} and {part.path}")
                defined[name] = part.path
        imported: dict[str, tuple[str, str]] = {}
        for part in parts:
            for node in part.heads:
                if _names_one_of(node, own):
                    continue
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    module = getattr(node, "module", None) or alias.name.partition(".")[0]
                    module = self.names.get(module, module)
                    if name in defined and (tomorrow, name) not in SAME:
                        raise SystemExit(
                            f"{tomorrow}: {name} is imported in {part.path}, of {defined[name]}"
                        )
                    if (
                        imported.setdefault(name, (module, alias.name))[1] != alias.name
                        and "." not in alias.name
                    ):
                        raise SystemExit(f"{tomorrow}: {name} is imported from two modules")
                    if imported[name][0] != module and (tomorrow, name) not in SAME:
                        raise SystemExit(f"{tomorrow}: {name}: {imported[name]} or {module}")

    # -- names ---------------------------------------------------------------------------------

    def renamed(self, text: str, suffix: str, path: str) -> str:
        """What names modules by an import, with dots, or as a path, as they are called now."""
        if suffix == ".py":
            text = self._imports(text, path)
        text = re.sub(r"\b(?:reput|tests)(?:\.[A-Za-z_]\w*)+", self._dotted, text)
        folders = "|".join(PACKAGES)
        text = re.sub(rf"\b(?:tests/)?(?:{folders})/[\w/]+\.\w+", self._path, text)
        if suffix == ".py":
            return _in_comments(text, self._pair)
        return self._pair(text) if suffix == ".md" else text

    def _dotted(self, found: re.Match[str]) -> str:
        words = found[0].split(".")
        for count in range(len(words), 1, -1):
            name = ".".join(words[:count])
            if (ROOT / f"{name.replace('.', '/')}.py").exists() and name not in self.same_place:
                return found[0]  # a module of now
            if name in self.names or name in self.same_place:
                rest = words[count:]
                if rest and (name, rest[0]) in _DOTTED_RENAMES:
                    rest[0] = _DOTTED_RENAMES[name, rest[0]]
                return ".".join([self.names.get(name, name), *rest])
        return found[0]

    def _path(self, found: re.Match[str]) -> str:
        path = found[0]
        return self.moved.get(path) or self.tests.get(path) or path

    def _pairs(self) -> dict[str, str]:
        """`damage/chain` -> `damage/votes`: how comments and pages name a module by its folder."""
        pairs = {}
        for today, tomorrow in self.moved.items():
            old, new = PurePosixPath(today), PurePosixPath(tomorrow)
            if "__init__.py" not in (old.name, new.name) and old.parent.name not in PACKAGES:
                pairs[f"{old.parent.name}/{old.stem}"] = f"{new.parent.name}/{new.stem}"
        return {old: new for old, new in pairs.items() if old != new}

    def _file_names(self) -> dict[str, str]:
        """`queue_runs.py` -> `runs.py`: where only one module had the name, and none has it now."""
        names: dict[str, set[str]] = defaultdict(set)
        for today, tomorrow in self.moved.items():
            names[PurePosixPath(today).name].add(PurePosixPath(tomorrow).name)
        now = {PurePosixPath(each).name for each in self.moved.values()} | {"__init__.py"}
        return {old: new.pop() for old, new in names.items() if len(new) == 1 and old not in now}

    def _pair(self, text: str) -> str:
        text = re.sub(
            r"(?<![\w/.*<{-])[a-z_0-9]+\.py\b",
            lambda found: self.files.get(found[0], found[0]),
            text,
        )

        def of(found: re.Match[str]) -> str:
            return self.pairs.get(found[0], found[0])

        return re.sub(r"(?<![\w/.])[a-z_]+/[a-z_0-9]+(?![\w/])", of, text)

    def _imports(self, text: str, path: str) -> str:
        """Statements `from reput.a import module`: of a module that has another name now."""
        try:
            tree = ast.parse(text)
        except SyntaxError:
            return text
        spans: list[tuple[int, int, str]] = []
        starts = _line_starts(text)
        local = {name for node in ast.walk(tree) for name in _bound(node)}
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            new, plain, touched = [], [], False
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in self.names:
                    folder, _, name = self.names[whole].rpartition(".")
                    called = alias.asname or alias.name
                    taken = used | local | set(dir(builtins))
                    if not alias.asname and alias.name not in local and name not in taken:
                        for each in ast.walk(tree):
                            if isinstance(each, ast.Name) and each.id == alias.name:
                                at = starts[each.lineno - 1] + each.col_offset
                                spans.append((at, at + len(alias.name), name))
                        called = name
                    new.append(
                        f"from {folder} import {name}" + (f" as {called}" if called != name else "")
                    )
                    touched = True
                elif (node.module, alias.name) in _DOTTED_RENAMES:
                    name = _DOTTED_RENAMES[node.module, alias.name]
                    new.append(f"from {node.module} import {name} as {alias.asname or alias.name}")
                    touched = True
                else:
                    plain.append(alias.name + (f" as {alias.asname}" if alias.asname else ""))
            if touched:
                if plain:
                    new.append(f"from {node.module} import {', '.join(plain)}")
                indent = " " * node.col_offset
                start = starts[node.lineno - 1] + node.col_offset
                end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
                spans.append((start, end, f"\n{indent}".join(new)))
        data = text.encode()
        for start, end, by in sorted(spans, reverse=True):
            data = data[:start] + by.encode() + data[end:]
        return data.decode()


def taken_apart(path: str) -> Part:
    text = (ROOT / path).read_text("utf-8")
    text = _renamed_names(text, path)
    tree = ast.parse(text)
    heads, typing, gone = [], [], []
    for number, node in enumerate(tree.body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            heads.append(node)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            typing += [each for each in node.body if isinstance(each, ast.Import | ast.ImportFrom)]
        elif not (number == 0 and isinstance(node, ast.Expr) and ast.get_docstring(tree)):
            continue
        gone.append((node.lineno, node.end_lineno or node.lineno))
    lines = text.splitlines(keepends=True)
    kept = [
        line for number, line in enumerate(lines, 1)
        if not any(first <= number <= last for first, last in gone)
    ]  # fmt: skip
    docstring = ast.get_docstring(tree) or ""
    return Part(path, docstring, heads, typing, "".join(kept))


def _renamed_names(text: str, path: str) -> str:
    names = {old: new for (module, old), new in RENAMED.items() if module == path}
    if not names:
        return text
    tree, starts = ast.parse(text), _line_starts(text)
    spans = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            at = starts[node.lineno - 1] + node.col_offset
            spans.append((at, at + len(node.id), names[node.id]))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names:
            word = "def " if isinstance(node, ast.FunctionDef) else "class "
            at = starts[node.lineno - 1] + node.col_offset + len(word)
            spans.append((at, at + len(node.name), names[node.name]))
    data = text.encode()
    for start, end, by in sorted(set(spans), reverse=True):
        data = data[:start] + by.encode() + data[end:]
    text = data.decode()
    for old, new in names.items():  # annotations in quotes
        text = re.sub(rf'("[\w\[\], |.]*?)\b{old}\b', rf"\g<1>{new}", text)
    return text


def _line_starts(text: str) -> list[int]:
    """Where lines begin, in bytes, as `ast` counts columns."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.FunctionDef | ast.ClassDef) or (
        isinstance(node, ast.ExceptHandler) and node.name
    ):
        yield node.name


def defined_names(body: str) -> set[str]:
    names = set()
    for node in ast.parse(body).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {
                each.id for target in node.targets for each in ast.walk(target)
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
            }  # fmt: skip
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def _names_one_of(node: ast.Import | ast.ImportFrom, modules: set[str]) -> bool:
    if isinstance(node, ast.Import):
        return False
    return node.module in modules or any(
        f"{node.module}.{each.name}" in modules for each in node.names
    )


def _kept(node: ast.Import | ast.ImportFrom, own: set[str], seen: set[str]) -> list[str]:
    """The statement without what a joined module defines or has imported already."""
    if _names_one_of(node, own):
        return []
    lines = []
    for alias in node.names:
        name = alias.asname or alias.name
        if name in seen:
            continue
        seen.add(name)
        called = alias.name + (f" as {alias.asname}" if alias.asname else "")
        if isinstance(node, ast.ImportFrom):
            lines.append(f"from {node.module} import {called}")
        else:
            lines.append(f"import {called}")
    return lines


def _without(body: str, own: set[str], same: set[str], done: set[str]) -> str:
    """Without imports of a part in functions, and without what an earlier part defines alike."""
    tree = ast.parse(body)
    gone = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and _names_one_of(node, own):
            gone.append((node.lineno, node.end_lineno or node.lineno))
    for node in tree.body:
        names = defined_names(ast.unparse(node))
        if names and names <= same and names <= done:
            gone.append((node.lineno, node.end_lineno or node.lineno))
    lines = body.splitlines(keepends=True)
    text = "".join(
        line for number, line in enumerate(lines, 1)
        if not any(first <= number <= last for first, last in gone)
    )  # fmt: skip
    for name in ADDED:
        if name in done:
            text = re.sub(rf"^{name}: \w+ = ", f"{name} |= ", text, flags=re.MULTILINE)
    return text


def section(docstring: str) -> str:
    lines: list[str] = []
    for paragraph in docstring.split("\n\n"):
        each = paragraph.splitlines()
        if max(map(len, each)) > _WIDTH:
            each = textwrap.wrap(" ".join(each), _WIDTH)
        lines += ["", *each] if lines else each
    return "\n".join(["# ---", *(f"# {line}".rstrip() for line in lines)]) + "\n\n"


def _in_comments(text: str, change) -> str:  # type: ignore[no-untyped-def]
    """Only what Python does not run is changed: comments, and strings in three quotes."""

    def of(found: re.Match[str]) -> str:
        return str(change(found[0]))

    return re.sub(r'"""(?:[^"\\]|\\.|"(?!""))*"""|#[^\n]*', of, text)


def _drop_empty_folders() -> None:
    for top in (*PACKAGES, "tests"):
        for folder in sorted((ROOT / top).rglob("*"), reverse=True):
            if folder.is_dir() and folder.name != "__pycache__":
                left = [each for each in folder.iterdir() if each.name != "__pycache__"]
                inits = [each.name for each in left] == ["__init__.py"]
                if not left or (inits and top == "tests" and "tests" in folder.parts):
                    subprocess.run(["rm", "-rf", str(folder)], check=True)


if __name__ == "__main__":
    main()
