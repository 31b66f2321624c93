"""`reput send`: messages of a store or an export, dead letters above all, to a live cluster."""

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from reput.jobs.console import options
from reput.jobs.console.declared import add_options, option, shown, timed
from reput.jobs.console.rows import RowWriter, for_programs, read_keys
from reput.jobs.console.voice import CSV, add_output, remark
from reput.jobs.engines.choice import alone
from reput.jobs.outputs.report import counted
from reput.store_format.notes import Done, Progress
from reput.store_format.release.settings import SettingError

if TYPE_CHECKING:
    from reput.broker.wire.producing import Outgoing
    from reput.jobs.replicating.peers import Cluster
    from reput.jobs.sending.sender import Sender

_HELP = """\
SOURCE is only read. What a message has of its retries, delays and transactions is left out; its
UNIQ_KEY and user properties stay. Killed, it goes on where it was by its checkpoint, and says which
message may be there twice: one a kill or lost connection at most (docs/send.md).

  reput send /data/store --topic %DLQ%billing --to-topic ORIGIN --to 10.0.0.5:9876 --dry-run
  reput send /data/store --topic Orders --unconsumed-by billing --to 10.0.0.5:9876 --ordered
"""


@dataclass(frozen=True)
class Send:
    """What `reput send` is asked.

    confirm: asked with the number of messages before the first is sent; raises StoreError to stop.
    row: called with a dict for each message. tell: called with each note on the source.
    """

    source: str = field(
        metadata=shown("a store, or an export: its folder, or a file of it", "source",
                       metavar="SOURCE")
    )  # fmt: skip
    to: str = field(metadata=shown("the name server; several with ;", metavar="HOST:PORT"))
    _: KW_ONLY
    to_topic: str | None = option(
        "send to this topic; ORIGIN: to the one that a dead letter or retry was for (default: the "
        "message's own)", metavar="NAME|ORIGIN",
    )  # fmt: skip
    topic: str | None = option("messages of this topic (default: no retries, dead letters or "
                               "system topics)", metavar="T")  # fmt: skip
    queue: int | None = option("only this queue of --topic", metavar="Q", type=options.number)
    since: int | None = timed(
        f"stored then or later: {options.TIME_FORMS}", type=options.milliseconds
    )
    until: int | None = timed("stored before that", type=options.milliseconds)
    sql: str | None = option("only what a subscription would get", metavar="EXPRESSION")
    keys: Sequence[str] | None = option(
        "only messages with a key or UNIQ_KEY of a file (UTF-8, one a line)",
        name="--keys-file", dest="keys_file", metavar="FILE",
    )  # fmt: skip
    unconsumed_by: str | None = option(
        "only what this consumer group has not consumed: from its offset on", metavar="GROUP"
    )
    ordered: bool = option("each queue's messages one after the other into one queue", False)
    rate: int | None = option("messages a second at most", type=options.at_least_one, metavar="N")
    batch: int = option(
        "messages in a request at most (32)", 32, type=options.at_least_one, metavar="N"
    )
    checkpoint: str | None = option(
        "the file by which a killed run goes on (default: reput-send-....jsonl in this folder)",
        metavar="FILE",
    )
    access_keys: str | None = option(
        "sign requests (ACL) with the first key of this file, which only its owner may be able to "
        "read: lines of accessKey: NAME and secretKey: TEXT", metavar="FILE",
    )  # fmt: skip
    tls_ca: str | None = option(
        "TLS, with servers whose certificates this one (PEM) vouches for", metavar="FILE"
    )
    dry_run: bool = False
    rocketmq: str | None = None
    settings: Mapping[str, str] | None = None
    progress: Progress | None = None
    confirm: Callable[[str], None] | None = None
    row: Callable[[dict[str, Any]], Any] = lambda _: None
    tell: Callable[[str], Any] = lambda _: None


