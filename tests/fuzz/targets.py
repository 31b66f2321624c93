"""What is fuzzed: each target takes bytes, and raises where something is wrong.

Kernels are compiled, so that atheris sees no branches of theirs. What guides it are the readers
that are plain Python: the reference, which reads the same bytes beside the kernels and must find
the same, and what describes files. NUMBA_BOUNDSCHECK makes a kernel that reads outside an array
raise IndexError."""

import os
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from reput.broker.wire.remoting import BadFrame, Command, Frames, Serialization, frame
from reput.store_format.describe import files
from reput.store_format.dispatch.dispatch import unpacked
from reput.store_format.dispatch.scan import Buffers, End, IndexPuts, Stretch, scan, scan_rules
from reput.store_format.faults import DamageFound, Fault
from reput.store_format.files.by_url import storage_for
from reput.store_format.names import UnsafeName, check_topic, parse_index_name, parse_segment_name
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from tests.against_reference import difference
from tests.in_process import as_text, rebuild_log
from tests.logs.encoder import Message, build_log
from tests.reference import derive
from tests.reference.derive import COMMITTED
from tests.reference.index import IndexService
from tests.reference.javatext import hash_code
from tests.reference.log import Message as TheirMessage
from tests.reference.log import Walk
from tests.reference.rules import Rules, parse_version
from tests.reliability.inputs import SEGMENT, VERSION, small

SLOTS = 7
_LOG = small()
_FIRST = _LOG.segment[: _LOG.size(0)]
_ENTRY = struct.Struct(">qiq")
_IN_FULL = 64  # of so many logs one is derived in full: that takes as long as scanning them
_SCAN = scan_rules(profile(VERSION), settings_from(as_text(_LOG.settings)), ())
_BUFFERS = Buffers(SEGMENT)
_REFERENCE = Rules(parse_version(VERSION), _LOG.settings, {})
_KEYS = IndexService(_REFERENCE)

# (topic, queueId) -> (queueOffset, physicalOffset, size, tagsCode) of each entry
Queues = dict[tuple[str, int], list[tuple[int, int, int, int]]]
Puts = list[tuple[int, int, int]]  # keyHash, physicalOffset, storeTimestamp


def _same(segment: bytes) -> None:
    """reput and the reference find the same records, queue entries and keys in a segment."""
    walk = Walk({0: segment}, _REFERENCE)
    theirs = list(walk)
    end, queues, puts = _scanned(segment)
    assert end.records == len(theirs), f"{end.records} records, {len(theirs)} are wanted"
    if end.fault not in (Fault.NONE, Fault.BLANK):
        assert end.next == walk.end, f"ends at {end.next}, {walk.end} is wanted"
    assert queues == _queues(theirs)
    assert puts == _puts(theirs)
    if zlib.crc32(segment) % _IN_FULL == 0:
        _same_files(segment)


def _scanned(segment: bytes) -> tuple[End, Queues, Puts]:
    queues: Queues = {}
    puts: Puts = []
    end = End()
    for part in scan(_reader(segment), Stretch(0, SEGMENT, 0, SEGMENT, 0), _SCAN, _BUFFERS):
        if isinstance(part, IndexPuts):
            puts += [(int(p["keyHash"]), int(p["physicalOffset"]), int(p["storeTimestamp"]))
                     for p in unpacked(part.hashes, part.messages)]  # fmt: skip
        elif isinstance(part, End):
            end = part
        else:
            for number, queue in enumerate(part.queues):
                found = queues.setdefault((queue.topic, queue.queue_id), [])
                found += _entries(part.runs, number)
    return end, {queue: entries for queue, entries in queues.items() if entries}, puts


def _entries(runs: Any, number: int) -> list[tuple[int, int, int, int]]:
    count, at = int(runs.count[number]), int(runs.entries_at[number])
    raw = runs.entries[at : at + count * _ENTRY.size].tobytes()
    first, offsets_at = int(runs.first[number]), int(runs.offsets_at[number])
    reported = runs.offsets[offsets_at : offsets_at + count].tolist() if offsets_at >= 0 else None
    return [(reported[i] if reported else first + i, *_ENTRY.unpack_from(raw, i * _ENTRY.size))
            for i in range(count)]  # fmt: skip


def _queues(messages: list[TheirMessage]) -> Queues:
    queues: Queues = {}
    for message in messages:
        if message.transaction in COMMITTED:
            entry = message.queue_offset, message.physical_offset, message.size, message.tags_code
            queues.setdefault((message.topic, message.queue_id), []).append(entry)
    return queues


