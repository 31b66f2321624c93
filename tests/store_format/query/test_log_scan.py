"""The log itself, read for messages: by bytes in their records, by a filter, and over damage."""

from dataclasses import replace

import pytest

from reput.store_format.filter.filters import tag_filter
from reput.store_format.query.log_scan import Gap, index_gaps, log_gaps, needle_of, queue_gaps, scan
from tests.logs import Message, properties
from tests.store_format.query.derived_stores import SEGMENT, Derived

MESSAGES = [
    Message(f"T{n % 2}", 0, n // 2, b"b" * (n % 5), properties(("TAGS", "AAB"[n % 3])))
    for n in range(50)
]
IN_FIRST = 20  # the first segment has messages 0 to 19


@pytest.fixture
def store() -> Derived:
    made = Derived(MESSAGES)
    assert sum(place < SEGMENT for place in made.places) == IN_FIRST
    return made


def found(
    store: Derived, needle: bytes = b"", start: int = 0, stop: int = 1 << 40, tags: str = "*"
) -> list[int]:
    chosen = None if tags == "*" else tag_filter(tags)
    with store.open() as opened:
        return store.numbers(list(scan(opened, start, stop, needle, store.notes, chosen)))


def test_messages_of_a_part_of_the_log_by_filter_and_needle_with_progress_in_bytes(store) -> None:
    found(store, start=store.places[3], stop=store.places[13])
    found(store, start=store.places[13], stop=store.places[12])
    wanted = store.places[13] - store.places[3]
    assert (store.notes.scanned, store.notes.to_scan) == (wanted, wanted)
    at = store.places
    assert found(store) == list(range(50))
    assert found(store, start=at[7], stop=at[25]) == list(range(7, 25))
    assert found(store, start=at[7], stop=at[7] + 1) == [7]
    assert found(store, start=at[7], stop=at[7]) == found(store, start=1 << 30) == []
    assert found(store, tags="B") == list(range(2, 50, 3))
    assert found(store, b"T1", tags="B") == [n for n in range(50) if n % 2 == 1 and n % 3 == 2]
    assert found(store, tags="C") == []
    assert found(store, start=store.places[3] + 1) == list(range(IN_FIRST, 50))
    assert len(store.notes.lines) == 1


@pytest.mark.parametrize(
    ("text", "needle"), [("T", b"T"), ("\xe9", b"\xc3\xa9"), ("a\ufffdb", b""), ("", b"")]
)
def test_a_text_that_java_may_decode_from_other_bytes_has_no_needle(text, needle) -> None:
    assert needle_of(text) == needle


# --- What of the log the derived files lack, counted by hand on a store with files taken away.
# One key each, seven to an index file: the files end at messages 6, 13, 20, 27, 34 and 39. Queue 0
# has the even ones, queue 1 the odd ones, ten to a file. The second segment begins with number 20.
MESSAGES_GAPS = [
    Message("T", n % 2, n // 2, b"b", properties(("KEYS", f"k{n:02}")), 1_700_000_000_000 + n)
    for n in range(40)
]
SEGMENT_GAPS = 20


def made(**last: object) -> Derived:
    """last: fields of the last message."""
    messages = [*MESSAGES_GAPS[:-1], replace(MESSAGES_GAPS[-1], **last)]  # type: ignore[arg-type]
    store = Derived(messages)
    assert store.places[SEGMENT_GAPS] == 2048
    return store


def gaps(store: Derived) -> list[tuple[int, int]]:
    """The index's gaps by messages: (first, the one after the last; their number: its end)."""
    with store.open() as opened:
        places = [*store.places, opened.log.end]
        found: list[Gap] = index_gaps(opened, store.notes)
        assert index_gaps(opened, store.notes) == found
        return [(places.index(start), places.index(stop)) for start, stop in found]


def test_a_whole_index_has_no_gap_nor_what_has_expired_and_one_of_another_log_is_not_used() -> None:
    store = made()
    assert len(store.paths("index")) == 6
    assert (gaps(store), store.notes.lines) == ([], [])
    store = made()
    store.remove("commitlog/00000000000000000000")
    assert gaps(store) == []
    del store.storage.files[store.paths("index")[2]]  # of 14 to 20, of which 20 is left
    assert gaps(store) == [(SEGMENT_GAPS, 22)]
    store = made()
    path = store.paths("index")[3]
    raw = bytearray(store.storage.files[path])
    raw[24:32] = (3).to_bytes(8, "big")  # endPhyOffset: within a record
    store.storage.files[path] = bytes(raw)
    assert gaps(store) == [(0, 40)]
    assert "ends at a message that the log does not have" in store.notes.lines[0]


@pytest.mark.parametrize(("files", "wanted"), [
    ([5], [(34, 40)]),  # of a full file's last message some keys may be missing
    # and some of the message with which the next file begins
    ([0], [(0, 8)]), ([2], [(13, 22)]), ([1, 3], [(6, 15), (20, 29)]), ([0, 1], [(0, 15)]),
    ([4, 5], [(27, 40)]), ([0, 1, 2, 3, 4, 5], [(0, 40)]),
])  # fmt: skip
def test_where_a_file_is_missing_the_log_is_read(files, wanted) -> None:
    store = made()
    for path in [store.paths("index")[n] for n in files]:
        del store.storage.files[path]
    assert gaps(store) == wanted
    assert len(store.notes.lines) == len(wanted)


@pytest.mark.parametrize(("last", "wanted"), [
    ({"properties": b""}, []), ({"sys_flag": 0xC}, []), ({"sys_flag": 4}, [(39, 40)]),
    ({"properties": properties(("UNIQ_KEY", "u"))}, [(39, 40)]),
    ({"properties": properties(("TAGS", "t"))}, []), ({"properties": b"KEYS\x01 \x02"}, []),
])  # fmt: skip
def test_only_messages_with_a_key_can_be_missing(last, wanted) -> None:
    """The index ends before the last message: file 5 has only 35 to 38."""
    store = made(**last)
    newest = store.paths("index")[5]
    short = Derived(MESSAGES_GAPS[:-1])
    store.storage.files[newest] = short.storage.files[newest]
    assert gaps(store) == wanted


def test_an_index_file_in_a_hole_leaves_the_rest_and_a_gap_goes_on_behind_a_hole() -> None:
    store = Derived(MESSAGES_GAPS * 2)
    hole, end = (int(path.rpartition("/")[2]) for path in store.paths("commitlog")[1:3])
    del store.storage.files[store.paths("commitlog")[1]]
    begun = [n for n in range(0, 80, 7) if hole <= store.places[n] < end]
    assert begun
    del store.storage.files[store.paths("index")[begun[0] // 7 - 1]]
    found = gaps(store)
    assert found
    assert min(start for start, _ in found) < begun[0]
    # Between two index files one is gone, and between the log's parts that it was of a segment.
    messages = [replace(message, properties=b"") if 14 <= n < 52 else message
                for n, message in enumerate(MESSAGES_GAPS * 2)]  # fmt: skip
    store = Derived(messages)
    hole = store.paths("commitlog")[1]
    end = int(store.paths("commitlog")[2].rpartition("/")[2])
    assert store.places[52] > end
    del store.storage.files[hole], store.storage.files[store.paths("index")[2]]
    gap = gaps(store)[0]
    assert gap[0] <= 52
    assert gap[1] == 52 + 7 + 1


def lacked(store: Derived, *queues: int) -> list[tuple[int, int]]:
    """The queues' gaps by messages, as `gaps`."""
    with store.open() as opened:
        places = [*store.places, opened.log.end]
        asked = [opened.queue("T", number, False) for number in queues]
        found = queue_gaps(opened, asked, store.notes).gaps
        return [(places.index(start), places.index(stop)) for start, stop in found]


def test_queues_have_no_gap_for_what_expired_or_the_index_tells() -> None:
    assert [lacked(made(), *queues) for queues in ((0,), (1,), (0, 1))] == [[]] * 3
    store = made()
    del store.storage.files[store.paths("consumequeue/T/1")[-1]]  # it ends with number 19
    store.remove("consumequeue/T/0")
    assert lacked(store, 0, 1) == [(0, 40)]
    assert lacked(store, 1) == [(21, 40)]
    # The log begins with number 20: queue 0 has it, and queue 1 has 21 first.
    store = made()
    for queue in (0, 1):
        del store.storage.files[store.paths(f"consumequeue/T/{queue}")[0]]
    store.remove("commitlog/00000000000000000000")
    assert lacked(store, 0, 1) == []
    # Its first file is not the one at 0, and pre-blanks fill it up to its first message.
    store = Derived([Message("T", 0, n + 13) for n in range(3)])
    assert [path[-3:] for path in store.paths("consumequeue")] == ["200"]
    assert lacked(store, 0) == []
    # A message gets into its queue before it gets into the index.
    store = made()
    path = store.paths("consumequeue/T/0")[-1]
    raw = store.storage.files[path]
    store.storage.files[path] = raw[: 20 * 4].ljust(200, b"\0")  # the queue ends with number 26
    assert lacked(store, 0) == lacked(store, 0, 1) == []
    store.remove("index")
    assert lacked(store, 0) == [(28, 40)]


@pytest.mark.parametrize(
    ("queue", "rest", "wanted"), [(0, [], 0), (1, [], 1), (0, ["0" * 20], 20), (1, ["0" * 20], 21)]
)
def test_a_queue_whose_last_file_is_missing_has_a_gap(queue, rest, wanted) -> None:
    store = made()
    for path in store.paths(f"consumequeue/T/{queue}"):
        if not path.endswith(tuple(rest) or " "):
            del store.storage.files[path]
    assert lacked(store, queue) == [(wanted, 40)]
    assert lacked(store, 1 - queue) == []
    assert lacked(store, 0, 1) == lacked(store, 1, 0) == [(wanted, 40)]


@pytest.mark.parametrize(("count", "wanted"), [(9, []), (10, [(18, 35)])])
@pytest.mark.parametrize("keys", [b"", properties(("KEYS", "k"))])
def test_a_queue_that_ended_long_ago_has_no_gap_unless_its_last_file_is_full(
    keys: bytes, count: int, wanted: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file may have followed a full one: only the log can tell. `keys`: with an index."""
    monkeypatch.setattr("reput.store_format.query.log_scan._LOOKED_AT", 8)
    long_ago = [Message("T", 0, n, properties=keys) for n in range(count)]
    store = Derived([*long_ago, *(Message("T", 1, n, properties=keys) for n in range(25))])
    assert lacked(store, 0, 1) == wanted


@pytest.mark.parametrize(("repeated", "wanted"), [(9, []), (0, []), (10, [(10, 12)])])
def test_behind_a_full_queue_a_lower_queue_offset_is_not_missing(repeated, wanted) -> None:
    """Dispatch skips it (ConsumeQueue.putMessagePositionInfo)."""
    whole = [Message("T", 0, n) for n in range(10)]
    store, further = Derived(whole), Derived([*whole, Message("T", 0, repeated), Message("T", 1)])
    queue = further.paths("consumequeue/T/0")
    for path in queue[1:]:
        del further.storage.files[path]
    assert queue[:1] == store.paths("consumequeue/T/0")
    assert lacked(further, 0) == wanted


@pytest.mark.parametrize("queue", [0, 1])
def test_a_queue_whose_first_file_is_missing_has_a_gap_before_it(queue: int) -> None:
    store = made()
    del store.storage.files[store.paths(f"consumequeue/T/{queue}")[0]]
    assert lacked(store, queue) == lacked(store, 0, 1) == [(queue, 20 + queue)]
    assert lacked(store, 1 - queue) == []
    del store.storage.files[store.paths(f"consumequeue/T/{1 - queue}")[1]]
    assert lacked(store, 0, 1) == [(queue, 20 + queue), (21 + queue, 40)]
    store.remove(f"consumequeue/T/{1 - queue}")
    assert lacked(store, 0, 1) == [(0, 20 + queue), (21 + queue, 40)]


@pytest.mark.parametrize(("sys_flag", "wanted"), [(0, 39), (8, 39), (4, None), (0xC, None)])
def test_behind_all_queues_are_only_messages_that_go_to_one(sys_flag, wanted) -> None:
    store, short = made(sys_flag=sys_flag), Derived(MESSAGES_GAPS[:-1])
    for path in short.paths("consumequeue"):
        store.storage.files[path] = short.storage.files[path]
    with store.open() as opened:
        queues = [opened.queue("T", number, False) for number in (0, 1)]
        found = log_gaps(opened, queues, store.notes)
        assert found.gaps == ([] if wanted is None else [(store.places[wanted], opened.log.end)])
        assert store.numbers(list(found.messages(opened, store.notes))) == (
            [] if wanted is None else [wanted]
        )
        whole = log_gaps(opened, [], store.notes)
        assert whole.gaps == [(opened.log.start, opened.log.end)]


@pytest.mark.parametrize(("file", "wanted"), [(0, range(0, 20, 2)), (1, range(20, 40, 2))])
def test_what_one_queue_lacks_no_other_has(file: int, wanted: range) -> None:
    """The gap has messages of queue 1 too, which that has."""
    store = made()
    del store.storage.files[store.paths("consumequeue/T/0")[file]]
    with store.open() as opened:
        queues = [opened.queue("T", number, False) for number in (0, 1)]
        found = log_gaps(opened, queues, store.notes).messages(opened, store.notes)
        assert store.numbers(list(found)) == [*wanted]
