"""Golden stores as questions are put to them: RocketMQ's log with the files it derived from it."""

import json
from typing import Any

from reput.jobs.cli import main
from tests import golden_stores
from tests.reference import records
from tests.reference.log import Message


def reference_messages(golden: golden_stores.GoldenStore) -> list[Message]:
    """All messages of the log, read by the slow reference."""
    with golden.segments() as segments:
        return list(records(segments, golden.settings, golden.version))


def keys_of(message: Message) -> list[str]:
    """The words that a message is indexed by: UNIQ_KEY and those of KEYS."""
    if message.transaction == 12:
        return []
    unique = message.property("UNIQ_KEY")
    words = (message.property("KEYS") or "").split(" ")
    return ([unique] if unique else []) + [word for word in words if word]


def asked(capsys: Any, *words: str) -> tuple[int, list[dict[str, Any]], str]:
    """(exit code, the JSON lines, standard error) of a command in this process."""
    code = main([*words, "--json"])
    said = capsys.readouterr()
    return code, [json.loads(line) for line in said.out.splitlines()], said.err
