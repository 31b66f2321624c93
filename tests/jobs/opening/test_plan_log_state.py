"""Whether a segment changed while it was read: by its size, its time, and the file itself."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reput.jobs.opening.plan import Plan, check_unchanged, make_plan
from reput.store_format.discover.purpose import LOOK
from reput.store_format.discover.store import discover, store_at
from reput.store_format.faults import StoreChanged
from reput.store_format.log.segments import may_grow
from tests.built import write_log
from tests.jobs.comparing.pairs import message
from tests.logs.encoder import build_log

SEGMENT = 4096


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    store = write_log(tmp_path / "store", build_log([message(n) for n in range(60)], SEGMENT))
    at = store_at(str(store), "5.3.3", {"mappedFileSizeCommitLog": str(SEGMENT)})
    return make_plan(at, discover(at, LOOK), LOOK)


def grown(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def touched(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def put_anew(path: Path) -> None:
    about = path.stat()
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    os.utime(copy, ns=(about.st_atime_ns, about.st_mtime_ns))
    copy.replace(path)


@pytest.mark.parametrize("change", [grown, touched, put_anew, Path.unlink])
def test_any_change_of_a_segment_is_seen(plan: Plan, change: Callable[[Path], None]) -> None:
    check_unchanged(plan)
    path = plan.segments[-1].path
    change(Path(path))
    with pytest.raises(StoreChanged, match=f"^{path}: changed"):
        check_unchanged(plan)


def test_a_segment_that_a_broker_writes_to_may_have_another_time_only(plan: Plan) -> None:
    growing = replace(plan, segments=may_grow(plan.segments, -1))
    path = Path(plan.segments[-1].path)
    touched(path)
    check_unchanged(growing)
    put_anew(path)
    with pytest.raises(StoreChanged):
        check_unchanged(growing)


def test_a_new_segment_is_no_change(plan: Plan) -> None:
    (Path(plan.store) / "commitlog" / f"{2 * SEGMENT:020d}").write_bytes(bytes(SEGMENT))
    check_unchanged(plan)
