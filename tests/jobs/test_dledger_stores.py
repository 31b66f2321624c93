"""Commands on stores of real DLedger groups: what reads them, and what refuses them by name."""

import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from reput.broker.wire.codes import RequestCode
from reput.jobs import cli
from reput.jobs.check import check
from reput.jobs.convert import convert
from reput.jobs.judging.shown import next_step
from reput.jobs.opening.questions import open_store
from reput.jobs.report import report
from reput.jobs.sockets.opened import ServedSource, open_broker
from reput.jobs.verify import verify
from reput.store_format.faults import StoreError
from reput.store_format.layouts import DLEDGER_AT
from tests.in_process import Session, as_text, run
from tests.jobs.sockets.asked import Asked, stores_closed_after
from tests.jobs.sockets.asking import pull
from tests.store_format.log.dledger_stores import AS_DERIVED, NAMES, change, heads, unpack
from tests.trees import contents, flip


@pytest.mark.parametrize("name", NAMES)
def test_its_brokers_files_are_sound(name: str, tmp_path: Path) -> None:
    store, about = unpack(name, tmp_path)
    given = {"rocketmq": "5.3.3", "settings": as_text(about["sizes"])}
    verified = verify(Session(), str(store), **given)
    report = check(Session(), str(store), **given)
    # a member that was killed and came back lacks messages in its own queues
    assert verified.same == report.undamaged == (name in AS_DERIVED)
    assert report.crashed == (store / "abort").exists()
    assert not report.damage["ranges"]
    behind = [note for note in report.notes if "readUnCommitted" in note]
    assert len(behind) == (name == "killed")


def test_committed_entries_that_a_log_lacks_are_said(tmp_path: Path) -> None:
    """dledger #316: the log ends before its committed index, and other members have the rest."""
    store, about = unpack("clean", tmp_path / "store")
    for path, at, _ in heads(store, about)[-12:]:
        change(path, at, bytes(path.stat().st_size - at))
    given = {"rocketmq": "5.3.3", "settings": as_text(about["sizes"])}
    said = "12 committed entries are missing; other members of the group have them"
    report = check(Session(), str(store), **given)
    assert [said in each.reason for each in report.findings][:1] == [True]
    assert "another member of the group" in next_step(report)
    made = run(str(store), str(tmp_path / "set"), Session(), **given)
    assert sum(said in each for each in made.left_out) == 1
    converted = convert(Session(), str(store), str(tmp_path / "new"), **given)
    assert sum(said in each for each in converted.lacks) == 1
    assert said in converted.text()


@pytest.mark.parametrize("scan", [False, True])
@pytest.mark.parametrize("name", ["clean", "mixed", "rejoined"])
def test_messages_are_found(name: str, scan: bool, tmp_path: Path) -> None:
    store, about = unpack(name, tmp_path)
    with open_store(str(store), settings=as_text(about["sizes"])) as opened:
        for topic, _, offset, key, message_id in about["sent"]:
            found = [each.record.physical_offset for each in opened.query(topic, key, scan=scan)]
            delayed = int(message_id[-16:], 16) not in found and not found
            assert delayed or found == [int(message_id[-16:], 16)], (topic, offset)
        topics = {row.topic: row.messages for row in opened.topics(scan=scan)}
        assert topics.keys() >= {"Live0", "Live1", "Live2"}
        if not scan and name != "rejoined":
            assert not opened.query("Live0", "key0").notes


def test_what_no_majority_had_is_left_out_unless_it_is_asked_for(tmp_path: Path) -> None:
    store, about = unpack("killed", tmp_path / "store")
    settings = as_text(about["sizes"])
    made = [run(str(store), str(tmp_path / name), Session(), rocketmq="5.3.3",
                settings={**settings, "readUnCommitted": name})
            for name in ("false", "true")]  # fmt: skip
    assert made[0].log_end < made[1].log_end
    assert made[0].messages < made[1].messages
    with open_store(str(store), settings=settings) as opened:
        few = sum(row.messages for row in opened.stats(("topic",)))
        assert any("readUnCommitted=true" in note for note in opened.notes)
    with open_store(str(store), settings={**settings, "readUnCommitted": "true"}) as opened:
        assert few < sum(row.messages for row in opened.stats(("topic",)))


