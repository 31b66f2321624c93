"""Files of config/ beside a replica: copied where they changed, and never over somebody's own."""

import hashlib
from typing import Any

import pytest

from reput.jobs.replicating.config import copy_config, put_config
from reput.store_format.files.folder import Folder
from tests.faults.memory_files import MemoryFiles, crash_states
from tests.memory_storage import MemoryStorage

TOPICS, OFFSETS = b'{"topicConfigTable":{}}', b'{"offsetTable":{}}'
FILES = {
    "s/config/topics.json": TOPICS, "s/config/consumerOffset.json": OFFSETS,
    "s/config/timercheck": b"{}", "s/config/topics.json.bak": b"{}", "s/config/other.json": b"{}",
}  # fmt: skip


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Copying:
    """Rounds of one replication: each copies to the same files, and knows what the last did."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.source, self.target = MemoryStorage(files), MemoryFiles()
        self.known: dict[str, str] = {}
        self.seen: dict[str, Any] = {}

    def round(self, positions: bool = True) -> list[str]:
        self.known, said = copy_config(
            Folder(self.source, "s"), self.target, self.known, positions, self.seen
        )
        return said

    def there(self) -> dict[str, bytes]:
        return self.target.tree()


def test_what_is_not_for_a_replica_stays_behind() -> None:
    copying = Copying(FILES)
    assert copying.round() == []
    assert copying.there() == {"config/topics.json": TOPICS, "config/consumerOffset.json": OFFSETS}
    assert copying.known == {"topics.json": sha(TOPICS), "consumerOffset.json": sha(OFFSETS)}
    copying = Copying(FILES)
    copying.round(positions=False)
    assert copying.there() == {"config/topics.json": TOPICS}
    assert Copying({}).round() == []
    copying = Copying({"s/config/topics.json": bytes((256 << 20) + 1)})
    assert copying.round() == ["s/config/topics.json: 268435457 bytes are too many; left out"]


def test_a_file_that_is_as_it_was_is_not_written_again() -> None:
    copying = Copying(FILES)
    copying.round()
    copying.target.ops.clear()
    copying.round()
    copying.seen.clear()  # another run, which reads it but knows its hash
    copying.round()
    assert not copying.target.ops
    copying.source.files["s/config/topics.json"] = b'{"a":1}'
    copying.round()
    assert copying.there()["config/topics.json"] == b'{"a":1}'
    # As after a kill between the copy and the note that knows of it.
    copying = Copying(FILES)
    copying.round()
    copying.known, copying.seen = {}, {}
    assert copying.round() == []
    assert copying.known["topics.json"] == sha(TOPICS)


def test_a_file_that_is_being_written_waits_for_the_next_round() -> None:
    copying = Copying({"s/config/topics.json": b'{"topicConf'})
    assert copying.round() == []
    assert copying.there() == {}
    copying.source.files["s/config/topics.json"] = TOPICS + b"\n"
    copying.round()
    assert copying.there() == {"config/topics.json": TOPICS + b"\n"}


@pytest.mark.parametrize("torn", [{}, {"s/config/topics.json": bytes(20)}])
def test_of_a_torn_or_missing_file_the_bak_is_copied(torn: dict[str, bytes]) -> None:
    copying = Copying({**torn, "s/config/topics.json.bak": TOPICS})
    copying.round()
    assert copying.there() == {"config/topics.json": TOPICS}


def test_a_copy_that_somebody_has_changed_stays_and_is_told_of_each_time() -> None:
    copying = Copying(FILES)
    copying.round()
    copying.target.open("config/topics.json").write_at(0, b'["topicConfigTable":{}]')
    copying.source.files["s/config/topics.json"] = b"{}"
    said = "config/topics.json: was changed in the target, and stays as it is"
    assert copying.round() == [said]
    assert copying.there()["config/topics.json"] == b'["topicConfigTable":{}]'


@pytest.mark.parametrize(("content", "whole"), [(b"{}", True), (b"", False), (b"null", False)])
def test_only_what_ends_like_json_is_put(content: bytes, whole: bool) -> None:
    copied: dict[str, str] = {}
    files, said = MemoryFiles(), ["earlier"]
    assert put_config(files, "topics.json", content, copied, said) is whole
    assert files.exists("config/topics.json") is whole
    assert (copied, said) == ({"topics.json": sha(content)} if whole else {}, ["earlier"])
    for crash in crash_states(MemoryFiles(), files.ops, 1, 0):  # the note of it comes later
        assert crash.after < len(files.ops) or crash.files.tree() == files.tree()
