"""A store whose topics of popped messages are written by a test."""

import json
from pathlib import Path
from typing import Any

from reput.broker.writer.writer import CommitLogWriter
from reput.jobs.opening.questions import open_store
from reput.store_format.message.message import TIMER_TOPIC, Message
from reput.store_format.query.pop_leftovers import InFlightRow
from reput.store_format.release.settings import writer_settings_from

REVIVE = "rmq_sys_REVIVE_LOG_C"
POPPED = 1_795_000_000_000


def point(start: int, many: int = 1, group: str = "g", topic: str = "T", **more: Any) -> Any:
    """A PopCheckPoint."""
    return {
        "bm": 0, "bn": "b", "c": group, "d": list(range(many)), "it": 60_000, "n": many,
        "pt": POPPED, "q": 1, "ro": 0, "so": start, "t": topic, **more,
    }  # fmt: skip


def ack(start: int, offset: int, **more: Any) -> Any:
    """An AckMsg."""
    return {"ao": offset, "bn": "b", "c": "g", "pt": POPPED, "q": 1, "so": start, "t": "T", **more}


class Made:
    """A store whose timer topic and revive topic are written here."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer = CommitLogWriter.open(
            str(path), writer_settings_from({}, release="5.3.3"), clock=lambda: POPPED,
            release="5.3.3", background=False,
        )  # fmt: skip

    def put(self, tags: str, body: Any, delivered: bool = False) -> None:
        topic, properties = (REVIVE, {}) if delivered else (TIMER_TOPIC, {"REAL_TOPIC": REVIVE})
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.writer.append(Message(topic, raw, 0, tags, properties=properties))

    def config(self, file: str, name: str, table: Any) -> None:
        (self.path / "config").mkdir(exist_ok=True)
        (self.path / "config" / file).write_text(json.dumps({name: table}))

    def rows(self, **more: Any) -> tuple[list[InFlightRow], list[str]]:
        self.writer.dispatch()
        with open_store(str(self.path), rocketmq="5.3.3") as store:
            found = store.in_flight(**more)
            return list(found), list(found.notes)
