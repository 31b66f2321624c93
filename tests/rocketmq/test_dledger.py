"""A real DLedger group that is killed and fails over: what is derived from its members' logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reput.jobs.verify import verify
from tests.in_process import Session, as_text, run
from tests.rocketmq.dledger import SETTINGS, VERSION, calm, derive_anew, group, live, mixed
from tests.rocketmq.judge import difference

pytestmark = [pytest.mark.rocketmq, pytest.mark.long, pytest.mark.timeout(900)]
GIVEN = {"rocketmq": VERSION, "settings": as_text(SETTINGS)}


def test_a_group_that_loses_two_leaders(
    tmp_path: Path, needs_rocketmq: Callable[[str], None]
) -> None:
    needs_rocketmq(VERSION)
    with group(tmp_path) as made:
        lived = live(made)
    for part in ("failed_over", "rejoined"):
        store = tmp_path / lived[part]
        derive_anew(store)
        run(str(store), str(tmp_path / f"out-{part}"), Session(), on_damage="refuse", **GIVEN)
        assert difference(tmp_path / f"out-{part}", store / "expect") is None
    killed = tmp_path / lived["killed"]
    assert verify(Session(), str(killed), **GIVEN).same


@pytest.mark.parametrize("shape", ["calm", "mixed"])
def test_a_group_that_is_stopped(
    shape: str, tmp_path: Path, needs_rocketmq: Callable[[str], None]
) -> None:
    needs_rocketmq(VERSION)
    with group(tmp_path, 3 if shape == "calm" else 1) as made:
        (calm if shape == "calm" else mixed)(made)
    for member in range(len(made.ports)):
        assert verify(Session(), str(made.store(member)), **GIVEN).same
