"""The pages for people, and the code on them."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
_BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.M | re.S)
_TOLD = re.compile(r"^( *)(?:<!-- first: (.*?) -->\n+ *)?```console[^\n]*\n(.*?)^ *```",
                   re.M | re.S)  # fmt: skip
_TEXTS = {p: p.read_text("utf-8") for p in PAGES}


def blocks(page: Path, language: str | None = None) -> Iterator[str]:
    """Code between fences, of one language or of all, without the indent of a list."""
    for indent, name, code in _BLOCK.findall(_TEXTS[page]):
        if language in (None, name):
            yield "\n".join(line.removeprefix(indent) for line in code.splitlines())


def told(page: Path) -> Iterator[tuple[str, str]]:
    """(what is to be done out of sight before it or "", code) of each block of console."""
    for indent, before, code in _TOLD.findall(_TEXTS[page]):
        yield before, "\n".join(line.removeprefix(indent) for line in code.splitlines())