@dataclass
class Sent:
    """What was sent, or would be. twice: physical offsets of messages that may be there twice."""

    source: str
    to: str
    checkpoint: str
    sent: int = 0
    before: int = 0  # by earlier runs with this checkpoint
    failed: int = 0
    refused: dict[str, int] = field(default_factory=dict)  # why, before anything is sent
    topics: dict[str, int] = field(default_factory=dict)
    no_route: list[str] = field(default_factory=list)
    twice: list[int] = field(default_factory=list)
    missing: int = 0  # keys of --keys-file that no message has
    lacking: bool = False  # whether the source is damaged, so that messages may be missing
    dry_run: bool = False
    seconds: float = 0.0

    def text(self) -> str:
        verb = "would send" if self.dry_run else "sent"
        lines = [f"{verb} {counted(self.sent, 'message')} of {self.source} to {self.to}"]
        lines += [f"  topic     {topic}: {many:,}" for topic, many in sorted(self.topics.items())]
        lines += [f"  no route  {topic}: the name server knows none" for topic in self.no_route]
        if self.before:
            lines.append(f"  before    {self.before:,} by earlier runs")
        if self.failed:
            verb = "cannot be sent" if self.dry_run else "failed; run again to try them again"
            lines.append(f"  failed    {counted(self.failed, 'message')} {verb}")
            lines += [f"  refused   {many:,}: {why}" for why, many in self.refused.items()]
        lines += [f"  twice?    the message at {at:,} may be there twice" for at in self.twice]
        if self.missing:
            lines.append(f"  missing   {counted(self.missing, 'key')}: no message has it")
        if self.lacking:
            lines.append("  lacking   the source is damaged: messages may be missing")
        if not self.dry_run:
            lines.append(f"  again     sends only what is new: {self.checkpoint} knows the rest")
        return "\n".join(lines)


@alone(Send)
def send(asked: Send) -> Sent:
    """Send messages of a store or an export to a live cluster, once each.

    Raises SettingError, StoreError (PeerFailed if no broker takes messages for too long: run it
    again), OSError.
    """
    from reput.broker.wire.producing import ANY_TOPIC
    from reput.jobs.outputs.output import inputs_of, refuse_overlap
    from reput.jobs.replicating.peers import Cluster
    from reput.jobs.sending.selected import Selected
    from reput.jobs.sending.sender import Checkpoint, Sender
    from reput.store_format.files.folder import Place
    from reput.store_format.files.local import LocalStorage

    started = time.monotonic()
    servers = [options.host_port("--to", each, least=1) for each in asked.to.split(";")]
    cluster = Cluster(servers, _signing(asked), _tls(asked))
    with ExitStack() as stack:
        selected = stack.enter_context(closing(Selected(asked)))
        stack.enter_context(closing(cluster))
        times: list[Any] = [asked.since, asked.until]
        name = selected.name(
            [each.word if isinstance(each, options.Ago) else each for each in times],
            sorted(servers),
        )
        path = os.path.abspath(asked.checkpoint or f"reput-send-{name}.jsonl")
        source = Place(selected.storage, selected.folder.path)
        refuse_overlap(Place(LocalStorage(), path), inputs_of(source, {}))

        def opened() -> Checkpoint:
            about = {"name": name, "source": selected.folder.path}
            return stack.enter_context(closing(Checkpoint(path, about)))

        known = opened() if os.path.exists(path) else None
        done = Sent(asked.source, asked.to, path, dry_run=asked.dry_run)
        began = time.time_ns() // 1_000_000

        def limits() -> list[Any]:
            begun = known.limits if known else []
            return begun + times[len(begun) :]

        def messages() -> "Iterator[Outgoing]":
            if known and known.last:
                selected.check(name, known.after[0], known.last)
            since, until = limits()
            found = selected.messages(name, since, until, began)
            return (one for one in found if known is None or not known.is_done(one.place))

        if asked.dry_run or asked.confirm:
            _count(messages(), cluster, done)
        if not asked.dry_run:
            if asked.confirm and done.sent + done.failed:
                each = [f"{many:,} to {topic}" for topic, many in sorted(done.topics.items())]
                topics = ", ".join([*each[:5], *(["..."] if each[5:] else [])])
                many = counted(done.sent, "message")
                asked.confirm(f"send {many} ({topics}) by the name server {asked.to}")
            cluster.route(ANY_TOPIC)  # a wrong name server is said at once, not after a minute
            known = known or opened()
            known.limit(limits())
            _send_all(messages(), Sender(cluster, known, asked), done)
            known.limit(limits()[:1] if known.failed else [])
        done.missing = selected.missing
        done.lacking = selected.lacking
    done.seconds = time.monotonic() - started
    return done