@pytest.mark.parametrize("name", ["failed_over", "mixed"])
def test_dump_shows_index_and_term(name: str, tmp_path, capsys) -> None:
    store, about = unpack(name, tmp_path)
    indices: list[int] = []
    terms: list[int] = []
    for path in sorted(store.glob("dledger-*/data/*")):
        assert cli.main(["dump", str(path), "--json"]) == 0
        items = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert items[-1]["kind"] in ("blank", "zeros", "record")
        records = [item for item in items if item["kind"] == "record"]
        indices += [item["index"] for item in records]
        terms += [item["term"] for item in records]
    assert indices == list(range(indices[0], indices[0] + len(indices)))
    assert terms == sorted(terms)
    assert len(indices) == len(heads(store, about))


def test_dump_names_a_wrong_head(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, about = unpack("clean", tmp_path)
    path, at, _ = heads(store, about)[3]
    change(path, at + DLEDGER_AT.pos, (12345).to_bytes(8, "big"))
    assert cli.main(["dump", str(path), "--json"]) == 1
    items = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (damage,) = [item for item in items if item["kind"] == "damage"]
    assert (damage["at"], damage["field"], damage["value"]) == (at, "pos", 12345)
    assert sum(item["kind"] == "record" for item in items) > 3


CHANGES = {
    "append": ["append", "STORE", "--from", "MESSAGES", "--rocketmq", "5.3.3"],
    "catch-up": ["catch-up", "STORE"],
    "catch-up --output": ["catch-up", "STORE", "--output", "OUT"],
    "deliver-delayed": ["deliver-delayed", "STORE", "--until", "2026-01-01"],
    "offsets": ["offsets", "set", "STORE", "--to-end"],
    "expire": ["expire", "STORE"], "recover": ["recover", "STORE"],
    "repair": ["repair", "STORE", "--output", "OUT"], "replicate": ["replicate", "STORE", "OUT"],
    "replicate into it": ["replicate", "PLAIN", "STORE"],
    "resolve-transactions": ["resolve-transactions", "STORE", "--decide", "DECIDE"]}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_a_store_refuses_it_by_name(name: str, tmp_path, capsys) -> None:
    store, _ = unpack("clean", tmp_path / "store")
    plain, _ = unpack("mixed", tmp_path / "plain")
    (tmp_path / "messages.jsonl").write_text('{"topic": "T", "body": "x"}\n')
    (tmp_path / "decide.csv").write_text("")
    words = {
        "STORE": str(store), "OUT": str(tmp_path / "out"), "PLAIN": str(plain),
        "MESSAGES": str(tmp_path / "messages.jsonl"), "DECIDE": str(tmp_path / "decide.csv"),
    }  # fmt: skip
    before = contents(store)
    assert cli.main([words.get(word, word) for word in CHANGES[name]]) in (2, 3)
    said = capsys.readouterr().err
    assert "DLedger group's log" in said, said
    assert "dledger-" in said
    assert contents(store) == before
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())


def salvaged(store: Path, about: dict[str, Any], output: Path) -> Any:
    return run(str(store), str(output), Session(), rocketmq="5.3.3", on_damage="salvage",
               settings=as_text(about["sizes"]))  # fmt: skip


@pytest.mark.parametrize(("field", "raw"),
                         [("magic", (9).to_bytes(4, "big")), ("pos", (7).to_bytes(8, "big")),
                          ("index", (999).to_bytes(8, "big")), ("term", (0).to_bytes(8, "big")),
                          ("bodyLength", (3).to_bytes(4, "big")),
                          ("size", (3).to_bytes(4, "big"))])  # fmt: skip
def test_salvage_keeps_a_record_whose_head_is_wrong(field: str, raw: bytes, tmp_path: Path) -> None:
    store, about = unpack("failed_over", tmp_path / "store")
    whole = run(str(store), str(tmp_path / "whole"), Session(), rocketmq="5.3.3",
                settings=as_text(about["sizes"]))  # fmt: skip
    path, at, _ = heads(store, about)[20]
    change(path, at + getattr(DLEDGER_AT, field), raw)
    made = salvaged(store, about, tmp_path / "out")
    assert made.messages == whole.messages
    for file in sorted((tmp_path / "whole").rglob("consumequeue/*/*/*")):
        there = tmp_path / "out" / file.relative_to(tmp_path / "whole")
        assert there.read_bytes() == file.read_bytes()


