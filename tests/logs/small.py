"""A small log, and a store that has it."""

from typing import Any

from tests.logs.encoder import Message, properties

SEGMENT = 4096
SETTINGS = {"mappedFileSizeCommitLog": str(SEGMENT), "maxIndexNum": "50", "maxHashSlotNum": "7"}


def messages(count: int = 90, **over: Any) -> list[Message]:
    return [Message(queue_offset=number, body=b"body of some length",
        properties=properties(("KEYS", f"k{number}")), **over)
        for number in range(count)]  # fmt: skip
