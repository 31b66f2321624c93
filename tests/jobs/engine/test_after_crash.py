"""From where a broker dispatches again after a crash: the store times that decide it."""

from pathlib import Path

import pytest

from reput.jobs.engine.after_crash import stored_at
from reput.store_format.log.record_rules import record_rules
from reput.store_format.log.segments import Segment
from reput.store_format.release.profiles import profile
from reput.store_format.storage.local import LocalStorage
from tests.logs.encoder import HOST, Message, encode

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