def test_salvage_passes_over_a_cut_entry(tmp_path: Path) -> None:
    """The bytes of one entry are gone: the record behind it is found by its own place."""
    store, about = unpack("failed_over", tmp_path / "store")
    path, at, head = heads(store, about)[20]
    change(path, at, bytes(int(head["size"])))
    report = check(Session(), str(store), rocketmq="5.3.3", settings=as_text(about["sizes"]))
    assert not report.sound
    made = salvaged(store, about, tmp_path / "out")
    assert made.messages == len(heads(unpack("failed_over", tmp_path / "again")[0], about)) - 1


@pytest.mark.parametrize("where", ["first byte", "middle", "last byte"])
def test_a_flipped_bit_in_a_record_is_told(where: str, tmp_path: Path) -> None:
    store, about = unpack("failed_over", tmp_path / "store")
    path, at, head = heads(store, about)[20]
    places = {"first byte": 48, "middle": 48 + 130, "last byte": int(head["size"]) - 1}
    flip(path, at + places[where], 0x10)
    report = check(Session(), str(store), rocketmq="5.3.3", settings=as_text(about["sizes"]))
    assert not report.sound
    if where != "last byte":  # a property's text has no checksum: its queue or index tells
        (found,) = report.damage["ranges"]
        assert (found["physical_offset"], found["length"]) == (head["pos"], head["size"])


def test_two_members_are_told_apart_by_a_setting(tmp_path: Path) -> None:
    store, about = unpack("clean", tmp_path / "store")
    other, _ = unpack("killed", tmp_path / "other")
    (mine,) = store.glob("dledger-*")
    (its,) = other.glob("dledger-*")
    copy = store / (its.name if its.name != mine.name else "dledger-n9")
    its.rename(copy)
    given = as_text(about["sizes"])
    with pytest.raises(StoreError, match="several DLedger members"):
        open_store(str(store), settings=given)
    chosen = {**given, "dLegerSelfId": mine.name.removeprefix("dledger-")}
    assert verify(Session(), str(store), rocketmq="5.3.3", settings=chosen).same


@pytest.mark.parametrize("name", ["clean", "mixed", "killed"])
@stores_closed_after()
def test_serve_gives_what_the_group_agreed_on(name: str, tmp_path: Path) -> None:
    store, about = unpack(name, tmp_path)
    settings = as_text(about["sizes"])
    asked = Asked(open_broker(ServedSource(str(store), "5.3.3", settings), print))
    read: list[bytes] = []
    for topic, queue in product(("Live0", "Live1", "Live2"), range(4)):
        ends = (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
        offset, end = (
            int(asked.ask(code, topic=topic, queueId=queue).fields["offset"]) for code in ends
        )
        while offset < end:
            got = asked.ask(RequestCode.PULL_MESSAGE, **pull(topic, queue, offset).fields)
            pieces = (p.tobytes() if isinstance(p, memoryview) else p.read() for p in got.pieces)
            read += re.findall(rb"UNIQ_KEY\x01([0-9A-F]+)", got.body + b"".join(pieces))
            offset = int(got.fields["nextBeginOffset"])
    with open_store(str(store), rocketmq="5.3.3", settings=settings) as opened:
        total = sum(row.messages for row in opened.topics() if row.topic.startswith("Live"))
    assert total > 20
    assert len(read) == len(set(read)) == total


def test_a_report_shows_the_topics_of_a_group(tmp_path: Path) -> None:
    store, about = unpack("failed_over", tmp_path / "store")
    page = tmp_path / "page.html"
    done = report(Session(), str(store), str(page), settings=as_text(about["sizes"]))
    assert done.sound is not None
    assert done.unknown.keys() <= {"expired"}  # no command expires such a log
    text = page.read_text()
    assert all(topic in text for topic in ("Live0", "Live1", "Live2"))
