"""Random groups and topics for the allocation strategies, and what RocketMQ's classes say.

`allocation.json` has what RocketMQ answered to the first sixty; test_filters.py asks it more.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from reput.broker.serving.allotting import (
    CannotAllocate,
    MessageQueue,
    averagely,
    averagely_by_circle,
    consistent_hash,
    machine_room,
)

FILE = Path(__file__).parent / "allocation.json"
_BROKERS = ("a", "broker-b", "r1@x", "r2@y", "r1@", "@r1", "r1@x@", "r1@x@y", "größe", "r3@z")
_ROOMS = ("r1", "r2", "r3", "")


def case(seed: int) -> dict[str, Any]:
    """One question, as the driver takes it."""
    random = Random(seed)
    brokers = random.sample(_BROKERS, random.randint(1, 4))
    queues = [[topic, broker, number] for topic in ("T", "Tö")[: random.randint(1, 2)]
              for broker in brokers for number in range(random.randint(0, 9))]  # fmt: skip
    clients = [f"10.0.0.{n}@{random.randint(1, 99999)}" for n in range(random.randint(0, 12))]
    clients += random.choices(clients, k=random.randint(0, 2)) if clients else []
    client = random.choice([*clients, *clients, *clients, "stranger"])
    return {
        "strategy": random.choice(
            ("AVG", "AVG", "AVG_BY_CIRCLE", "MACHINE_ROOM", "CONSISTENT_HASH", "CONFIG")
        ),
        "queues": random.sample(queues, len(queues)),
        "clients": clients,
        "client": client,
        "nodes": random.choice((10, 10, 1, 0, 50, -1)),
        "rooms": random.sample(_ROOMS, random.randint(0, 3)),
        "given": random.sample(queues, len(queues) // 2),
    }


def ours(one: dict[str, Any]) -> list[list[Any]] | None:
    """Our answer in the driver's words; None where RocketMQ throws."""
    queues = [MessageQueue(*queue) for queue in one["queues"]]
    given = [MessageQueue(*queue) for queue in one["given"]]
    arguments = (one["client"], queues, one["clients"])
    try:
        found = {"AVG": lambda: averagely(*arguments),
                 "AVG_BY_CIRCLE": lambda: averagely_by_circle(*arguments),
                 "MACHINE_ROOM": lambda: machine_room(*arguments, rooms=one["rooms"]),
                 "CONSISTENT_HASH": lambda: consistent_hash(*arguments, nodes=one["nodes"]),
                 "CONFIG": lambda: given}[one["strategy"]]()  # fmt: skip
    except CannotAllocate:
        return None
    return [list(queue) for queue in found]
