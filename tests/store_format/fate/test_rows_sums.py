"""The sums of fates are those of the lists, from one walk over the log in place of two."""

from collections import Counter
from pathlib import Path

import pytest

from reput.jobs.opening.questions import open_store
from reput.store_format.fate.rows import fate_sums
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.notes import Notes
from reput.store_format.query.reader import NEWEST, OpenedStore
from tests.store_format.fate.stores import unpack


@pytest.mark.parametrize("name", ["live_5.3.3", "live_4.9.7", "skipped_5.2.0"])
def test_sums_are_those_of_the_lists(name: str, tmp_path: Path) -> None:
    store = str(unpack(name, tmp_path)[0])
    with open_store(store) as asked:
        transactions, delayed = asked.transactions(everything=True), asked.delayed(everything=True)
        open_transactions, open_delayed = list(asked.transactions()), list(asked.delayed())
    with OpenedStore(Folder(LocalStorage(), store), NEWEST, {}, Notes()) as opened:
        found = fate_sums(opened, 1000, Notes())
        few = fate_sums(opened, 1, Notes())
    assert found.transactions == Counter(row.state for row in transactions)
    assert found.delayed == Counter((row.by, row.state) for row in delayed)
    assert found.open_transactions == open_transactions
    assert found.open_delayed == open_delayed
    assert transactions or delayed
    assert few.transactions == found.transactions
    assert few.open_delayed == open_delayed[:1]
