"""Sections of a page on queues, groups, index, fates and the disk: what each says and draws."""

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import reput
from reput.broker.change.expire import FileToDelete
from reput.jobs.cli import main
from reput.jobs.in_place.expire import Expired
from reput.jobs.page import log_sections, store_sections
from reput.jobs.page.facts import DiskPart, Facts
from reput.jobs.page.model import Section, labels
from reput.store_format.derived.index_header import IndexHeader
from reput.store_format.derived.index_reader import IndexFileStats
from reput.store_format.fate.rows import FateSums
from reput.store_format.query.inventory import GroupRow, QueueRow
from tests.jobs.page import stores
from tests.unpacking import unpack as unpack_archive

AT = 1_700_000_000_000


def facts(**known: Any) -> Facts:
    return Facts("/s", AT + 60_000, 0, 4096, 1, **known)


def bars(section: Section, number: int = 0) -> list[tuple[str, float]]:
    values = section.pictures[number].spec["data"]["values"]
    return [(each["label"], each["value"]) for each in values]


def queue(topic: str, queue_id: int, messages: int) -> QueueRow:
    return QueueRow(topic, queue_id, False, 0, messages, messages, 9, AT, AT)


@pytest.mark.parametrize(("part", "make"), [
    ("queues", store_sections.queues_section), ("queues", store_sections.groups_section),
    ("index", store_sections.index_section),
    ("fates", store_sections.fates_section), ("disk", store_sections.disk_section),
])  # fmt: skip
def test_a_part_that_is_not_known_says_why_and_draws_nothing(part: str, make: Any) -> None:
    section = make(facts(unknown={part: "a file is damaged", "expired": "no disk"}))
    assert section.notes[-1] == "not known: a file is damaged"
    assert (section.pictures, section.tables) == ([], [])


def test_the_deepest_queues_come_first_and_a_group_s_lag_is_that_of_all_its_queues() -> None:
    rows = [queue("A", n, n) for n in range(31)] + [queue("B", 0, 30)]
    section = store_sections.queues_section(facts(queues=rows))
    total = sum(range(31)) + 30
    assert section.words == [
        f"32 queues, with {total} messages that the log still has; the picture has the 30 largest."
    ]
    assert bars(section)[:3] == [("A / 30", 30), ("B / 0", 30), ("A / 29", 29)]
    assert len(bars(section)) == 30
    assert len(section.tables[0].rows) == 32
    assert store_sections.queues_section(facts(queues=rows[:1])).pictures == []
    assert store_sections.queues_section(facts(queues=[])).words == ["There is no queue."]
    rows = [GroupRow("one", "T", 0, 5, 9, 4), GroupRow("two", "T", 0, 9, 9, 0),
            GroupRow("one", "T", 1, 0, 7, 7), GroupRow("three", "T", 0, 0, 99, 99)]  # fmt: skip
    section = store_sections.groups_section(facts(queues=[], groups=rows))
    assert section.words == ["3 groups, 2 of them with messages not yet consumed."]
    assert bars(section) == [("three", 99), ("one", 11), ("two", 0)]
    assert [row[-1] for row in section.tables[0].rows] == [99, 7, 4, 0]
    done = store_sections.groups_section(
        facts(queues=[], groups=[rows[1], rows[1]._replace(group="x")])
    )
    assert (done.words[0][:10], done.pictures) == ("2 groups, ", [])


def index_file(name: str, entries: int, chains: dict[int, int], begin: int) -> IndexFileStats:
    header = IndexHeader(begin, begin + 9, 0, 0, 3, entries + 1)
    return IndexFileStats(f"/s/index/{name}", header, 7, 49, chains, max(chains, default=0))


def test_index_files_tell_how_full_they_are_and_none_is_told_from_none_that_can_be_read() -> None:
    files = [index_file("1", 9, {1: 3, 2: 2}, AT), index_file("2", 4, {1: 1, 4: 1}, AT + 99)]
    section = store_sections.index_section(facts(index=files))
    assert section.words[0].startswith("2 files with 13 entries in 7 slots. ")
    assert section.words[0].endswith("the longest chain has 4.")
    assert bars(section) == [("1", 9), ("2", 4)]
    assert bars(section, 1) == [("1 entry", 4), ("2 to 3 entries", 2), ("4 to 7 entries", 1)]
    assert len(section.pictures) == 3
    empty = store_sections.index_section(
        facts(index=[index_file("1", 9, {1: 9}, AT), index_file("2", 0, {}, 0)])
    )
    assert len(empty.pictures) == 1  # no times of an empty file, and one kind of chain
    assert store_sections.index_section(facts(index=[])).words == ["There is no index file."]
    spoilt = facts(index=[])
    spoilt.note("index", ["/s/index/1: no header"])
    assert store_sections.index_section(spoilt).words == ["There is none that can be read."]


