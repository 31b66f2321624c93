"""`reput groups STORE`: how far each consumer group has come in each queue, and its lag.

--in-flight lists popped messages without acknowledgement, --clients a group's clients with the
queues that each would get.
"""

import argparse
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from reput.broker.serving.allotting import MessageQueue, Strategy, allocation, strategies
from reput.jobs.console.rows import OutputColumn, add_listing, columns_of, run_listing
from reput.jobs.opening.questions import Store
from reput.store_format.query.inventory import GroupRow
from reput.store_format.query.pop_leftovers import InFlightRow
from reput.store_format.release.settings import SettingError

_EPILOG = """\
examples:
  reput groups /data/store
  reput groups /data/store --in-flight
  reput groups /data/store --group billing --clients 10.0.0.1@7,10.0.0.2@7
"""
_COLUMNS = columns_of(
    "group", "topic", "queue=queue_id#", "consumed=consumer_offset#", "end=max_offset#", "lag#",
    OutputColumn("lag s", lambda row: row.lag_seconds, shown="{:,.1f}".format),
)  # fmt: skip
_IN_FLIGHT_COLUMNS = columns_of(
    "group", "topic", OutputColumn("parent", lambda row: row.parent or "", True),
    "queue=queue_id#", "offset#", "popped=since@", "again=until@",
)  # fmt: skip


class Share(NamedTuple):
    """The queues of a topic that one client of a group would get by one strategy."""

    group: str
    topic: str
    strategy: str
    client: str
    queues: list[int]


_SHARE_COLUMNS = columns_of("group", "topic", "strategy", "client", "queues")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    add_listing(parser)
    parser.add_argument("--group", metavar="G", help="only this group")
    parser.add_argument(
        "--in-flight", action="store_true",
        help="list instead the messages that were popped, and that nobody had acknowledged when "
        "the broker ended",
    )  # fmt: skip
    parser.add_argument(
        "--clients", type=_words, metavar="ID,ID...",
        help="show instead which queues each of these clients of a group would get, by each "
        "allocation strategy of RocketMQ's client",
    )  # fmt: skip
    parser.add_argument(
        "--broker-name", metavar="NAME", default="broker-a",
        help="with --clients: the broker's name (broker-a), by which queues are hashed and rooms "
        "known",
    )  # fmt: skip
    parser.add_argument(
        "--rooms", type=_words, metavar="ROOM,ROOM...", default=[],
        help="with --clients: for MACHINE_ROOM, which takes queues of brokers named ROOM@NAME",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    def rows(store: Store) -> list[GroupRow]:
        found = store.groups(scan=arguments.scan)
        return [row for row in found if arguments.group in (None, row.group)]

    if arguments.in_flight:
        return run_listing(arguments, partial(_in_flight, arguments), _IN_FLIGHT_COLUMNS)
    if arguments.clients is None:
        return run_listing(arguments, rows, _COLUMNS)
    shares = strategies(arguments.rooms)

    def shared(store: Store) -> list[Share]:
        return list(_shares(store, rows(store), arguments.clients, arguments.broker_name, shares))

    return run_listing(arguments, shared, _SHARE_COLUMNS)


def _in_flight(arguments: argparse.Namespace, store: Store) -> list[InFlightRow]:
    if arguments.clients is not None:
        raise SettingError("--in-flight and --clients list different things: one of them")
    found = store.in_flight(scan=arguments.scan)
    return [row for row in found if arguments.group in (None, row.group)]


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _shares(
    store: Store, rows: list[GroupRow], clients: list[str], broker: str,
    shares: dict[str, Strategy],
) -> Iterator[Share]:  # fmt: skip
    """The shares of each group's topics in turn, in which all queues of the store take part."""
    queues: dict[str, list[MessageQueue]] = {}
    for row in store.queues():
        queues.setdefault(row.topic, []).append(MessageQueue(row.topic, broker, row.queue_id))
    for group, topic in dict.fromkeys((row.group, row.topic) for row in rows):
        if topic not in queues:
            continue  # the whole topic has expired
        for name, strategy in shares.items():
            for client, share in allocation(strategy, queues[topic], clients).items():
                yield Share(group, topic, name, client, [queue.queue_id for queue in share])
