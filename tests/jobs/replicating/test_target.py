"""A store that is or becomes a replica: where it may be, where it ends, and of which log it is."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from reput.jobs.replicating import target
from reput.store_format.faults import StoreError
from reput.store_format.names import segment_name
from tests.broker.change.catching import rules_of
from tests.broker.change.equal_records import SEGMENT, in_turns
from tests.built import write_log
from tests.logs import Log


@contextmanager
def opened(root: Path, log: Log) -> Iterator[target.ReplicaTarget]:
    with target.held_target(str(root), (), None) as held:
        settings = {"storePathCommitLog": "/master/commitlog", "maxIndexNum": "50"}
        yield target.ReplicaTarget(held, rules_of(log), settings, "master")


def taken_up(to: target.ReplicaTarget, source: Log, verify: bool = False, start: int = 0) -> int:
    def read(at: int, buffer: np.ndarray) -> None:
        raw = source.segments[at - at % SEGMENT][at % SEGMENT :][: len(buffer)]
        buffer[:] = np.frombuffer(raw, np.uint8)

    to.take_up(read, start, max(source.segments) + SEGMENT, verify)
    return to.log.end


@pytest.mark.parametrize(("made", "why"), [
    ({}, None), ({"lock": "", "lost+found/": ""}, None), ({"commitlog/": ""}, None),
    ({"commitlog/": "", "consumequeue/T/0/": ""}, "queues or an index, and no log"),
    ({"letters": "mine"}, "is not empty and holds no commitlog"),
    ({"commitlog": "a file"}, "commitlog: is a link or no folder"),
    ({"commitlog/" + "0" * 20: "", "consumequeue/T": "a file"}, None)])  # fmt: skip
def test_a_folder_that_somebody_else_uses_is_left_alone(tmp_path, made, why) -> None:
    root = tmp_path / "target"
    root.mkdir()
    for path, content in made.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if path.endswith("/"):
            (root / path).mkdir()
        else:
            (root / path).write_text(content)
    if why is None:
        target.check_target(str(root), ())
        return
    with pytest.raises(StoreError, match=why):
        target.check_target(str(root), ())


@pytest.mark.parametrize("link", ["", "commitlog", "config", "consumequeue/T", "index"])
def test_what_lies_behind_a_link_is_anothers(tmp_path: Path, link: str) -> None:
    root = tmp_path / "target"
    write_log(root if link else tmp_path / "other", in_turns(3).segments)
    place = root / link
    if place.exists():
        place.rename(tmp_path / "away")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(tmp_path)
    with pytest.raises(StoreError, match=r"is a link or no folder|is not a folder"):
        target.check_target(str(root), ())


def test_a_new_replica_begins_where_its_source_does(tmp_path: Path) -> None:
    log = in_turns(3, start=4096)
    with opened(tmp_path / "target", log) as to:
        assert to.find_end() is None
        assert taken_up(to, log, start=4096) == 4096
        assert to.settings == {"maxIndexNum": "50"}  # the source's paths are not ours


@pytest.mark.parametrize(("files", "why"),
                         [({0: SEGMENT, 2 * SEGMENT: SEGMENT}, "a hole before it"),
                          ({0: SEGMENT + 1}, "the source's segments have 2048"),
                          ({SEGMENT // 2: SEGMENT}, "begin at multiples of that"),
                          ({"readme": 3}, "commitlog/readme")])  # fmt: skip
def test_segments_that_cannot_be_the_sources_are_refused(tmp_path, files, why) -> None:
    folder = tmp_path / "target/commitlog"
    folder.mkdir(parents=True)
    for name, length in files.items():
        (folder / (name if name == "readme" else segment_name(name))).write_bytes(bytes(length))
    with pytest.raises(StoreError, match=why), opened(tmp_path / "target", in_turns(3)):
        pass


def test_bytes_that_a_short_file_lacks_read_as_zeros(tmp_path: Path) -> None:
    write_log(tmp_path / "target", {0: b"\7" * 5})
    buffer = np.full(8, 9, np.uint8)
    with opened(tmp_path / "target", in_turns(1)) as to:
        to.read(2, buffer)
    assert buffer.tolist() == [7, 7, 7, 0, 0, 0, 0, 0]


# --- What a replication says it did.
T0 = 1_700_000_000_000


def done(**more: object) -> target.Replicated:
    about = target.Replicated("/a", "/b", 0, 1_000_000, 5_000_000, 1, 2, T0, end_reason="zeros")
    for name, value in more.items():
        setattr(about, name, value)
    return about


def test_lines_say_what_was_copied_and_how_fast() -> None:
    assert done(seconds=0.5).text().splitlines() == [
        "copied /a to /b", "  log       1,000,000 to 5,000,000 (zeros)",
        "  new       1 record, 2 queue entries", "  time      0.5 s, 8 MB/s",
        "  last      stored 2023-11-14T22:13:20.000Z"]  # fmt: skip
    text = done(dry_run=True, last_timestamp=0).text()
    assert text == "would copy /a to /b\n  log       1,000,000 to 5,000,000 (zeros)"
    assert "  time      0.0 s" in done().text().splitlines()
    lines = done(behind=1200, reconnects=1, warnings=["w1", "w2"]).text().splitlines()
    assert lines[5:] == [
        "  behind    1,200 bytes", "  again     connected 1 time", "  warning   w1",
        "  warning   w2"]  # fmt: skip


@pytest.mark.parametrize(
    ("behind", "last", "now", "text"),
    [
        (0, T0, T0 + 9000, "up to date"),
        (4096, T0, T0 + 1999, "4,096 bytes behind, 1 s old"),
        (4096, T0, T0 - 5, "4,096 bytes behind, 0 s old"),  # the master's clock is ahead
        (4096, 0, T0, "4,096 bytes behind"),
    ],
)
def test_how_far_behind_is_bytes_and_the_age_of_the_last_record(behind, last, now, text) -> None:
    assert target.behind_text(behind, last, now) == text
