"""Segments in their folders: what is refused, what is only reported, and how a log is cut."""

import numpy as np
import pytest

from reput.store_format.faults import StoreError
from reput.store_format.files.protocol import FileState
from reput.store_format.layouts import MAGIC_V1, RECORD_HEAD
from reput.store_format.log.segments import (
    FIND_FIRST,
    Finding,
    Listing,
    Segment,
    Splits,
    Stretch,
    commit_log_folders,
    find_segments,
    list_segments,
)
from reput.store_format.names import segment_name
from reput.store_format.release.settings import settings_from
from tests.memory_storage import MemoryStorage

SIZE = 100
FOLDER = f"a/{segment_name(100)}"  # a folder by a segment's name


def storage(*files: tuple[str, int]) -> MemoryStorage:
    """Files by path or by first offset, and their sizes; in folder `a` unless a path says else."""
    made = MemoryStorage()
    for path, size in files:
        folder, _, name = path.rpartition("/")
        name = segment_name(int(name)) if name.isdigit() and len(name) < 20 else name
        made.files[f"{folder or 'a'}/{name}"] = bytes(size)
    made.folders |= {"a", "b"}
    return made


def starts(segments: list[Segment]) -> list[int]:
    return [segment.start for segment in segments]


def test_segments_of_several_folders_are_one_log_whose_stretches_cover_each_once() -> None:
    made = storage(("a/200", SIZE), ("b/100", SIZE), ("a/300", 0))
    found = find_segments(made, ["a", "b"], SIZE)
    assert starts(found) == [100, 200]  # the empty last file is what RocketMQ deletes
    assert (found[-1].path, found[-1].end) == (f"a/{segment_name(200)}", 300)
    made = storage(("0", SIZE))
    for folder, reason in (("none", "no such folder"), (f"a/{segment_name(0)}", "is not a folder")):
        with pytest.raises(StoreError, match=f"{folder}: {reason}"):
            find_segments(made, [folder], SIZE)
        assert list_segments(made, ["a", folder], SIZE).findings == [Finding(folder, reason)]
    segments = [Segment("x", start, FileState(SIZE, 0, 0)) for start in (100, 200)]
    splits = Splits(segments, 40, SIZE)
    assert [splits.stretch(n)[2:] for n in range(splits.total)] == [
        (100, 140, 100), (140, 180, FIND_FIRST), (180, 200, FIND_FIRST),
        (200, 240, 200), (240, 280, FIND_FIRST), (280, 300, FIND_FIRST),
    ]  # fmt: skip
    assert splits.stretch(1, first=150) == Stretch(100, 200, 140, 180, 150)
    assert Splits(segments, 100, SIZE).total == Splits(segments, 1000, SIZE).total == 2


@pytest.mark.parametrize(("files", "reason"), [
    ([], "no segments: the log is empty"), ([("0", 0)], "the log is empty"),
    ([("0", 99)], "has 99 bytes, but mappedFileSizeCommitLog is 100"),
    ([("0", 0), ("100", SIZE)], "has 0 bytes"), ([("50", SIZE)], "its name is no multiple"),
    ([("0", SIZE), ("b/0", SIZE)], "is there twice, also as a/"),
    ([("0", SIZE), ("200", SIZE)], "ends at 100, so 1 segment is missing"),
    ([("0", SIZE), ("400", SIZE)], "so 3 segments are missing"),
    ([("abort", 0)], "the log is empty"), ([("9" * 20, SIZE)], "the log is empty"),
    ([(f"{FOLDER}/0", SIZE)], "the log is empty"),  # a broker passes folders over
])  # fmt: skip
def test_what_is_no_log_is_refused(files: list[tuple[str, int]], reason: str) -> None:
    with pytest.raises(StoreError, match=reason):
        find_segments(storage(*files), ["a", "b"], SIZE)


@pytest.mark.parametrize(("files", "left", "odd", "findings"), [
    ([("0", SIZE), ("100", SIZE)], [0, 100], [], []),
    ([("0", SIZE), ("100", 7)], [0, 100], [1], ["has 7 bytes"]),
    ([("0", SIZE), ("100", 0)], [0], [], []), ([("0", 0), ("100", SIZE)], [0, 100], [0], ["has 0"]),
    ([("0", SIZE), ("300", SIZE)], [0, 300], [], ["a hole before it: 2 segments are missing"]),
    ([("0", SIZE), ("150", SIZE)], [0], [],
     ["no multiple of mappedFileSizeCommitLog 100; left out"]),
    ([("0", SIZE), ("b/0", SIZE)], [0], [],
     [f"is there twice, also as a/{segment_name(0)}; left out"]),
    ([("0", SIZE), ("x.tmp", 1)], [0], [], []),  # log/there names it
    ([("0", SIZE), (f"{FOLDER}/0", 1)], [0], [], []),
])  # fmt: skip
def test_a_listing_reports_and_goes_on(files, left, odd, findings) -> None:
    found = list_segments(storage(*files), ["a", "b"], SIZE)
    assert (starts(found.segments), sorted(found.odd)) == (left, odd)
    for finding, reason in zip(found.findings, findings, strict=True):
        assert reason in finding.reason


