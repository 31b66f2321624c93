"""Checks in this process."""

from typing import Any

from reput.jobs.check import check
from reput.jobs.judging.report import CheckReport
from reput.jobs.pipeline.pipeline import Cut
from tests.damaged import Damaged
from tests.in_process import STORE, Session, as_text, storage_of
from tests.memory_storage import MemoryStorage


def run_check(store: str, version: str, settings: Any, **more: Any) -> CheckReport:
    return check(Session(), store, rocketmq=version, settings=as_text(settings), **more)  # type: ignore[arg-type]


def checked(log: Damaged, splits: int = 1, storage: MemoryStorage | None = None) -> CheckReport:
    storage = storage or storage_of(log.log)
    before = dict(storage.files)
    cut = Cut(-(-log.settings["mappedFileSizeCommitLog"] // splits), 2, 2)
    report = run_check(STORE, log.version, log.settings, cut=cut, storage=storage)
    assert storage.files == before
    return report
