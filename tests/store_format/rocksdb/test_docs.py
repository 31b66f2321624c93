"""The examples of docs/formats/rocksdb.md are rows of real stores, and its tables the layouts."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from reput.store_format import layouts
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.rocksdb import queues
from reput.store_format.rocksdb.database import open_database
from tests.format_pages import FIELD_ROW, fields, text_of
from tests.store_format.fate.stores import IN_ROCKSDB
from tests.store_format.fate.stores import unpack as unpack_fates
from tests.store_format.rocksdb.stores import unpack

EXAMPLES = re.findall(r"^```rocksdb (\S+) (\S+) (\S+)\n(.*)\n(.*)\n```$", text_of("rocksdb"), re.M)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_is_a_row_of_its_store(number: int, tmp_path: Path) -> None:
    name, folder, family, key, value = EXAMPLES[number]
    store = (unpack_fates if name == IN_ROCKSDB else unpack)(name, tmp_path)[0]
    with closing(open_database(Folder(LocalStorage(), f"{store}/{folder}"))) as database:
        assert database.get(family, bytes.fromhex(key)) == bytes.fromhex(value)


def test_the_tables_of_fields_are_the_layouts_and_keys_those_of_the_examples() -> None:
    rows = [FIELD_ROW.fullmatch(line) for line in text_of("rocksdb").splitlines()]
    found = [(int(row[1]), int(row[2]), row[3]) for row in rows if row]
    assert found == [*fields(layouts.ROCKSDB_ENTRY), *fields(layouts.ROCKSDB_OFFSET)]
    entry, most, checkpoint = (bytes.fromhex(row[3]) for row in EXAMPLES[:3])
    queue = queues.queue_key("Live0", 0)
    assert queues.entry_key(queue, 5) == entry
    assert queues.parse_entry_key(entry) == (queue, 5)
    assert queues.topic_of(queue) == ("Live0", 0)
    assert queues.offset_key("Live0", 0, queues.MAX) == most
    assert queues.parse_offset_key(most) == queues.QueueOffset("Live0", 0, queues.MAX)
    assert checkpoint == queues.CHECKPOINT_KEY
    row = np.frombuffer(bytes.fromhex(EXAMPLES[0][4]), layouts.ROCKSDB_ENTRY)[0]
    assert row.item()[:3] == (19330, 353, 65)
    for cut in range(1, 19):
        assert queues.parse_offset_key(most[:-cut]) is None
        assert queues.parse_entry_key(entry[:-cut]) is None
    assert queues.parse_offset_key(queues.offset_key("../x", 0, queues.MAX)) is None
