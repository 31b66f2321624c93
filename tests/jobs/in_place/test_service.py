"""A service's change: planned from what is there, asked for, made by a writer, or not at all."""

import os
import signal
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from reput.broker.writer.writer import CommitLogWriter
from reput.jobs.console.declared import OfService
from reput.jobs.in_place.service import Look, Service, one_by_one, refuse_damage, run_service
from reput.store_format.fate.rows import gathered_delays
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.message.message import Message
from reput.store_format.notes import Done, Notes, Progress
from reput.store_format.query.reader import OpenedStore
from tests.broker.writer.stores import TINY, open_writer
from tests.damaged import Damaged, damaged
from tests.in_process import STORE, as_text, storage_of

SETTINGS = as_text(TINY)


class Appends:
    """A service that appends a message if there are fewer than four."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.looks: list[tuple[int, bool | None]] = []  # messages there, whether it was stopped
        self.asked: list[str] = []
        self.acted: list[int] = []
        self._meanwhile = meanwhile

    def run(self, store: Path, dry_run: bool = False) -> int:
        service = Service(self.plan, lambda many: "append" if many < 4 else "", self.act)
        return run_service(
            service, OfService(str(store), rocketmq="5.3.3", settings=SETTINGS, dry_run=dry_run,
                               confirm=self.confirm),
        )  # fmt: skip

    def plan(self, look: Look) -> int:
        many = sum(1 for _ in look.store.log.records(0))
        self.looks.append((many, look.stopped))
        return many

    def confirm(self, question: str) -> None:
        self.asked.append(question)
        self._meanwhile()

    def act(self, writer: CommitLogWriter, _: OpenedStore, many: int) -> None:
        writer.append(Message("T", b"more"))
        self.acted.append(many)


def append(store: Path, many: int) -> Path:
    with open_writer(store) as writer:
        for _ in range(many):
            writer.append(Message("T", b"one"))
    return store


def test_nothing_is_asked_or_done_in_a_dry_run_or_where_nothing_is_to_be_done(tmp_path) -> None:
    for many, dry_run in ((2, True), (4, False), (4, True)):
        store, service = append(tmp_path / f"{many}{dry_run}", many), Appends()
        before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
        assert service.run(store, dry_run) == many
        assert (service.asked, service.acted) == ([], [])
        assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before


def test_a_changed_store_is_planned_anew_and_one_of_who_does_not_agree_stays(tmp_path) -> None:
    store = append(tmp_path / "store", 1)
    service = Appends(lambda: append(store, 2))
    assert service.run(store) == 3
    assert (service.looks, service.acted) == ([(1, None), (3, True)], [3])

    def no() -> None:
        raise KeyboardInterrupt

    store, service = append(tmp_path / "other", 1), Appends(no)
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    with pytest.raises(KeyboardInterrupt):
        service.run(store)
    assert service.acted == []
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before


@pytest.mark.parametrize(("signalled", "done", "code"), [(0, 3, 0), (2, 2, 143), (3, 3, 0)])
def test_a_signal_ends_the_work_between_two_items(signalled: int, done: int, code: int) -> None:
    """Behind the last item it comes too late to end anything."""
    shown: list[Done] = []
    with one_by_one(Progress(), "sent", 3, "messages") as work:
        count = 0
        while True:
            count += 1
            if count == signalled:
                os.kill(os.getpid(), signal.SIGTERM)
            go_on = work.go_on()
            shown.append(work.done())
            if not go_on or count == 3:
                break
    assert (count, work.stopped) == (done, code)
    assert shown[0] == Done(1 / 3, "1 of 3 messages")
    with one_by_one(Progress(), "sent", 0, "messages") as work:
        assert work.done() == Done(None, "0 of 0 messages")


def looked(log: Damaged) -> None:
    opened = OpenedStore(
        Folder(storage_of(log.log), STORE), log.version, as_text(log.settings), Notes()
    )
    with opened:
        refuse_damage(gathered_delays(opened, Notes())[0], opened)


def test_what_stands_behind_damage_may_be_done_already_and_behind_the_end_a_writer_goes_on():
    """Record 5 is in the first of two segments, and record 50 in the last."""
    looked(damaged())
    for number in (5, 50, 59):
        log = damaged()
        log.flip(number, 5)
        with nullcontext() if number == 59 else pytest.raises(StoreError):
            looked(log)
