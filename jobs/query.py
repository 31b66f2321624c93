"""`reput query STORE`: messages by key, id, position or time, from a store's files alone."""

import argparse
import base64
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from reput.jobs.console import rows
from reput.jobs.console.options import DONE, at_least_one, before, milliseconds, new_file, number
from reput.jobs.console.voice import in_zone, remark, safe, time_text
from reput.jobs.opening.questions import Store
from reput.store_format.faults import StoreError, WrongFilter
from reput.store_format.log.reader import NoRecord, NotInLog
from reput.store_format.query.reader import StoredMessage

if TYPE_CHECKING:
    from reput.store_format.filter.filters import Filter

# ---
# Refuses options of `reput query` that do not go together, so that none is ignored.

_TIMES, _FILTERS = {"--since", "--until"}, {"--tags", "--sql", "--grep", "--unconsumed-by"}
# What is asked for -> options that narrow it. --max, --limit and --scan go with everything.
_OBEYED = {
    "--key": _TIMES | _FILTERS | {"--topic", "--as-rocketmq"},
    "--keys-file": _TIMES | _FILTERS | {"--topic"},
    "--unique-key": {"--topic", "--as-rocketmq"},
    "--message-id": {"--topic"},
    "a position in a queue": _FILTERS | {"--topic", "--queue"},
    "a place in the log": set[str](),
    "a topic": _TIMES | _FILTERS | {"--topic", "--queue", "--as-rocketmq"},
    "the whole log": _TIMES | _FILTERS,
}
_NAMES = {"begin": "--since", "end": "--until"}
_NARROWING = (
    "topic", "queue", "begin", "end", "tags", "sql", "grep", "unconsumed_by", "as_rocketmq",
)  # fmt: skip


def refuse_words(arguments: argparse.Namespace) -> None:
    """Raise StoreError if options ask for nothing, for two things at once, or would be ignored."""
    way = _way(arguments)
    values = {_option(name): getattr(arguments, name) for name in _NARROWING}
    given = {option for option, value in values.items() if value is not None and value is not False}
    if way in ("--key", "--keys-file") and "--topic" not in given:
        raise StoreError(f"{way} is looked up in a topic: name it with --topic")
    if "--queue" in given and "--topic" not in given:
        raise StoreError("--queue is one of a topic: name it with --topic")
    unheeded = sorted(given - _OBEYED[way])
    if unheeded:
        raise StoreError(f"{', '.join(unheeded)}: not obeyed where {way} is asked for")
    if arguments.as_rocketmq and arguments.scan:
        raise StoreError("--as-rocketmq: a broker never answers by --scan")
    if arguments.as_rocketmq and arguments.rocketmq is None:
        raise StoreError("--as-rocketmq: brokers differ: name the release with --rocketmq")
    if arguments.decompress and not arguments.body:
        raise StoreError("--decompress: no body is shown: name the form with --body")


def _way(arguments: argparse.Namespace) -> str:
    """What is asked for: a key of _OBEYED. Raises StoreError."""
    named = [
        _option(name) for name in ("key", "keys_file", "unique_key", "message_id", "offset")
        if getattr(arguments, name) is not None
    ]  # fmt: skip
    if len(named) > 1:
        raise StoreError(f"{', '.join(named)}: one of them is asked for at a time")
    if named and named != ["--offset"]:
        return named[0]
    if named:
        if (arguments.topic is None) != (arguments.queue is None):
            raise StoreError("--offset: a position with --topic and --queue, a place without both")
        return "a place in the log" if arguments.topic is None else "a position in a queue"
    if arguments.topic is None and not arguments.scan:
        raise StoreError("name what to look for: --topic, an id, or --scan for the whole log")
    return "the whole log" if arguments.topic is None else "a topic"


def _option(name: str) -> str:
    return _NAMES.get(name, f"--{name.replace('_', '-')}")


_MISSING_SHOWN = 3  # keys without a message that are named
_SCREEN = 20  # messages that a terminal is shown
_COUNTING = 2.0  # seconds for counting messages that are not shown

