"""A repository read as stores: each byte of each moment, and objects that are damaged or gone."""

import json
import pickle
import random
from pathlib import Path

import numpy as np
import pytest

from reput.jobs.opening.questions import open_store
from reput.store_format.faults import PieceBroken, StoreError
from reput.store_format.files.by_url import storage_for
from reput.store_format.names import parse_segment_name
from tests.backed_up import SEGMENT, log_of
from tests.built import T0, Built
from tests.reference.repository import Repository, records

TOPICS = b'{"topicConfigTable": {}}'


@pytest.fixture
def made(tmp_path: Path) -> tuple[Repository, bytes]:
    """Three runs of a growing log of four segments."""
    repository = Repository(tmp_path / "repo")
    for number, count in enumerate((9, 10, 70)):
        log = log_of(Built().put(count=count))
        repository.run(log, T0 + number, state={"config/topics.json": TOPICS,
            "config/rdb/CURRENT": b"%d" % number, "empty": b""})  # fmt: skip
    return repository, log


def read(path: str) -> dict[str, bytes]:
    storage = pickle.loads(pickle.dumps(storage_for(path)))
    found = {}
    for name, state in storage.walk(storage.resolve(path)):
        if state is not None:
            assert storage.open(f"{path}/{name}", state).state == state
            found[name] = storage.read_bytes(f"{path}/{name}")
    return found


def test_any_moment_of_any_range_is_read_and_no_other(made: tuple[Repository, bytes]) -> None:
    repository, log = made
    ends = [place + size for place, size, _ in records(log, 0, SEGMENT)]
    assert repository.runs[3]["end"] == ends[-1] > 3 * SEGMENT
    for end in (0, *ends):
        files = read(f"backup:{repository.root}/broker-a@3.{1 + end % 3}:{end}")
        segments = {name: raw for name, raw in files.items() if name.startswith("commitlog/")}
        assert b"".join(segments.values()) == log[:end].ljust(len(segments) * SEGMENT, b"\0")
        assert len(segments) == max(-(-end // SEGMENT), 1)
        assert {name: raw for name, raw in files.items() if name not in segments} == {
            "config/topics.json": TOPICS, "config/rdb/CURRENT": b"%d" % (end % 3), "empty": b"",
        }  # fmt: skip
    end, draws = repository.runs[3]["end"], random.Random(3)
    path = f"backup:{repository.root}/broker-a@3:{end}"
    storage, wanted = storage_for(path), log[:end] + bytes(SEGMENT)
    for name, state in storage.list(f"{path}/commitlog"):
        start, reader = parse_segment_name(name), storage.open(f"{path}/commitlog/{name}", state)
        for _ in range(50):
            at, stop = sorted(draws.randrange(SEGMENT + 1) for _ in range(2))
            raw = np.empty(stop - at, np.uint8)
            reader.read_into(at, raw)
            assert raw.tobytes() == wanted[start + at : start + stop]
        with pytest.raises(StoreError):
            reader.read_into(SEGMENT - 1, np.empty(2, np.uint8))
    path = f"backup:{made[0].root}/broker-a@3:0"
    with pytest.raises(StoreError, match="only read"):
        storage_for(path).create(f"{path}/x")
    for words in ["@3:99999999", "@4:0", "@3.4:0", "@3", ":3", "@x:1"]:
        path = f"backup:{made[0].root}/broker-a{words}"
        with pytest.raises(StoreError):
            storage_for(path).list(path)


def test_a_branch_and_a_gap_are_logs_of_their_own(made: tuple[Repository, bytes]) -> None:
    repository, log = made
    ends = [place + size for place, size, _ in records(log, 0, SEGMENT)]
    cut, other = ends[5], log_of(Built().put(count=6).put("U", count=20))
    assert other[:cut] == log[:cut]
    fourth = repository.run(other, T0 + 9, begin=cut)
    assert read(f"backup:{repository.root}/broker-a@{fourth}:{ends[5]}")
    files = read(f"backup:{repository.root}/broker-a@{fourth}:{repository.runs[fourth]['end']}")
    said = b"".join(raw for name, raw in files.items() if name.startswith("commitlog"))
    assert said == other[: len(said)]
    # segments up to 6 * SEGMENT are gone before the fifth run
    late = Built(start=6 * SEGMENT).put("V", count=12)
    fifth = repository.run(log_of(late), T0 + 10, first=6 * SEGMENT, begin=6 * SEGMENT,
        gap=[repository.runs[fourth]["end"], 6 * SEGMENT])  # fmt: skip
    files = read(f"backup:{repository.root}/broker-a@{fifth}:{repository.runs[fifth]['end']}")
    assert min(files) == f"commitlog/{6 * SEGMENT:020d}"
    assert b"".join(files.values()) == log_of(late)


def test_what_is_damaged_or_gone_is_named(made: tuple[Repository, bytes]) -> None:
    repository, log = made
    pieces = sorted((repository.folder / "log").iterdir())
    path = f"backup:{repository.root}/broker-a@3:{repository.runs[3]['end']}"
    raw = bytearray(pieces[1].read_bytes())
    raw[100] ^= 4
    pieces[1].write_bytes(raw)
    with pytest.raises(PieceBroken, match=pieces[1].name):
        read(path)
    pieces[1].unlink()
    with pytest.raises(PieceBroken, match=f"{pieces[1].name}: is missing"):
        read(path)
    first = int(pieces[1].name[:20])
    with open_store(f"backup:{repository.root}/broker-a@3:{first}") as store:
        assert len(list(store.messages())) == len(records(log[:first], 0, SEGMENT))


@pytest.mark.parametrize("field", ["path", "setting"])
def test_an_edited_catalogue_is_refused(made: tuple[Repository, bytes], field: str) -> None:
    repository, _ = made
    run = json.loads((repository.folder / "runs/00000003.json").read_text())
    if field == "path":
        run["state"][0]["path"] = "commitlog/00000000000000000000"
    else:
        run["settings"]["mappedFileSizeCommitLog"] = "0"
    (repository.folder / "runs/00000003.json").write_text(json.dumps(run))
    with pytest.raises(StoreError, match=r"00000003\.json"):
        read(f"backup:{repository.root}/broker-a@3:{run['end']}")
