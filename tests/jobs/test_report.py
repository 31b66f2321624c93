"""`reput report`: one page about a store, which replaces no file but an older page of ours."""

from pathlib import Path

import pytest

from reput.jobs.report import Reported, report
from reput.store_format.faults import StoreError
from tests.in_process import Session
from tests.jobs.listing import put_store
from tests.store_format.fate.logs import SEGMENT, T0, SmallLog

SETTINGS = {"mappedFileSizeCommitLog": str(SEGMENT)}


@pytest.fixture
def store(tmp_path: Path) -> str:
    log = SmallLog()
    log.put("Orders")
    log.put("<b>&", 1)
    return put_store(tmp_path, log)


def written(store: str, file: Path, replace: bool = False) -> Reported:
    return report(Session(), store, str(file), check=False, rocketmq="5.3.3", settings=SETTINGS,
                  replace=replace, now=T0)  # fmt: skip


def test_only_an_older_page_is_replaced_and_only_where_that_is_wanted(store: str, tmp_path) -> None:
    file = tmp_path / "page.html"
    written(store, file)
    before = file.read_bytes()
    with pytest.raises(StoreError):
        written(store, file)
    assert written(store, file, replace=True).bytes == len(before)
    file.write_text("<!DOCTYPE html><p>mine")
    with pytest.raises(StoreError, match="stays"):
        written(store, file, replace=True)
    assert file.read_text() == "<!DOCTYPE html><p>mine"


@pytest.mark.parametrize("place", ["page.html", "commitlog/page.html", "config/page.html"])
def test_nothing_is_written_into_the_store(store: str, place: str) -> None:
    (Path(store) / "config").mkdir()
    with pytest.raises(StoreError):
        written(store, Path(store) / place)
    assert not (Path(store) / place).exists()


def test_its_text_tells_what_is_not_known_but_for_the_check() -> None:
    told = Reported("p.html", 1234, None, "sound", {"check": "left out", "index": "no file"})
    assert told.text().splitlines() == [
        "wrote p.html: 1,234 bytes", "  verdict   sound", "  lacking   index files: no file",
    ]  # fmt: skip