def _count(messages: "Iterator[Outgoing]", cluster: "Cluster", done: Sent) -> None:
    topics, why = Counter[str](), Counter[str]()
    for one in messages:
        (why if one.refused else topics)[one.refused or one.topic] += 1
    done.failed, done.refused = why.total(), dict(why.most_common(5))
    done.topics, done.sent = dict(topics), topics.total()
    done.no_route = sorted(topic for topic in done.topics if not cluster.route(topic))


def _send_all(messages: "Iterator[Outgoing]", sender: "Sender", done: Sent) -> None:
    known, whole = sender.checkpoint, done.sent
    done.before = known.sent

    def shown() -> Done:
        sent = known.sent - done.before
        return Done(sent / whole if whole else None, f"{sent:,} messages")

    with (sender.asked.progress or Progress()).stage("sent", shown):
        try:
            sender.run(messages)
        finally:
            done.sent, done.failed = known.sent - done.before, len(known.failed)
            done.topics, done.twice = dict(sender.topics), [at for at, _ in known.twice]


def _signing(asked: Send) -> tuple[str, str] | None:
    """The access key and secret key. Raises StoreError, OSError."""
    if asked.access_keys is None:
        return None
    from reput.jobs.sockets.access import read_access_keys, readable

    with readable({asked.access_keys: "--access-keys"}):
        return next(iter(read_access_keys(asked.access_keys).items()))


def _tls(asked: Send) -> Any:
    """As RocketMQ's client, it looks at who signed a certificate, not for which host. Raises
    SettingError.
    """
    if asked.tls_ca is None:
        return None
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    try:
        context.load_verify_locations(asked.tls_ca)
    except OSError as error:  # also ssl.SSLError
        raise SettingError(f"--tls-ca {asked.tls_ca}: {error.strerror or error}") from None
    return context


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    add_options(parser, Send)
    options.add_broker(
        parser, "the release of the store's broker; without it, the newest's rules hold"
    )
    options.add_consent(parser)
    add_output(parser, rows=True, times=True)


def run(arguments: argparse.Namespace) -> int:
    """Send, and say what was sent: 0 done, 1 where a message failed, the source is damaged, or
    --dry-run found something to send.
    """
    writer, programs, said = RowWriter(arguments), for_programs(arguments), 0

    def row(each: dict[str, Any]) -> None:
        nonlocal said
        if programs:
            writer.write(each)
        elif each["remark"] and said < _SHOWN:
            said += 1
            remark(f"{each['topic']}/{each['queueId']} at {each['queueOffset']}: {each['remark']}")

    keys = None if arguments.keys_file is None else read_keys(arguments.keys_file)
    arguments.store = None  # it may be an export
    confirm = None if arguments.yes else options.consent(False)
    asked = options.asked_of(arguments, Send, keys=keys, row=row, tell=remark, confirm=confirm)
    done = send(asked)
    if arguments.format != CSV:
        options.show(arguments, asdict(done), done.text(), good=not done.failed)
    found = done.dry_run and done.sent
    return options.DAMAGE if done.failed or done.lacking or found else options.DONE


_SHOWN = 20  # messages of which it is said why they failed, or on which disks they are not