def test_fates_are_drawn_where_there_are_several_and_what_cleaning_frees_by_folder() -> None:
    none = FateSums({}, [], {}, [], AT)
    assert store_sections.fates_section(facts(fates=none)).words == ["The log has none."]
    one = store_sections.fates_section(facts(fates=none._replace(transactions={"pending": 1234})))
    assert one.words[1:] == ["Half messages: 1,234 pending."]
    assert one.pictures == []
    sums = none._replace(transactions={"pending": 3, "committed": 2, "abandoned": 1},
                         delayed={("level", "waiting"): 5, ("timer", "delivered"): 4})  # fmt: skip
    section = store_sections.fates_section(facts(fates=sums))
    assert bars(section) == [("abandoned", 1), ("committed", 2), ("pending", 3)]
    assert bars(section, 1) == [("waiting", 5), ("delivered", 4)]
    assert section.tables[0].rows[-1] == ["delayed", "timer", "delivered", 4]
    open_half, open_delayed = section.tables[1:]
    assert open_half.cut == "0 of 4 rows are in this file"  # pending, abandoned
    assert open_delayed.cut == "0 of 5 rows are in this file"
    segments = [FileToDelete("commitlog/0", 600, ""), FileToDelete("commitlog/1", 400, "")]
    expired = Expired(
        "/s", "5.3.3", "", 0, segments, [FileToDelete("index/1", 50, "")], kept_segments=2
    )
    disk = [DiskPart("commitlog/", 3, 1500), DiskPart("index/", 1, 40), DiskPart("config/", 2, 7)]
    section = store_sections.disk_section(facts(disk=disk, expired=expired))
    assert section.words[0] == (
        "reput expire --any-hour would free 1,050 bytes: 2 segments, 1 file of queues and index."
    )
    assert section.words[1].startswith("1,547 bytes in 6 files, ")
    assert section.notes[0].startswith("cleaning leaves 2 expired segments, ")
    values = section.pictures[0].spec["data"]["values"]
    assert [(each["label"], each["part"], each["value"]) for each in values] == [
        ("commitlog/", "stays", 500), ("commitlog/", "cleaning frees it", 1000),
        ("index/", "stays", 0), ("index/", "cleaning frees it", 40), ("config/", "stays", 7),
    ]  # fmt: skip
    nothing = store_sections.disk_section(
        facts(disk=disk[:1], expired=Expired("/s", "5.3.3", "", 0))
    )
    assert nothing.words[0] == "Nothing has expired that cleaning could free."


# --- The page of `reput report`: what it says of stores in any state, and that names are data.
NOW = 1_800_000_000_000
UPGRADED = Path(__file__).parents[2] / "chains/stores"