def record(place: int, size: int = 200) -> bytes:
    """A record's head at a physical offset, and no more of it than its size."""
    head = np.zeros(1, RECORD_HEAD)
    head["totalSize"], head["magic"], head["physicalOffset"] = size, MAGIC_V1, place
    return head.tobytes().ljust(size, b"\1")


def two_records(place: int) -> bytes:
    return record(place) + record(place + 200)


def listing(files: dict[str, bytes]) -> Listing:
    return list_segments(MemoryStorage(files), ["a", "b"], 400)


FIRST, SECOND, THIRD = (f"a/{segment_name(400 * n)}" for n in range(3))
ODD = f"a/{segment_name(401)}"


def test_a_segment_with_a_wrong_name_is_proved_by_its_records_and_what_it_hides_refused() -> None:
    found = listing({FIRST: two_records(0), ODD: two_records(400), THIRD: two_records(800),
                     "b/x": b""})  # fmt: skip
    assert [(each.start, each.path) for each in found.segments][1] == (400, ODD)
    (finding,) = found.findings
    assert "is read as that" in finding.reason
    assert (finding.left_out, finding.todo[:5]) == (False, "give ")
    log = {SECOND: two_records(400)}
    for name in (SECOND, FIRST):  # an expired segment's copy is nothing that the log lacks
        files = {**log, "a/x.bak": two_records(int(name[2:]))}
        assert starts(find_segments(MemoryStorage(files), ["a"], 400)) == [400]
        assert not list_segments(MemoryStorage(files), ["a"], 400).findings
    files = {**log, "a/x.bak": two_records(800)}
    with pytest.raises(StoreError, match=f"x.bak: .* segment {segment_name(800)}, which the log"):
        find_segments(MemoryStorage(files), ["a"], 400)


@pytest.mark.parametrize(("files", "reason", "left_out"), [
    ({SECOND: two_records(400), ODD: two_records(400)}, "which is there; left out", True),
    ({ODD: record(400)}, "no multiple of mappedFileSizeCommitLog 400; left out", True),
    ({ODD: record(400) + record(900)}, "400; left out", True),  # they disagree
    ({ODD: b""}, "400; left out", False),
    ({"a/x.bak": two_records(400)}, "which the log lacks; left out", True),
])  # fmt: skip
def test_a_file_with_messages_that_is_left_out_is_named(files, reason, left_out) -> None:
    found = listing({FIRST: two_records(0), "b/x": b"", **files})
    (finding,) = found.findings
    assert reason in finding.reason
    assert finding.left_out == left_out


@pytest.mark.parametrize("empty", [b"", bytes(400)])
@pytest.mark.parametrize("first", [True, False])
def test_of_a_segment_in_two_paths_the_one_with_records_counts(empty: bytes, first: bool) -> None:
    """AllocateMappedFileService prepares a file in a path whose disk then fills up (#8859)."""
    twin = f"b/{segment_name(400)}"
    used, unused = (SECOND, twin) if first else (twin, SECOND)
    files = {FIRST: two_records(0), used: two_records(400), unused: empty, THIRD: two_records(800)}
    storage = MemoryStorage(files)
    assert [each.path for each in find_segments(storage, ["a", "b"], 400)] == [FIRST, used, THIRD]
    found = list_segments(storage, ["a", "b"], 400)
    assert [each.path for each in found.segments] == [FIRST, used, THIRD]
    (finding,) = found.findings
    assert (finding.path, finding.left_out) == (unused, False)


def test_the_folders_are_those_of_the_brokers_settings_the_store_s_own_by_one_path(
    tmp_path, monkeypatch
) -> None:
    def folders(**given: str) -> list[str]:
        return commit_log_folders("s", settings_from(given))

    assert folders() == ["s/commitlog"]
    assert folders(storePathCommitLog="/a/, /b,,/a") == ["/a", "/b"]
    assert folders(readOnlyCommitLogStorePaths="/c/") == ["s/commitlog", "/c"]
    assert folders(storePathCommitLog="/a", readOnlyCommitLogStorePaths="/c,/a") == ["/a", "/c"]
    # Most templates of a broker.conf name STORE/commitlog.
    store = tmp_path / "store"
    (store / "commitlog").mkdir(parents=True)
    (tmp_path / "link").symlink_to(store)
    monkeypatch.chdir(tmp_path)
    own = f"{store}/commitlog"
    for named in (own, f"{own}/", "store/commitlog", f"{tmp_path}/link/commitlog", f"{own},{own}/"):
        assert commit_log_folders(str(store), settings_from({"storePathCommitLog": named})) == [own]


@pytest.mark.parametrize(("limit", "ends"), [
    (100, [100]), (101, [101]), (140, [140]), (141, [140, 141]), (200, [140, 180, 200]),
    (290, [140, 180, 200, 240, 280, 290]), (300, [140, 180, 200, 240, 280, 300]),
])  # fmt: skip
def test_stretches_end_at_a_limit(limit: int, ends: list[int]) -> None:
    segments = [Segment("x", start, FileState(SIZE, 0, 0)) for start in (100, 200)]
    splits = Splits(segments, 40, SIZE, limit)
    assert [splits.stretch(n).end for n in range(splits.total)] == ends