_EPILOG = """\
what is asked for, one of
  --topic T --key K [--since TIME] [--until TIME]  a key, one of KEYS or the UNIQ_KEY
  --topic T --keys-file FILE [--since] [--until]   many keys, one a line; - is standard input
  --unique-key K [--topic T]                     the id that the client gave
  ID [--topic T], or --message-id ID             the broker's id or the client's, as it is found
  --topic T --queue Q --offset N [--limit M]     a position in a queue, and what follows
  --topic T [--queue Q] [--since TIME] [--until TIME]
  --offset PHYSICAL                              a place in the log
Messages come in the log's order. TIME, of storeTimestamp: milliseconds since 1970, 2026-01-31,
2026-01-31T12:00:00Z, '2h ago' or now; --until itself is not within. Where queues and index are
missing, behind or damaged, that is said on standard error and the log is read.

examples:
  reput query /data/store --topic Orders --since '2h ago'
  reput query /data/store --topic Orders --key o-17 --body text

exit codes: 0 done, also where nothing was found (said on standard error), 2 wrong usage or no such
store, 3 a file could not be read
"""
_BODIES: dict[str, Callable[[bytes], str]] = {
    "text": lambda body: body.decode("utf-8", "backslashreplace"),
    "hex": bytes.hex,
    "base64": lambda body: base64.b64encode(body).decode(),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    rows.add_asked_store(parser)
    parser.add_argument("--topic", metavar="T", help="messages of this topic")
    parser.add_argument("--key", metavar="K", help="a key of --topic: one of KEYS or the UNIQ_KEY")
    parser.add_argument(
        "--keys-file", metavar="FILE", help="look up all keys of a file (UTF-8, one a line)"
    )
    parser.add_argument("--unique-key", metavar="K", help="the id that the client gave (UNIQ_KEY)")
    rows.add_message_id(parser)
    parser.add_argument("--queue", type=number, metavar="Q", help="only this queue of --topic")
    parser.add_argument(
        "--offset", type=number, metavar="N",
        help="a position in --queue of --topic; without these a physical offset",
    )  # fmt: skip
    how_many = parser.add_mutually_exclusive_group()
    rows.add_limit(how_many, f" (a terminal: {_SCREEN})")
    how_many.add_argument("--all", action="store_true", help="show all, on a terminal too")
    parser.add_argument(
        "--since", dest="begin", type=milliseconds, metavar="TIME", help="stored then or later"
    )
    parser.add_argument(
        "--until", dest="end", type=before, metavar="TIME", help="stored before that"
    )
    parser.add_argument(
        "--max", dest="most", type=at_least_one, metavar="N",
        help="N messages at most, of a key the newest; it is said where there are more",
    )  # fmt: skip
    parser.add_argument("--tags", metavar="'A || B'", help="only messages with one of these tags")
    parser.add_argument(
        "--sql", metavar="EXPRESSION", help="only messages that this SQL92 expression selects"
    )
    parser.add_argument(
        "--grep", metavar="REGEX",
        help="only messages in whose body, or in a name or value of whose properties, it is found",
    )  # fmt: skip
    parser.add_argument(
        "--unconsumed-by", metavar="GROUP",
        help="only what this consumer group has not consumed: from its offset on",
    )  # fmt: skip
    parser.add_argument(
        "--as-rocketmq", action="store_true",
        help="exactly what a broker answers, its limit of 64 and its misses included",
    )  # fmt: skip
    parser.add_argument(
        "--body", metavar="text|hex|base64|FILE",
        help="show bodies so; or write the one message's body to a new file",
    )  # fmt: skip
    parser.add_argument(
        "--decompress", action="store_true",
        help="bodies as their producers gave them, and the messages of an inner batch apart",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    arguments.message_id = rows.message_id(arguments)
    refuse_words(arguments)
    with rows.asked_store(arguments) as store:
        messages = _limited(_found(store, arguments), arguments)
        body = arguments.body
        if body and body not in _BODIES:
            return _write_body(store, messages, arguments)
        show = (_rows_shown if rows.for_programs(arguments) else _table_shown)(arguments)
        many = _show_first(messages, show, _shown_most(arguments), rows.for_programs(arguments))
        if not many:
            _say_nothing(store, arguments)
    return DONE


def _shown_most(arguments: argparse.Namespace) -> int | None:
    """The number of messages to show, None for all: on a terminal a screen, if nothing is given."""
    if arguments.offset is not None and arguments.limit is not None:
        return None  # --limit is obeyed where the queue is read
    given = arguments.limit is not None or arguments.most is not None or arguments.all
    if given or rows.for_programs(arguments) or arguments.keys_file or not sys.stdout.isatty():
        return None if arguments.all else arguments.limit
    return _SCREEN


def _show_first(
    messages: Iterator[StoredMessage], show: Callable[[StoredMessage], None], most: int | None,
    no_more: bool,
) -> int:  # fmt: skip
    """Show `most` messages; returns how many. Unless no_more, count the others for _COUNTING s."""
    many = 0
    for message in islice(messages, most):
        many += 1
        show(message)
    until, more = time.monotonic() + _COUNTING, 0
    for _ in messages if many == most and not no_more else ():
        more += 1
        if time.monotonic() > until:
            break
    if more:
        least = "more than " if time.monotonic() > until else ""
        remark(f"{least}{more:,} more: --all shows them, --limit N shows N")
    return many


def _say_nothing(store: Store, arguments: argparse.Namespace) -> None:
    topic = arguments.topic
    unknown = topic is not None and not arguments.scan and topic not in store.topic_names()
    remark(rows.NOTHING + (f": the store has no topic {topic!r}" if unknown else ""))


def _found(store: Store, arguments: argparse.Namespace) -> Iterable[StoredMessage]:
    topic, times = arguments.topic, {"begin": arguments.begin, "end": arguments.end}
    how = {"as_rocketmq": arguments.as_rocketmq, "scan": arguments.scan}
    where = _where(store, arguments)
    if arguments.key is not None:
        return store.query(
            topic, arguments.key, most=arguments.most, where=where, **times, **how
        )  # fmt: skip
    if arguments.keys_file is not None:
        return _by_keys(store, arguments, where)
    if arguments.unique_key is not None:
        return store.by_unique_key(arguments.unique_key, topic, **how)
    if arguments.message_id is not None:
        return store.by_message_id(arguments.message_id, topic, scan=arguments.scan)
    if arguments.offset is not None and topic is None:
        return _at(store, arguments.offset)
    return store.messages(
        topic, arguments.queue, arguments.offset, arguments.limit, where=where, **times, **how
    )  # fmt: skip


def _by_keys(
    store: Store, arguments: argparse.Namespace, where: "Filter | None"
) -> Iterator[StoredMessage]:
    """The messages with the keys of a file; at the end a remark names keys without messages."""
    found = store.query_keys(
        arguments.topic, rows.read_keys(arguments.keys_file), begin=arguments.begin,
        end=arguments.end, where=where, scan=arguments.scan,
    )  # fmt: skip
    yield from found
    if found.missing:
        first = ", ".join(map(repr, found.missing[:_MISSING_SHOWN]))
        more = ", ..." if len(found.missing) > _MISSING_SHOWN else ""
        remark(f"{len(found.missing)} of the keys were not found: {first}{more}")


def _where(store: Store, arguments: argparse.Namespace) -> "Filter | None":
    """The filter of --tags, --sql, --grep and --unconsumed-by. Raises StoreError."""
    asked = arguments.tags, arguments.sql, arguments.grep, arguments.unconsumed_by
    if set(asked) == {None}:
        return None
    try:
        return store.filter(*asked)
    except WrongFilter as error:
        raise StoreError(str(error)) from None


def _at(store: Store, place: int) -> list[StoredMessage]:
    try:
        return [store.message_at(place)]
    except (NoRecord, NotInLog) as error:
        remark(str(error))
        return []


def _limited(
    messages: Iterable[StoredMessage], arguments: argparse.Namespace
) -> Iterator[StoredMessage]:
    """At most --max messages; a query by key has obeyed it already."""
    for number_, message in enumerate(messages):
        if arguments.most is not None and number_ >= arguments.most:
            remark(f"cut: the first {arguments.most}; there are more")
            return
        yield message


def _rows_shown(arguments: argparse.Namespace) -> Callable[[StoredMessage], None]:
    body, decompress, writer = arguments.body, arguments.decompress, rows.RowWriter(arguments)

    def show(message: StoredMessage) -> None:
        row: dict[str, Any] = message.row()
        if body:
            raw = rows.body_of(message, decompress)
            row["body"] = _BODIES[body](raw)
            inner = rows.inner_of(message, raw) if decompress else []
            if inner:
                row["messages"] = [
                    rows.inner_row(message, n, one) | {"body": _BODIES[body](one.body)}
                    for n, one in enumerate(inner)
                ]
        writer.write(row)

    return show


def _table_shown(arguments: argparse.Namespace) -> Callable[[StoredMessage], None]:
    """A function that shows a message as a line, with its properties and body below."""
    body, decompress, begun = arguments.body, arguments.decompress, False
    title = in_zone("storeTimestamp")
    width = max(len(title), len(time_text(0)))

    def show(message: StoredMessage) -> None:
        nonlocal begun
        if not begun:
            sys.stdout.write(
                f"{'physicalOffset':>14}  {title:<{width}}  {'topic/queue':<32}  "
                f"{'queueOffset':>11}  {'size':>9}\n"
            )
            begun = True
        record = message.record
        where = safe(f"{message.topic}/{message.queue_id}")
        stored = time_text(record.store_timestamp)
        sys.stdout.write(
            f"{record.physical_offset:>14}  {stored:<{width}}  {where:<32}  "
            f"{record.queue_offset:>11}  {record.size:>9}\n"
        )
        for name, value in message.properties.items():
            sys.stdout.write(f"    {safe(name)} = {safe(value)}\n")
        if not body:
            return
        raw = rows.body_of(message, decompress)
        inner = rows.inner_of(message, raw) if decompress else []
        if not inner:
            sys.stdout.write(f"    body: {safe(_BODIES[body](raw))}\n")
        for n, one in enumerate(inner):
            row = rows.inner_row(message, n, one)
            sys.stdout.write(f"    message {row['queueOffset']} of the batch, flag {one.flag}\n")
            for name, value in row["properties"].items():
                sys.stdout.write(f"        {safe(name)} = {safe(value)}\n")
            sys.stdout.write(f"        body: {safe(_BODIES[body](one.body))}\n")

    return show


def _write_body(
    store: Store, messages: Iterator[StoredMessage], arguments: argparse.Namespace
) -> int:
    file = new_file(arguments, "body", {})
    first, second = next(messages, None), next(messages, None)
    if first is None:
        _say_nothing(store, arguments)
        return DONE
    if second is not None:
        raise StoreError(f"--body {arguments.body}: several messages were found: expected one")
    assert file is not None
    with file.writing() as output:
        body = rows.body_of(first, arguments.decompress)
        output.write(body)
    remark(f"{arguments.body}: {len(body)} bytes")
    return DONE
