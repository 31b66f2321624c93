"""An option is declared once: its word, its default and its help come of a field."""

import argparse
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from reput.jobs.console.declared import add_options, given, option, shown


@dataclass(frozen=True)
class Asked:
    store: str
    to: str = field(metadata=shown("where to write", "--output"))
    _: KW_ONLY
    bodies: bool = option("leave out the bodies", True, "--no-bodies")
    dry_run: bool = option("write nothing", False)
    topics: Sequence[str] = option("only this topic", (), "--topic")
    others: Sequence[str] = option("more stores", (), nargs="+")
    format: str = option("what is written", "parquet", "--as", dest="kind")
    limit: int | None = option("so many", type=int)
    api_alone: int = 3


def parsed(*words: str, **more: Any) -> Asked:
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("--format")
    add_options(parser, Asked)
    return given(parser.parse_args(["s", "--output", "o", *words]), Asked, **more)


def test_words_become_fields_and_what_a_command_makes_itself_wins() -> None:
    for words, fields in [
        ((), {}),
        (("--no-bodies", "--limit", "0"), {"bodies": False, "limit": 0}),
        (("--dry-run",), {"dry_run": True}),
        (("--topic", "A", "--topic", "B", "--others", "C", "D"),
         {"topics": ["A", "B"], "others": ["C", "D"]}),
        (("--as", "jsonl", "--format", "json"), {"format": "jsonl"}),
    ]:  # fmt: skip
        wanted: dict[str, Any] = {"topics": [], "others": [], **fields}
        assert parsed(*words) == Asked("s", "o", **wanted)
    assert parsed("--limit", "2", limit=5, api_alone=4).limit == 5
