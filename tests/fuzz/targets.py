"""What is fuzzed: each target takes bytes, and raises where something is wrong.

Kernels are compiled, so that atheris sees no branches of theirs. What guides it are the readers
that are plain Python: the reference, which reads the same bytes beside the kernels and must find
the same, and what describes files. NUMBA_BOUNDSCHECK makes a kernel that reads outside an array
raise IndexError.
"""

import os
from collections.abc import Callable

import numpy as np

from store_format.describe import describe_checkpoint, describe_queue
from store_format.describe_index import IndexFileView, index_sizes
from store_format.faults import DamageFound
from store_format.names import (
    UnsafeName,
    check_topic,
    parse_index_name,
    parse_segment_name,
)
from store_format.storage import storage_for
from tests.flips import SEGMENT, log_of, messages
from tests.in_process import rebuild_log
from tests.logs.encoder import Message, build_log
from tests.reference import derive
from tests.test_against_reference import difference

SLOTS = 7
_FIRST = b"".join(build_log(messages()[:1], SEGMENT).values()).rstrip(b"\0")


def _same(segment: bytes) -> None:
    """reput and the reference derive the same of a log, or reput says why it does not."""
    log = log_of(segment)
    try:
        rebuilt = rebuild_log(log)
    except DamageFound as error:
        if "out of range" not in str(error):  # of a queue that no file name can start
            raise
        return
    if rebuilt.summary.left_out:  # a topic that is no folder's name
        return
    found = difference(rebuilt, derive(*log))
    assert found is None, found


def record(data: bytes) -> None:
    """A segment: whatever bytes stand behind a sound record."""
    _same((_FIRST + data)[:SEGMENT].ljust(SEGMENT, b"\0"))


def properties(data: bytes) -> None:
    """The properties of a record that is otherwise sound."""
    made = [Message(properties=data[:4000]), Message(queue_offset=1)]
    _same(build_log(made, SEGMENT)[0])


def _reader(data: bytes) -> Callable[[int, np.ndarray], None]:
    def read(at: int, buffer: np.ndarray) -> None:
        assert at >= 0
        assert at + len(buffer) <= len(data), "read past the file's end"
        buffer[:] = np.frombuffer(data, np.uint8)[at : at + len(buffer)]

    return read


def queue(data: bytes) -> None:
    """A ConsumeQueue and a batch queue file, of any length."""
    for batch, size in ((False, 20), (True, 46)):
        items = list(describe_queue(_reader(data), len(data), 40 * size, batch))
        entries = sum(item.get("entries", 1) for item in items if item["kind"] != "damage")
        assert entries <= len(data) // size + 1
    list(describe_checkpoint(data))


def index(data: bytes) -> None:
    """An index file: header, entries, slots, and each slot's chain, which may be a cycle."""
    try:
        sizes = index_sizes(len(data), SLOTS)
    except ValueError:
        return
    view = IndexFileView(_reader(data), sizes)
    items = [*view.describe_header(), *view.describe_entries(), *view.describe_slots()]
    assert len(items) < 10 * (sizes.slots + sizes.entries) * (sizes.entries + 1)


def topic(data: bytes) -> None:
    """A topic, as a path below a folder; and names of files."""
    text = data.decode("utf-8", "replace")
    for parse in (parse_segment_name, parse_index_name):
        try:
            parse(text)
        except ValueError:
            continue
    try:
        name = check_topic(text)
    except UnsafeName:
        return
    root = "/store/consumequeue"
    path = os.path.normpath(os.path.join(root, name, "0"))
    assert os.path.dirname(os.path.dirname(path)) == root, path
    os.fsencode(storage_for(path) and path)


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (record, properties, queue, index, topic)
}


def seeds(name: str) -> list[bytes]:
    """What a target begins with besides its corpus."""
    whole = build_log(messages(), SEGMENT)[0]
    if name == "record":
        size = len(_FIRST)
        return [whole[size : size + 3 * size], build_log(messages(crc=True), SEGMENT)[0][:600]]
    if name == "properties":
        return [
            b"KEYS\1a b\2TAGS\1t\2UNIQ_KEY\1u\2DELAY\0013\2",
            b"INNER_NUM\0012\2INNER_BASE\0010\2",
        ]
    if name == "topic":
        return [b"Topic", b"..", b"%RETRY%g", b"0" * 20, b"20240101000000000"]
    files = rebuild_log(log_of(whole)).files
    if name == "index":
        small = bytearray(files["index/0"][: 40 + 4 * SLOTS + 20 * 8])
        return [bytes(small)]
    return [files["consumequeue/T/0/" + "0" * 20][:400], bytes(8) + b"\x7f\xff\xff\xff" + bytes(8)]
