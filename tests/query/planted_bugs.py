# ruff: noqa: E501 - a line of source is quoted whole
"""One planted bug for each rule of a query (tests/mutants.py plants them)."""

from tests.planting import Bug

_KEY, _QUEUE = "store_format/query/by_key.py", "store_format/query/by_queue.py"
_GAPS, _OPEN = "store_format/query/gaps.py", "jobs/engine/open_store.py"


def messages(part: str) -> tuple[str, ...]:
    return ("tests/query/test_messages.py", "-k", part)


def bad(part: str) -> tuple[str, ...]:
    return ("tests/query/test_bad_files.py", "-k", part)


BUGS = (
    Bug("a hit's key is compared as text", _OPEN,
        "each.topic == topic and each.has_key(key) and (", "(", bad("point_elsewhere")),
    Bug("times of a key query are exact, both ends within", _KEY,
        "(begin is None or time >= begin)", "(begin is None or time > begin)", messages("times_of_a_key")),
    Bug("messages come in the log's order", _KEY,
        "places = sorted(place for place in found", "places = list(place for place in found",
        messages("logs_order")),
    Bug("a cut answer is told", _KEY,
        '        told.note(f"cut: the newest {most} of {many}")', "        pass", messages("limit")),
    Bug("of a key the newest are kept", _KEY, "deque[StoredMessage](maxlen=most)",
        "deque[StoredMessage]()", messages("limit")),
    Bug("the log behind the index is read", _GAPS,
        "return gaps if start is None else [*gaps, (start, log.end)]", "return gaps", messages("index_behind")),
    Bug("a full index file may lack keys of its last message", _GAPS,
        "        covered = max(last, log.start)", "        pass", messages("index_behind")),
    Bug("a queue file that was cut is told", _QUEUE,
        "if size % entry_bytes(queue.batch) or size < usual:", "if False:", messages("cut_short")),
    Bug("a queue without entries may have lost them", _GAPS,
        "    if not queue.files:\n        return True", "    if not queue.files:\n        return False",
        messages("cut_short")),
    Bug("an entry's message is one of its queue", _QUEUE,
        "if (message.topic, message.queue_id) == (topic, queue_id) or _dispatched(message, topic):", "if True:",
        bad("queue_entries")),
    Bug("a broker's id names its host", "store_format/query/by_id.py",
        "return record if record.store_host == wanted.store_host else None", "return record",
        messages("by_its_ids")),
    Bug("a broken index is not all there is", _KEY,
        "gaps, places = [(store.log.start, store.log.end)], []", "gaps, places = [], []", bad("chain")),
    Bug("damage in the log is told", "store_format/query/scan.py",
        'told.note(\n                    f"{error}', 'str(\n                    f"{error}', bad("damage_in_the_log")),
    Bug("a topic's name is text that a terminal can take", "jobs/query.py",
        'where = safe(f"{message.topic}/{message.queue_id}")', 'where = f"{message.topic}/{message.queue_id}"',
        bad("control")),
    Bug("a body with a wrong CRC is told", "jobs/console/bodies.py",
        "if body and zlib.crc32(body) & 0x7FFFFFFF != record.body_crc:", "if False:", bad("decompressed")),
    Bug("rows that hold a text are found after each other", "store_format/query/scan.py",
        "found = raw.find(needle, int(starts[number + 1]))", "found = -1", messages("logs_order")),
    Bug("a fastjson file may have keys without quotes", "store_format/query/config.py",
        "json.loads(quoted_keys(raw))", "json.loads(raw)", ("tests/query/test_listing.py", "-k", "lag")),
    Bug("numbers of a single record are signed", "store_format/log/record_rules.py",
        'return int.from_bytes(buf[at : at + 2], "big", signed=True)', 'return int.from_bytes(buf[at : at + 2], "big")',
        ("tests/log/test_one_record.py",)),
)  # fmt: skip
