"""Which folder imports which, drawn from the code itself: the page "Imports" of the site.

A folder is one box. What a box needs through another is not drawn again, so that the picture
shows the layers; the table below it has every arrow. `python scripts/imports.py` prints the page
(`make imports`), and fails where two folders import each other, however far around.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("store_format", "broker", "udfs", "jobs")
Arrows = Mapping[str, set[str]]

_HEAD = """\
# Who imports whom

For developers: which folder may import which? The page is drawn from the code (`make imports`
prints it). An arrow runs from a folder to what it imports. No arrow runs back: a folder stands on
those that it imports, and on nothing that stands on it.

"""


def modules() -> Iterator[Path]:
    """All modules of the four packages, below the root."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT)


def box(module: Path) -> str:
    """The folder that a module is in; the modules of a package's top are a box of their own."""
    return module.parent.as_posix()


def imported(module: Path, known: set[str]) -> Iterator[str]:
    """Dotted names, without `reput.`, of our own modules that a module imports."""
    for node in ast.walk(ast.parse((ROOT / module).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            name = name.removeprefix("reput.")
            while name and name not in known:
                name = name.rpartition(".")[0]
            if name:
                yield name


def arrows() -> dict[str, set[str]]:
    """Folder -> the folders that it imports."""
    found: dict[str, set[str]] = defaultdict(set)
    names = {
        path.with_suffix("").as_posix().replace("/", "."): path
        for path in modules()
        if path.name != "__init__.py"
    }
    for path in names.values():
        found[box(path)] |= {box(names[name]) for name in imported(path, set(names))}
    return {folder: needs - {folder} for folder, needs in sorted(found.items())}


def layers(needs: Arrows) -> list[list[str]]:
    """The folders from the ground up, each above all that it imports. Raises ValueError."""
    placed: set[str] = set()
    found = []
    while len(placed) < len(needs):
        layer = sorted(f for f in needs if f not in placed and needs[f] <= placed)
        if not layer:
            raise ValueError(f"these import each other: {sorted(set(needs) - placed)}")
        found.append(layer)
        placed |= set(layer)
    return found


def reaches(needs: Arrows, start: str) -> set[str]:
    """All that a folder needs, itself or through others."""
    found: set[str] = set()
    waiting = list(needs[start])
    while waiting:
        folder = waiting.pop()
        if folder not in found:
            found.add(folder)
            waiting += needs[folder]
    return found


def page(needs: Arrows) -> str:
    """The whole page: a picture in Mermaid's words, and a table of all arrows."""
    lines = ["```mermaid", "flowchart BT"]
    names = {folder: folder.replace("/", "_") for folder in needs}
    lines += [f'  {name}["{folder}"]' for folder, name in names.items()]
    for folder, direct in needs.items():
        beyond = set().union(*(reaches(needs, each) for each in direct)) if direct else set()
        lines += [f"  {names[folder]} --> {names[each]}" for each in sorted(direct - beyond)]
    lines += ["```", "", "| folder | imports |", "|---|---|"]
    for layer in layers(needs):
        for folder in layer:
            lines.append(f"| `{folder}/` | {', '.join(f'`{e}/`' for e in sorted(needs[folder]))} |")
    return _HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page(arrows()))
