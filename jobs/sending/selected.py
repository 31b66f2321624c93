"""The messages of a store or an export that `reput send` takes, as a producer sends them again."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from reput.broker.wire.producing import SENT_BY, Outgoing, kept_flags, kept_properties, origin_of
from reput.jobs.exporting.append import FromExport, Lines, closing_source, source_of, stored_as
from reput.jobs.exporting.read_back import UNREADABLE, exported_row
from reput.jobs.opening.questions import open_store
from reput.store_format.faults import StoreError, WrongFilter
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.catalogue import MARKER
from reput.store_format.files.folder import Folder
from reput.store_format.filter.sql import sql_filter
from reput.store_format.log.reader import NoRecord, NotInLog
from reput.store_format.log.record import Record
from reput.store_format.message import bodies
from reput.store_format.message.message import check_sendable, parse_properties
from reput.store_format.message.refusals import Refused
from reput.store_format.names import COMMIT_LOG, DLQ_PREFIX, RETRY_PREFIX
from reput.store_format.query.reader import UNIQUE_KEY, StoredMessage, keys_of
from reput.store_format.release.profiles import RELEASES, profile
from reput.store_format.release.settings import SettingError
from reput.store_format.rewrite.changes import is_shared

ORIGIN = "ORIGIN"  # of --to-topic: the topic that a dead letter was sent to at first
_CLOCKS_MS = 600_000  # by which a broker's clock may be behind
_CHOOSING = "topic", "queue", "sql", "keys", "unconsumed_by", "to_topic"


class Selected:
    """The messages of a store or an export that are asked for; they can be read repeatedly."""

    def __init__(self, asked: Any) -> None:
        """asked: as jobs/send.py declares it. Raises SettingError, StoreError, OSError."""
        self.asked, self._files, self._store = asked, ExitStack(), None
        self.missing = 0  # keys that no message had, once all were read
        topic, to, group = asked.topic or "", asked.to_topic, asked.unconsumed_by
        if asked.topic is None and (asked.queue is not None or asked.keys is not None):
            raise SettingError("--queue and --keys-file are of a topic: name it with --topic")
        if to is None and topic.startswith((DLQ_PREFIX, RETRY_PREFIX)):
            raise SettingError(
                f"--to-topic is missing: {ORIGIN} sends what {topic} has to the topics that it "
                "was for, a name to that topic"
            )
        try:
            if to not in (None, ORIGIN):
                check_sendable(to)
        except Refused as error:
            raise SettingError(f"--to-topic: {error}") from None
        self.storage = storage_for(asked.source)
        self.folder = Folder(self.storage, self.storage.resolve(asked.source).rstrip("/"))
        try:
            names = [name for name, _ in self.folder.listed()]
            if MARKER in names:
                raise StoreError(f"{asked.source}: is a backup repository: `reput export` writes "
                                 "its messages to a folder that send takes")  # fmt: skip
            if COMMIT_LOG in names:
                how: Any = {"rocketmq": asked.rocketmq, "settings": asked.settings}
                self._store = open_store(asked.source, tell=asked.tell, **how)
                self._files.enter_context(self._store)
                self._where = (
                    self._store.filter(sql=asked.sql, unconsumed_by=group)
                    if asked.sql or group else None
                )  # fmt: skip
            elif group is not None:
                raise SettingError(f"--unconsumed-by: {asked.source} is no store: it has no groups")
            else:
                self._where = sql_filter(asked.sql, profile(RELEASES[-1])) if asked.sql else None
        except WrongFilter as error:
            raise StoreError(str(error)) from None

    def close(self) -> None:
        self._files.close()

    @property
    def lacking(self) -> bool:
        """Whether the source is damaged, so that messages may be missing."""
        return self._store is not None and self._store.lacking

    def name(self, *more: Any) -> str:
        """A name for source, selection and `more`: hexadecimal digits."""
        said = [getattr(self.asked, name) for name in _CHOOSING]
        raw = json.dumps([self.folder.path, *said, *more]).encode("utf-8", "replace")
        return hashlib.sha256(raw).hexdigest()[:16]

    def check(self, name: str, place: int, unique: str) -> None:
        """Raise StoreError if a store is another than that of which an earlier run sent a message
        at `place`, with this UNIQ_KEY.
        """
        try:
            known = self._store is None or unique in {
                each.unique for each in self._outgoing(self._store.message_at(place), name)
            }
        except NotInLog as error:
            known = place < error.start  # expired
        except NoRecord:
            known = False
        if not known:
            raise StoreError(f"{self.folder}: is another source than when its checkpoint was "
                             "written: name another with --checkpoint")  # fmt: skip

    def messages(
        self, name: str, since: int | None, until: int | None, began: int
    ) -> Iterator[Outgoing]:
        """The messages as they are sent, in the log's order. name: makes UNIQ_KEYs, the same in
        each run, for those that have none, and marks those that stay in their topic: a copy that
        has come into the source is left out. since, until: milliseconds, exclusive at the end.
        began: when this run did: a letter that is dead again already waits for the next.
        """
        last, asked = -1, self.asked
        for each in self._of_store(since, until) if self._store else self._of_export(since, until):
            # by the clock that gave what was sent its bornTimestamp; other clocks may be wrong
            stored = each.store_timestamp >= began - _CLOCKS_MS
            later = stored and each.record.born_timestamp >= began
            if not later and (asked.topic is not None or not is_shared(each.topic)):
                if each.physical_offset <= last:
                    raise StoreError(f"{self.folder}: its messages are not in the log's order")
                last = each.physical_offset
                yield from self._outgoing(each, name)

    def _of_store(self, since: int | None, until: int | None) -> Iterable[StoredMessage]:
        assert self._store is not None
        asked, end = self.asked, None if until is None else until - 1
        how: Any = {"begin": since, "end": end, "where": self._where}
        if asked.keys is None:
            yield from self._store.messages(asked.topic, asked.queue, **how)
            return
        found = self._store.query_keys(asked.topic, asked.keys, **how)
        yield from (each for each in found if asked.queue in (None, each.queue_id))
        self.missing = len(found.missing)

    def _of_export(self, since: int | None, until: int | None) -> Iterable[StoredMessage]:
        asked, keys = self.asked, set(self.asked.keys or ())
        missing = set(keys)
        for record in _records(asked.source):
            each = StoredMessage(record, False, lambda of: of.body or b"")
            if (
                asked.topic in (None, each.topic)
                and asked.queue in (None, each.queue_id)
                and (since is None or each.store_timestamp >= since)
                and (until is None or each.store_timestamp < until)
                and (asked.keys is None or not keys.isdisjoint(keys_of(each.properties)))
                and (self._where is None or each.wanted_by(self._where))
            ):
                missing.difference_update(keys_of(each.properties))
                yield each
        self.missing = len(missing)

    def _outgoing(self, message: StoredMessage, name: str) -> Iterator[Outgoing]:
        """A message, or those of an inner batch one by one."""
        record, topic, refused = message.record, self.asked.to_topic or message.topic, ""
        body, flags, place = message.body(), kept_flags(record.sys_flag), record.physical_offset
        parts = [bodies.InnerMessage(record.flag, body, record.properties)]
        if bodies.is_batch(record.sys_flag):
            try:
                whole = bodies.decompressed(body, record.sys_flag, bodies.BODY_MOST)
                parts, flags = list(bodies.inner_messages(whole)), 0
            except bodies.BodyError as error:
                refused = str(error)
        for number, (flag, content, raw) in enumerate(parts):
            properties = parse_properties(raw)
            to = (origin_of(properties) or "") if topic == ORIGIN else topic
            why = refused
            try:
                check_sendable(to)
            except Refused as error:
                why = str(error) if to else "has neither DLQ_ORIGIN_TOPIC nor RETRY_TOPIC"
            unique = hashlib.sha256(f"{name} {place} {number}".encode()).hexdigest()[:32].upper()
            kept = kept_properties(properties, to, unique)
            if to == message.topic:
                if properties.get(SENT_BY) == name:
                    continue
                kept[SENT_BY] = name
            said = {
                "topic": message.topic, "queueId": record.queue_id, "physicalOffset": place,
                "queueOffset": record.queue_offset + number, "uniqueKey": kept[UNIQUE_KEY],
            }  # fmt: skip
            at = place, number
            yield Outgoing(at, to, record.queue_id, kept, content, flag, flags, said, why)


def _records(source: str) -> Iterator[Record]:
    """The messages of an export. Raises StoreError; SettingError for rows that no store had."""
    try:
        with closing_source(source_of(source, 0)) as found:
            for item in found:
                if isinstance(item, FromExport):
                    yield stored_as(item.where, item.row)
                elif isinstance(item, Lines):
                    for line in item.each():
                        where = f"{source}: line {line.number}"
                        yield stored_as(where, exported_row(json.loads(line.text)))
                else:
                    raise SettingError(f"{source}: is no export: `reput append` takes such rows")
    except SettingError as error:
        raise SettingError(str(error).removeprefix("--from ")) from None
    except FileNotFoundError as error:
        raise SettingError(f"{source}: {error.strerror}") from None
    except Refused as error:
        raise StoreError(str(error)) from None
    except (*UNREADABLE, RecursionError) as error:  # whose text may contain parts of a message
        raise StoreError(f"{where}: cannot be read ({type(error).__name__})") from None
