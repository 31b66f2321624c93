"""Brokers and their replicas: logs, and what a client reads."""

import time
from collections.abc import Callable
from pathlib import Path

from tests.rocketmq.live import TOPICS, living

SLAVE = {"brokerRole": "SLAVE", "brokerId": 1}


def log_of(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((store / "commitlog").iterdir())}


def until(true: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.2)
    return False


def consumed(version: str, store: Path) -> list[str]:
    """The messages that a client reads from a broker that starts on a copy."""
    with living(version, store) as (_, client):
        return sorted(map(str, client.read(TOPICS)))


SLAVE = {"brokerRole": "SLAVE", "brokerId": 1}
