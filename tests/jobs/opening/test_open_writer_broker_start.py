"""From where a broker dispatches again after a crash: the times and places that decide it."""

from pathlib import Path

import pytest

from reput.jobs.opening.open_writer import stored_at
from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.derived.checkpoint import encode as encode_checkpoint
from reput.store_format.files.local import LocalStorage
from reput.store_format.layouts import QUEUE_ENTRY_BYTES
from reput.store_format.log.rules import record_rules
from reput.store_format.log.segments import Segment
from reput.store_format.release.profiles import profile
from tests.jobs.opening.writing import SETTINGS
from tests.jobs.recovering import crash
from tests.logs.encoder import HOST, Message, encode
from tests.quiet.said import run_verify
from tests.quiet.small_stores import made

HOST_V6 = bytes(range(16)) + HOST[4:]


@pytest.mark.parametrize(
    ("release", "sys_flag", "host"),
    [("5.3.3", 0x10, HOST_V6), ("4.5.2", 0x10, HOST), ("5.3.3", 0, HOST)],
    ids=["an IPv6 host", "the bit before it had a meaning", "an IPv4 host"],
)
def test_a_store_time_stands_behind_the_born_host_of_its_release(
    release: str, sys_flag: int, host: bytes, tmp_path: Path
) -> None:
    path = tmp_path / f"{0:020d}"
    path.write_bytes(encode(Message(sys_flag=sys_flag, born_host=host, store_timestamp=77), 0))
    storage = LocalStorage()
    segment = Segment(str(path), 0, storage.open(str(path)).state)
    rules = record_rules(profile(release))
    assert stored_at(storage, segment, 0, rules) == 77


@pytest.mark.parametrize(
    ("release", "flushed", "faults"), [("5.5.0", True, 1), ("5.5.0", False, 0), ("5.4.0", True, 0)]
)
def test_5_5_0_goes_by_the_place_up_to_which_queues_were_flushed(
    release: str, flushed: bool, faults: int, tmp_path: Path
) -> None:
    store = made(tmp_path / "store")
    path = store / "consumequeue" / "T0" / "0" / f"{0:020d}"
    whole = path.read_bytes()
    path.write_bytes(whole[:-QUEUE_ENTRY_BYTES] + bytes(QUEUE_ENTRY_BYTES))
    last = max(int(path.name) for path in (store / "commitlog").iterdir())
    known = Checkpoint(1, 1, 1, logics_physical_offset=last if flushed else 0)
    (store / "checkpoint").write_bytes(encode_checkpoint(known))
    crash(store)
    report = run_verify(store, release, SETTINGS)
    # one fault, or one file that the broker goes on with
    assert (len(report.differences), len(report.behind)) == (faults, 1 - faults)
