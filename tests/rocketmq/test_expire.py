"""A broker on one copy of a store deletes what has expired, `reput expire` on another: the same."""

import shutil
from pathlib import Path

import pytest

from reput import expire
from reput.store_format.names import COMMIT_LOG
from tests.in_process import as_text
from tests.rocketmq.live import SETTINGS, Broker, living, messages

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]
FOLDERS = (COMMIT_LOG, "consumequeue", "index")
SMALL = {"mappedFileSizeCommitLog": 1 << 16, "mappedFileSizeConsumeQueue": 400, "maxIndexNum": 300}


def names(store: Path) -> set[str]:
    """The files that hold anything: a broker prepares segments ahead."""
    return {str(path.relative_to(store)) for folder in FOLDERS
            for path in (store / folder).rglob("*") if path.is_file()
            and (folder != COMMIT_LOG or any(path.read_bytes()))}  # fmt: skip


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_what_a_broker_deletes(version: str, tmp_path: Path) -> None:
    """Ten segments of any age (fileReservedTime=0), then queue and index files; a broker starts on
    what reput leaves, and changes nothing."""
    store = tmp_path / "store"
    with living(version, store, **SMALL) as (_, client):
        client.send(messages(3000))
    ours = tmp_path / "ours"
    shutil.copytree(store, ours)
    whole = names(store)
    with Broker(version, store, **SMALL) as broker:
        broker.driver.ask("broker.clean", queues=True)
        broker.stop()
    settings = as_text({**SETTINGS, **SMALL, "fileReservedTime": 0})
    done = expire(str(ours), rocketmq=version, settings=settings, any_hour=True, even_unread=True,
                  even_delayed=True, even_pending=True)  # fmt: skip
    assert len(done.segments) == 10
    assert names(ours) == names(store)
    assert {each.path for each in (*done.segments, *done.files)} == whole - names(ours)
    left = names(ours)
    with Broker(version, ours, **SMALL) as broker:
        broker.stop()
    assert names(ours) >= left
