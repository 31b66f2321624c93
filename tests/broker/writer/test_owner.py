"""What root's writer makes in a store belongs to the store's owner: its broker has to write it."""

import os
from pathlib import Path

import pytest

from reput.store_format.message.message import Message
from tests.broker.writer.stores import open_writer

_OWNER = (12345, 12346)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_all_that_a_writer_makes_is_the_stores_owners(tmp_path: Path) -> None:
    """Also the folder index/, which another one takes the place of."""
    store = tmp_path / "store"
    store.mkdir(mode=0o750)
    os.chown(store, *_OWNER)
    for times in range(2):  # made, and reopened
        writer = open_writer(store)
        for number in range(40):
            writer.append(Message("T", bytes(300), keys=f"k{times}.{number}"))
        writer.dispatch()
        (writer.close if times else writer.abandon)()
        paths = [store, *store.rglob("*")]
        assert {p.name for p in paths} >= {"index", "commitlog", "lock", "checkpoint"}
        for path in paths:
            about = path.lstat()
            assert (about.st_uid, about.st_gid) == _OWNER, path
            assert not about.st_mode & 0o007, path