class Elements(HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.links += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and self.scripts:
            about, before = self.scripts[-1]
            self.scripts[-1] = about, before + data


def read(path: Path) -> tuple[Elements, dict[str, Any]]:
    """A page's elements, and what it shows."""
    elements = Elements()
    elements.feed(path.read_text("utf-8"))
    whole: dict[str, Any] = json.loads(elements.scripts[0][1])
    return elements, whole


def section(whole: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [each for each in whole["sections"] if each["id"] == name]
    return dict(found)


def written(store: Path, to: Path, *words: str) -> dict[str, Any]:
    """What the page of a store shows; the command is run in this process."""
    assert main(["report", str(store), "--output", str(to), *words]) in (0, 1)
    return read(to)[1]


def test_a_healthy_store_has_every_section_and_no_alarm(tmp_path, capsys) -> None:
    store, page = stores.healthy(tmp_path), tmp_path / "report.html"
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    assert main(["report", str(store), "--output", str(page), "--rocketmq", "5.3.3"]) == 0
    assert "verdict   Sound" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before
    elements, whole = read(page)
    assert whole["verdict"]["kind"] == "sound"
    assert [each["id"] for each in whole["sections"]] == [
        "time", "topics", "sizes", "queues", "groups", "index", "damage", "derived", "fates",
        "disk",
    ]  # fmt: skip
    assert [each["alarms"] for each in whole["sections"]] == [[]] * 10
    drawn = [each["id"] for each in whole["sections"] if each["pictures"]]
    assert set(drawn) >= {"time", "topics", "sizes", "queues", "index", "damage", "disk"}
    for each in whole["sections"]:
        assert each["tables"] or not each["pictures"], each["id"]
    assert (whole["name"], whole["about"].split(" · ")[0]) == ("store", "RocketMQ 5.3.3")
    assert whole["verdict"]["text"].startswith("Sound: 44 messages and 21 derived files")
    assert whole["verdict"]["command"] == ""
    figures = {each["name"]: each["value"] for each in whole["figures"]}
    assert figures == {
        "Messages": "44", "Topics": "7", "Stored within": "16 s", "Log": "14.3 kB",
        "Damage": "none", "Derived files": "21", "Waiting": "6",
    }  # fmt: skip
    (each,) = [each["note"] for each in whole["figures"] if each["name"] == "Messages"]
    (words,) = section(whole, "sizes")["words"]
    assert each.removesuffix(" each") in words  # of what is written, not of whole segments
    listed = {row[0]: row for row in section(whole, "topics")["tables"][0]["rows"]}
    with reput.open_store(str(store)) as asked:
        counted = {row.topic: row.messages for row in asked.stats(("topic",))}
        depths = {(row.topic, row.queue_id): row.messages for row in asked.queues()}
    assert {name: row[3] for name, row in listed.items() if row[3]} == counted
    shown = section(whole, "queues")["tables"][0]["rows"]
    assert {(row[0], row[1]): row[2] for row in shown} == depths
    assert all(link.startswith(("#", "data:")) for link in elements.links)


def test_a_damaged_store_without_derived_files(tmp_path: Path) -> None:
    store, page = stores.damaged(tmp_path), tmp_path / "report.html"
    words = ["report", str(store), "--output", str(page), "--rocketmq", "5.3.3"]
    assert main(words) == 1
    whole = read(page)[1]
    assert whole["verdict"] == {
        "kind": "bad", "text": "Not sound: 1 damaged range of 521 bytes, 1 message missing",
        "sections": ["damage"], "advice": "To make a copy that a broker serves past the damage:",
        "command": f"reput repair {store} --output repaired --rocketmq 5.3.3",
    }  # fmt: skip
    assert whole["sections"][0]["id"] == "damage"  # before all else
    (tile,) = [each for each in whole["figures"] if each["alarm"]]
    assert (tile["value"], tile["note"]) == ("521 bytes", "1 range, 1 message missing")
    damage = section(whole, "damage")
    assert (
        "1 damaged range of 521 bytes: 521 bytes lost, 1 message known to be missing."
        in damage["alarms"]
    )
    ranges = next(each for each in damage["tables"] if each["name"] == "Damaged ranges")
    assert ranges["rows"][0][0] == 270_392
    assert [each["name"] for each in damage["tables"] if each["open"]] == [
        "Damaged ranges", "Messages missing from queues"
    ]  # fmt: skip
    kinds = {cell["kind"] for cell in damage["pictures"][0]["spec"]["data"]["values"]}
    assert kinds >= {"sound", "damaged"}
    assert "There are none" in section(whole, "derived")["words"][0]


def test_without_a_check_the_page_says_so_and_a_release_not_reported_hinders_none(tmp_path) -> None:
    store, page = stores.damaged(tmp_path), tmp_path / "report.html"
    whole = written(store, page, "--no-check")
    assert whole["verdict"]["kind"] == "unknown"
    assert whole["verdict"]["text"] == "Not checked: --no-check left the check of the log out"
    assert whole["verdict"]["command"] == f"reput check {store}"
    assert section(whole, "topics")["pictures"]
    assert section(whole, "damage")["notes"][0].startswith("not known: ")
    assert written(store, tmp_path / "checked.html")["verdict"]["kind"] == "bad"


@pytest.mark.parametrize("messages", [[], [stores.Message(topic="T")]])
def test_an_empty_log_and_one_message(messages: list[stores.Message], tmp_path: Path) -> None:
    store = stores.of_messages(messages, tmp_path)
    if not messages:
        (store / "commitlog" / ("0" * 20)).write_bytes(bytes(1 << 20))
    whole = written(store, tmp_path / "report.html", "--no-check")
    time = section(whole, "time")
    assert not time["pictures"]  # one moment is a sentence
    assert ("All were stored within 1 s from 2023-" in " ".join(time["words"])) == bool(messages)


@pytest.mark.parametrize("spoilt", ["a queue", "an index file", "config", "all queues"])
def test_a_part_that_is_not_known_leaves_the_others(spoilt: str, tmp_path: Path) -> None:
    store = stores.healthy(tmp_path)
    if spoilt == "a queue":
        next((store / "consumequeue").glob("*/*/*")).write_bytes(b"short")
    elif spoilt == "an index file":
        next((store / "index").iterdir()).write_bytes(b"short")
    elif spoilt == "config":
        (store / "config").mkdir(exist_ok=True)
        (store / "config" / "consumerOffset.json").write_text("[" * 50_000)
        (store / "config" / "topics.json").write_text('{"topicConfigTable": {"T": 7}}')
    else:
        for path in (store / "consumequeue").glob("*/*/*"):
            path.unlink()
    whole = written(store, tmp_path / "report.html", "--no-check")
    assert section(whole, "time")["pictures"]
    assert section(whole, "disk")["pictures"]


def test_hostile_names_are_data(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    whole = written(stores.hostile(tmp_path), page, "--no-check", "--json")
    plain = tmp_path / "plain.html"
    written(stores.healthy(tmp_path / "other"), plain, "--no-check")
    elements = read(page)[0]
    assert elements.names == read(plain)[0].names
    assert [about for about, _ in elements.scripts] == [
        {"type": "application/json", "id": "report"}, {}, {}, {}, {}
    ]  # fmt: skip
    data = elements.scripts[0][1]
    assert not set("<>&") & set(data)
    text = json.dumps(whole)
    assert "\\u202e" not in text.replace("\\\\u202e", "")  # shown as an escape, or not at all
    assert "\\u0000" not in text
    names = {row[0] for row in section(whole, "topics")["tables"][0]["rows"]}
    assert {"<script>document.title='broken'</script>", "\\u202egnp.exe", "__proto__"} <= names
    fates = section(whole, "fates")["tables"]
    assert len(fates[1]["rows"]) == len(stores.HOSTILE)


def test_names_of_files_in_sentences_are_printable(tmp_path: Path) -> None:
    store = stores.healthy(tmp_path)
    (store / "index" / "\u202egnp").write_bytes(b"x")
    whole = written(store, tmp_path / "report.html", "--no-check")
    (note,) = [each for each in section(whole, "index")["notes"] if "is not a file" in each]
    assert "\\u202egnp: is not a file of RocketMQ's, which passes it over" in note
    assert note.isprintable()


def test_a_clock_gone_wrong_hides_no_other_and_a_page_names_all_releases_of_a_store(
    tmp_path,
) -> None:
    messages = [
        stores.Message(topic="T", store_timestamp=stores.AT + n * 60_000) for n in range(300)
    ]
    messages += [stores.Message(topic="T", store_timestamp=t) for t in (0, 1 << 50, -5)]
    whole = written(stores.of_messages(messages, tmp_path), tmp_path / "report.html", "--no-check")
    time = section(whole, "time")
    drawn = time["pictures"][0]["spec"]["data"]["values"]
    assert sum(row["value"] for row in drawn) == 300
    assert "3 of " in time["notes"][0]
    assert sum(row[2] for row in time["tables"][0]["rows"]) == 303
    unpack_archive(UPGRADED / "5.3.3_5.5.0.tar.xz", tmp_path)
    whole = written(tmp_path / "5.3.3_5.5.0", tmp_path / "upgraded.html")
    releases = "RocketMQ 4.7.1 to 5.3.4 up to offset 24,997, then 5.5.0 or later"
    assert whole["about"].split(" · ")[0] == releases


def test_ten_thousand_topics_are_cut_for_the_eye_only(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    whole = written(stores.many_topics(tmp_path), page, "--no-check")
    topics = section(whole, "topics")
    assert len(topics["pictures"][0]["spec"]["data"]["values"]) == 30
    assert "9,970 more are in the table only" in topics["words"][0]
    assert len(topics["tables"][0]["rows"]) == 10_000
    time = section(whole, "time")
    assert len({row["part"] for row in time["pictures"][0]["spec"]["data"]["values"]}) == 9
    assert page.stat().st_size < 8 << 20


def test_labels_are_each_another_data_ends_no_element_and_the_densest_stretch_is_drawn() -> None:
    long = "x" * 200
    cut = "x" * 80 + "…" + "x" * 55
    assert labels([f"{long} / 3", f"{long} / 7", "a\u202eb", "x", long + "y", long + "zy"]) == [
        f"{cut} / 3", f"{cut} / 7", "a\\u202eb", "x", f"{cut}xxxy", f"{cut}xxzy",
    ]  # fmt: skip
    assert len(set(labels(["a", "a", "a (2)", "a"]))) == 4
    text = store_sections.as_data({"a": "</script><!--<script>&\u2028\ud800"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text)["a"].startswith("</script>")
    spans = [log_sections.Span(n * 10, n * 10 + 10, 1, "T") for n in range(5)]
    far = log_sections.Span(10**9, 10**9 + 10, 3, "T")
    assert log_sections._densest([*spans, far], 10) == spans
    assert log_sections._densest(spans, 10) == spans


def test_what_is_allowed_to_run_is_reported_by_hash_and_the_same_store_gives_the_same_page(
    tmp_path,
) -> None:
    page = tmp_path / "report.html"
    written(stores.of_messages([stores.Message()], tmp_path), page, "--no-check")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page.read_text())
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert policy[1].count("'sha256-") == 4
    assert "unsafe-eval" not in policy[1]
    store = stores.of_messages([stores.Message()], tmp_path)
    for name in ("a.html", "b.html"):
        reput.report(str(store), str(tmp_path / name), now=NOW)
    a, b = (re.sub(r'"age",.*', "", (tmp_path / name).read_text()) for name in ("a.html", "b.html"))
    assert a == b


# --- the file ------------------------------------------------------------------------------------
def test_only_a_page_is_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, page = stores.of_messages([stores.Message()], tmp_path), tmp_path / "report.html"
    words = ["report", str(store), "--output", str(page), "--no-check"]
    assert main(words) == 0
    assert page.read_bytes().startswith(store_sections.BEGINS)
    assert main(words) == 2
    assert "is there already, and stays" in capsys.readouterr().err
    page.chmod(0o644)
    first = page.stat().st_ino
    assert main([*words, "--replace"]) == 0
    assert page.stat().st_ino != first
    mine = tmp_path / "thesis.html"
    mine.write_text("<!doctype html>years of work")
    (tmp_path / "link.html").symlink_to(page)
    os.mkfifo(tmp_path / "fifo")
    for name in ("thesis.html", "link.html", "fifo", "store"):
        assert main([*words[:3], str(tmp_path / name), "--no-check", "--replace"]) == 2, name
    assert mine.read_text() == "<!doctype html>years of work"
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


@pytest.mark.parametrize("replace", [False, True])
def test_half_a_page_is_never_there(tmp_path, monkeypatch, replace: bool) -> None:
    store, page = stores.of_messages([stores.Message()], tmp_path), tmp_path / "report.html"
    reput.report(str(store), str(page), now=NOW)
    before = page.read_bytes() if replace else None
    if not replace:
        page.unlink()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        reput.report(str(store), str(page), replace=replace, now=NOW)
    assert (page.read_bytes() if page.exists() else None) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == (
        ["report.html", "store"] if replace else ["store"]
    )


@pytest.mark.parametrize("step", ["fsync", "link"])
def test_a_file_that_came_meanwhile_stays(step: str, tmp_path, monkeypatch) -> None:
    store, page = stores.of_messages([stores.Message()], tmp_path), tmp_path / "report.html"
    real = getattr(os, step)

    def late(*words: Any) -> None:
        page.write_text("mine")
        real(*words)

    monkeypatch.setattr(os, step, late)
    with pytest.raises(reput.StoreError, match="is there already, and stays"):
        reput.report(str(store), str(page), now=NOW)
    assert page.read_text() == "mine"


def test_where_nothing_is_renamed_a_page_is_written_in_place(tmp_path, monkeypatch) -> None:
    """As on a Databricks volume, where a file appears when it is closed."""
    store, page = stores.of_messages([stores.Message()], tmp_path), tmp_path / "report.html"

    def none(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("reput.jobs.outputs.output.VolumeStorage.is_for", lambda _: True)
    for name in ("link", "rename", "replace"):
        monkeypatch.setattr(os, name, none)
    for replace in (False, True):
        reput.report(str(store), str(page), replace=replace, now=NOW)
        assert page.read_bytes().startswith(store_sections.BEGINS)
