"""What a recovery takes away beside derived files: pops of lost messages, other entries."""

import json
import shutil
from pathlib import Path

import pytest
import rocksdict

from reput.jobs.recover import recover
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.notes import Notes
from reput.store_format.query.pop_leftovers import kept_pops
from tests.built import Built
from tests.in_process import Session
from tests.jobs.recovering import made, run


def kept(folder: Path) -> list[int]:
    """The offsets of the rows."""
    return sorted(pop.offsets[0] for pop in kept_pops(Folder(LocalStorage(), str(folder)), Notes()))


def with_pops(store: Path, *rows: tuple[str, int, int]) -> Path:
    """A stopped broker's kvStore, with rows of topics, queues and offsets."""
    raw = rocksdict.Options(raw_mode=True)
    with rocksdict.Rdict(str(store / "kvStore"), raw) as database:
        states = database.create_column_family("popState", raw)
        for number, (topic, queue, offset) in enumerate(rows):
            about = {"popTime": 1, "groupId": "g", "topicId": topic, "queueId": queue,
                     "invisibleTime": 9, "offset": offset}  # fmt: skip
            states[b"%d" % number] = json.dumps(about).encode()
    return store


@pytest.mark.parametrize("killed", ["", "rename", "exchange", "sync_folder"])
def test_rows_of_pops_past_the_log_s_end_go(killed: str, tmp_path: Path, monkeypatch) -> None:
    store = made(tmp_path / "store", 30)  # T0 to T2, of 3 queues each
    in_log = [("T1", 0, 0), ("T1", 0, 3), ("%LMQ%x", 0, 9)]
    with_pops(store, *in_log, ("T1", 0, 50), ("%RETRY%g_T1", 0, 8), ("T1", 0, 51))
    if killed:
        real = getattr(DiskFiles, killed)

        def stops(files: DiskFiles, path: str, *more: str) -> None:
            real(files, path, *more)
            if "kvStore" in (path + "".join(more)) or path == "reput-cut":
                raise KeyboardInterrupt

        monkeypatch.setattr(DiskFiles, killed, stops)
        with pytest.raises(KeyboardInterrupt):
            run(store)
        monkeypatch.undo()
        assert kept(store) in ([0, 3, 9], [0, 3, 8, 9, 50, 51])
    about = run(store)
    assert about.done
    assert killed or "remove 3 rows of lost messages from kvStore/" in about.steps()
    assert kept(store) == [0, 3, 9]
    whole = [folder for folder in (store / "reput-cut").iterdir() if folder.is_dir()]
    (store / "reput-cut" / "old").mkdir()
    found = []
    for folder in whole:
        folder.rename(store / "reput-cut" / "old" / "kvStore")
        found.append(kept(store / "reput-cut" / "old"))
        shutil.rmtree(store / "reput-cut" / "old" / "kvStore")
    assert [0, 3, 8, 9, 50, 51] in found
    assert not run(store).needed


@pytest.mark.parametrize("field", [15, 27, None])  # the last bytes of queueId and queueOffset
def test_an_entry_of_a_sound_record_is_not_replaced_without_a_word(field, tmp_path) -> None:
    """No checksum covers a record's head; its queue's own entry says what it was."""
    built = Built().put(count=15).put("U", count=15).derive()
    queue = f"consumequeue/T/0/{0:020}"
    if field is not None:
        built.flip("commitlog", built.places()[6] + field, 2)
    else:  # a torn page of the queue is no evidence
        built.damage(queue, 100, (50).to_bytes(8, "big"))
    about = recover(Session(), str(built.write(tmp_path / "store")), rocketmq="5.3.3",
                    settings=built.given(), dry_run=True)  # fmt: skip
    assert queue in about.written
    said = [line for line in about.left_out if "named the record at" in line]
    assert len(said) == (field is not None)
