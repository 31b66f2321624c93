"""A healthy store of a few messages."""

from pathlib import Path

from reput.store_format.message.message import Message
from tests.broker.writer.stores import Clock, open_writer
from tests.jobs.opening.writing import SETTINGS


def made(root: Path, count: int = 1000, first: int = 0, tags: str = "") -> Path:
    """A writer's store: a queue of early messages alone, and six that go on. Without tags each
    look at its release reads all records.
    """
    clock = Clock()
    with open_writer(root, clock, **SETTINGS) as writer:
        if not first:
            for number in range(30):
                writer.append(Message("Idle", b"b" * 60, keys=f"i{number}"))
        for number in range(first, first + count):
            clock.now += 700
            writer.append(
                Message(f"T{number % 2}", b"b" * 60, number % 3, keys=f"k{number}", tags=tags)
            )
    return root