def _puts(messages: list[TheirMessage]) -> Puts:
    return [(abs(hash_code(key)) & 0x7FFFFFFF, message.physical_offset, message.store_timestamp)
            for message in messages if message.transaction != 0xC
            for key in _KEYS._keys(message)]  # fmt: skip


def _same_files(segment: bytes) -> None:
    """All that they derive, or reput says why it does not."""
    log = _LOG.log(segment)
    try:
        rebuilt = rebuild_log(log)
    except DamageFound as error:
        if "out of range" not in str(error):  # of a queue that no file name can start
            raise
        return
    if rebuilt.summary.left_out:  # a topic that is not a folder's name
        return
    found = difference(rebuilt, derive(*log))
    assert found is None, found


def record(data: bytes) -> None:
    """A segment: whatever bytes stand behind a sound record."""
    _same((_FIRST + data)[:SEGMENT].ljust(SEGMENT, b"\0"))


def properties(data: bytes) -> None:
    """The properties of a record that is otherwise sound."""
    made = [Message(properties=data[:3000]), Message(queue_offset=1)]
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
        items = list(files.describe_queue(_reader(data), len(data), 40 * size, batch))
        entries = sum(item.get("entries", 1) for item in items if item["kind"] != "damage")
        assert entries <= len(data) // size + 1
    list(files.describe_checkpoint(data))


def index(data: bytes) -> None:
    """An index file: header, entries, slots, and each slot's chain, which may be a cycle."""
    try:
        sizes = files.index_sizes(len(data), SLOTS)
    except ValueError:
        return
    view = files.IndexFileView(_reader(data), sizes)
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


def remoting(data: bytes) -> None:
    """Frames of the wire protocol: the same commands however the stream is cut, and each of them
    written and read again."""
    whole, parts = Frames(300), Frames(300)
    found, error = _commands(whole, data)
    again = list[Command]()
    for at in range(0, len(data), 7):
        some, error_of_part = _commands(parts, data[at : at + 7])
        again += some
        if error_of_part:
            break
    else:
        error_of_part = False
    assert (again, error_of_part) == (found, error)
    for command in found:
        if command.body is not None and _is_text(command):
            frames = Frames(1 << 24)
            frames.feed(frame(command))
            assert frames.next() == command


def _is_text(command: Command) -> bool:
    """Whether no text has half of a pair of surrogates, which JSON can name and UTF-8 not write."""
    texts = [*command.fields, *command.fields.values(), command.remark or ""]
    return not any("\ud800" <= letter <= "\udfff" for text in texts for letter in text)


def _commands(frames: Frames, data: bytes) -> tuple[list[Command], bool]:
    """(what is whole by now, whether an error follows)."""
    found = list[Command]()
    frames.feed(data)
    try:
        while (command := frames.next()) is not None:
            found.append(command)
    except BadFrame:
        return found, True
    return found, False


TARGETS: dict[str, Callable[[bytes], None]] = {target.__name__: target
    for target in (record, properties, queue, index, topic, remoting)}  # fmt: skip


def seeds(name: str) -> list[bytes]:
    """What a target begins with besides its corpus."""
    whole = _LOG.segment
    if name == "record":
        sealed = build_log([_LOG.messages[0], *small("IPv6", True).messages[-2:]], SEGMENT)[0]
        return [whole[_LOG.places[1] : _LOG.places[4]], sealed[len(_FIRST) :].rstrip(b"\0")]
    if name == "properties":
        return [b"KEYS\1a b\2TAGS\1t\2UNIQ_KEY\1u\2DELAY\0013\2",
                b"INNER_NUM\0012\2INNER_BASE\0010\2"]  # fmt: skip
    if name == "topic":
        return [b"Topic", b"..", b"%RETRY%g", b"0" * 20, b"20240101000000000"]
    if name == "remoting":
        fields = {"topic": "T", "queueId": "0"}
        kinds = [Command(11, 1, 0, fields, b"body", "remark", 479, 0, kind)
                 for kind in Serialization]  # fmt: skip
        return [b"".join(map(frame, kinds)),
                frame(Command(10, 1, 0, {}, bytes(400))) + frame(kinds[0])]  # fmt: skip
    files = rebuild_log(_LOG.log()).files
    if name == "index":
        return [files["index/0"][: 40 + 4 * SLOTS + 20 * 8]]
    return [files["consumequeue/T/0/" + "0" * 20][:400], bytes(8) + b"\x7f\xff\xff\xff" + bytes(8)]
