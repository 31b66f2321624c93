"""An opened store: its readers, each made once, and what is told of odd files."""

import re
import shlex
import zlib
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.cli import main
from reput.store_format.derived.index_reader import BadIndex
from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.log.record import Record
from reput.store_format.notes import Notes
from reput.store_format.query.reader import NEWEST, OpenedStore, StoredMessage, keys_of
from tests import golden_stores
from tests.built import write_log
from tests.logs import Message, build_log, properties
from tests.memory_storage import MemoryStorage
from tests.pages import ROOT
from tests.store_format.log.windows import reader_of
from tests.store_format.query.derived_stores import SEGMENT, Derived

MESSAGES = [Message("T", n % 2, n // 2, b"b", properties(("KEYS", f"k{n:02}"))) for n in range(40)]


@pytest.fixture
def store() -> Derived:
    return Derived(MESSAGES)


def test_sizes_are_those_of_the_files_readers_made_once_and_derived_files_elsewhere(store) -> None:
    with OpenedStore(
        Folder(store.storage, "s"), NEWEST, {"maxIndexNum": "8"}, store.notes
    ) as opened:
        assert opened.settings.mapped_file_size_commit_log == SEGMENT
        assert opened.settings.max_hash_slot_num == 3
        assert opened.log.end == 2 * SEGMENT
        assert len(opened.index().files) == 6
    assert store.notes.lines == []
    with store.open() as opened:
        assert opened.index() is opened.index()
        assert opened.queues is opened.queues
        assert opened.queue("T", 0, False) is opened.queue("T", 0, False)
        assert opened.rocksdb_index() is None
    with OpenedStore(
        Folder(store.storage, "s"), NEWEST, {}, store.notes, end=store.places[3]
    ) as opened:
        assert (opened.log.end, len(list(opened.log.records(0)))) == (store.places[3], 3)
    moved = {path.replace("s/", "set/", 1): raw
             for path, raw in store.storage.files.items() if "commitlog" not in path}  # fmt: skip
    store.remove("consumequeue")
    store.remove("index")
    given = {"maxHashSlotNum": "3", "maxIndexNum": "8"}
    derived = Folder(MemoryStorage(moved), "set")
    with OpenedStore(Folder(store.storage, "s"), NEWEST, given, Notes(), derived=derived) as opened:
        assert (opened.queues.topics(), len(opened.index().files)) == (["T"], 6)
        assert opened.folders("consumequeue/T") == ["0", "1"]
        assert opened.queue("T", 0, False).maximum() == 20


def test_an_index_of_unknown_sizes_is_refused_when_it_is_asked_for(store: Derived) -> None:
    for path in store.paths("index"):
        store.storage.files[path] = bytes(213)
    with OpenedStore(Folder(store.storage, "s"), NEWEST, {}, store.notes) as opened:
        with pytest.raises(BadIndex, match="213 bytes, which do not show"):
            opened.index()
        assert opened.log.record_at(0).topic == "T"


def test_odd_queues_and_segments_are_refused_when_used_and_a_store_without_a_log_is_none(
    store,
) -> None:
    store.storage.files[f"s/consumequeue/T/0/{99:020d}"] = bytes(7)
    with store.open() as opened:
        assert opened.queues.of("T") == [(0, False), (1, False)]
        with pytest.raises(BadQueue):
            opened.queue("T", 0, False)
        assert opened.queue("T", 1, False).maximum() == 20
    store.storage.files["s/commitlog/readme"] = b""
    store.storage.files[f"s/commitlog/{3 * SEGMENT:020d}"] = bytes(SEGMENT)
    with store.open() as opened:
        assert len(opened.log.segments) == 3
    assert [line.rpartition(": ")[2].split(";")[0] for line in store.notes.lines] == [
        "1 segment is missing"
    ]
    store.remove("commitlog")
    for storage in (store.storage, MemoryStorage()):
        with pytest.raises(StoreError, match="s/commitlog: no such folder"):
            OpenedStore(Folder(storage, "s"), NEWEST, {}, Notes())


# --- One message as an answer: its keys, and what is read of it only when asked for.
TEXT = properties(("TAGS", "t"), ("KEYS", " k1  k2 "), ("UNIQ_KEY", "u"))


def record(text: bytes = TEXT, **fields: Any) -> Record:
    log, _ = reader_of(build_log([Message("T", 3, 7, b"body", text, 99, **fields)], 4096))
    with log:
        return log.record_at(0)


def nobody(_: Record) -> bytes:
    raise AssertionError("nobody asked for the body")


def test_a_message_has_its_keys_its_record_made_once_and_a_row_without_the_body() -> None:
    found = {"KEYS": "k1 k2", "TAGS": "a||b", "UNIQ_KEY": "u"}
    assert keys_of(found) == ["u", "k1", "k2", "T#a||b"]
    assert keys_of({"TAGS": "", "UNIQ_KEY": ""}) == [""]  # buildIndex asks only for null
    assert keys_of({}) == []
    message = StoredMessage(record(), False, nobody)
    assert [message.has_key(key) for key in ("u", "k1", "k2", "T#t")] == [True] * 4
    assert [message.has_key(key) for key in ("t", "k1 ", "", "K1")] == [False] * 4
    assert (message.tags, message.keys, message.unique_key) == ("t", ["k1", "k2"], "u")
    made, asked = record(), list[int]()

    def make() -> Record:
        asked.append(1)
        return made

    message = StoredMessage(make, False, nobody)
    assert asked == []
    assert (message.topic, message.queue_id, message.queue_offset) == ("T", 3, 7)
    assert (message.store_timestamp, message.physical_offset, asked) == (99, 0, [1])
    message = StoredMessage(record(), False, lambda found: b"%d" % found.body_length)
    assert message.body() == b"4"
    row = StoredMessage(record(flag=-1, sys_flag=8, reconsume_times=2), False, nobody).row()
    assert row == {
        "topic": "T", "queueId": 3, "queueOffset": 7, "physicalOffset": 0, "storeTimestamp": 99,
        "bornTimestamp": 1_700_000_000_000, "storeHost": "127.0.0.1:10911",
        "bornHost": "127.0.0.1:10911", "tags": "t", "keys": ["k1", "k2"], "uniqueKey": "u",
        "properties": {"TAGS": "t", "KEYS": " k1  k2 ", "UNIQ_KEY": "u"}, "flag": -1, "sysFlag": 8,
        "reconsumeTimes": 2, "preparedTransactionOffset": 0,
        "bodyCRC": zlib.crc32(b"body") & 0x7FFFFFFF, "size": 91 + 4 + 1 + len(TEXT),
    }  # fmt: skip


# --- What docs/query.md shows is what the commands print.
PAGE = ROOT / "docs" / "query.md"


@pytest.fixture
def store_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store of the page, in the current folder: links, since it is only read."""
    golden = golden_stores.unpack("broker_clean_5.3.3")
    (tmp_path / "store").mkdir()
    for path in [*golden.input.iterdir(),
                 *(golden.expect / name for name in golden_stores.DERIVED)]:  # fmt: skip
        link = tmp_path / "store" / path.name
        if path.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "store"


def test_the_commands_and_the_python_example_print_what_the_page_says(store_docs, capsys) -> None:
    (page,) = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    shown = re.split(r"^\$ reput ", page, flags=re.MULTILINE)[1:]
    assert len(shown) == 4
    for each in shown:
        words, _, wanted = each.partition("\n")
        assert main(shlex.split(words)) == 0
        said = capsys.readouterr()
        assert said.out + said.err == wanted, words
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out.splitlines() == [
        "Live2 2 0 TagB ['order603']", "3 []", "722 292",
        "[('Live0', 1420), ('Live1', 993), ('Live2', 920)]",
    ]  # fmt: skip


def test_a_new_user_finds_a_message_and_its_life_from_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    pairs = {"KEYS": "o-17", "UNIQ_KEY": "0" * 32, "price": "11", "region": "eu"}
    message = Message(
        topic="Orders", body=b"the body", properties=properties(*pairs.items()),
        store_host=bytes.fromhex("7F00000100002A9F"), store_timestamp=1_795_300_000_000,
    )  # fmt: skip
    write_log(tmp_path / "store", build_log([message], 4096))
    (tmp_path / "keys.txt").write_text("o-17\nnone\n")
    monkeypatch.chdir(tmp_path)
    section = (ROOT / "docs/query.md").read_text().partition("## Find a message")[2]
    asked = re.findall(r"^\$ reput (.*)$", section.partition("\n## ")[0], re.MULTILINE)
    assert len(asked) == 3
    for words in asked:
        assert main(shlex.split(words, comments=True)) == 0
        shown = capsys.readouterr().out
        assert "o-17" in shown or "put    Orders/0" in shown, words
