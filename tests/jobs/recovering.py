"""Recoveries in this process, of stores that RocketMQ wrote."""

from pathlib import Path
from typing import Any

from reput.jobs.in_place.recover import Recovered
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.recover import recover
from reput.store_format.message.message import Message
from tests.broker.writer.stores import open_writer
from tests.in_process import Session, as_text
from tests.jobs.opening.writing import SETTINGS


def run(store: Path, version: str = "5.3.3", settings: Any = None, **more: Any) -> Recovered:
    return recover(
        Session(),  # type: ignore[arg-type]
        str(store), rocketmq=version, settings=as_text(settings or SETTINGS),
        cut=Cut(100_000, 3, 3), **more,
    )  # fmt: skip


def crash(store: Path) -> None:
    (store / "abort").write_bytes(b"1")


def made(root: Path, count: int = 300) -> Path:
    with open_writer(root, **SETTINGS) as writer:
        for number in range(count):
            writer.append(
                Message(f"T{number % 2}", b"b" * 60, number % 3, tags="t", keys=f"k{number}")
            )
    return root
