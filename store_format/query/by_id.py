"""Messages by message id: the broker's, or the client's."""

from collections.abc import Iterator

from reput.store_format.log.reader import NoRecord, NotInLog
from reput.store_format.log.record import Record
from reput.store_format.message.ids import BadMessageId, OffsetId, parse_message_id
from reput.store_format.notes import Notes
from reput.store_format.query.by_key import by_key
from reput.store_format.query.opened_store import OpenedStore
from reput.store_format.query.stored_message import StoredMessage


def by_message_id(
    store: OpenedStore, text: str, topic: str | None, names: list[str], from_log: bool, notes: Notes
) -> Iterator[StoredMessage]:
    """The message at the place in a broker's id, or else those with a client's id.

    A broker's id also holds its host. The message must have that as storeHost; otherwise it is at
    that place only by chance. topic: where to search, None for anywhere; names: the topics for
    which the index is searched. Raises BadMessageId.
    """
    as_broker, as_client = parse_message_id(text)
    record = _at(store, as_broker)
    if record is not None:
        notes.note(f"the id is a broker's: {as_broker}")
        message = store.message(record)
        if topic in (None, message.topic):
            yield message
        return
    found = False
    for key in dict.fromkeys((text, text.upper())):

        def wanted(message: StoredMessage, key: str = key) -> bool:
            return message.unique_key == key and topic in (None, message.topic)

        messages = by_key(store, names, key, wanted, from_log, notes)
        for message in messages:
            if not found:
                made = as_client.made_at(message.store_timestamp)
                notes.note(f"the id is a client's: {as_client}, which is {made} in UTC")
            found = True
            yield message
    if not found:
        notes.note(f"the id is found neither as a broker's ({as_broker}) nor as a client's")


def who_is(store: OpenedStore, text: str) -> tuple[str, str]:
    """(UNIQ_KEY of the message with an id, the broker's id by which its retries name it).

    A text that is not the broker's id of an existing message counts as a UNIQ_KEY.
    """
    try:
        record = _at(store, parse_message_id(text)[0])
    except BadMessageId:
        record = None
    if record is None:
        return text, ""
    return store.message(record).unique_key or "", text.upper()


def _at(store: OpenedStore, wanted: OffsetId) -> Record | None:
    try:
        record = store.log.record_at(wanted.physical_offset)
    except (NoRecord, NotInLog):
        return None
    return record if record.store_host == wanted.store_host else None
