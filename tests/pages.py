"""The pages for people, and the code on them."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
_BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.M | re.S)
_TEXTS = {p: p.read_text("utf-8") for p in PAGES}


def blocks(page: Path, language: str | None = None) -> Iterator[str]:
    """Code between fences, of one language or of all, without the indent of a list."""
    for indent, name, code in _BLOCK.findall(_TEXTS[page]):
        if language in (None, name):
            yield "\n".join(line.removeprefix(indent) for line in code.splitlines())
