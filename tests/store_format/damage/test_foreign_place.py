"""A record whose physicalOffset is not its place: truncate ends the log, RocketMQ does not.

RocketMQ 4.1.0, 4.9.7 and 5.3.3 dispatch it with the place that it says, and go on behind it.
"""

from dataclasses import replace

import pytest

from reput.jobs.rebuild import REFUSE, TRUNCATE
from reput.store_format.faults import DamageFound
from tests.damaged import Damaged, damaged, messages, salvage
from tests.in_process import rebuild_log

DIFFERS = r"physicalOffset is not the place.*RocketMQ does not look at that: it dispatches such"


def foreign(place: int) -> Damaged:
    made = messages(30)
    made[10] = replace(made[10], physical_offset=place)
    return damaged(made)


@pytest.mark.parametrize("place", [7, 1 << 40, -1])
def test_truncate_says_where_it_differs(place: int) -> None:
    log = foreign(place)
    rebuilt = rebuild_log(log.log, on_damage=TRUNCATE)
    assert rebuilt.summary.messages == 10
    assert rebuilt.summary.log_end == log.places[10]
    assert any("RocketMQ does not look at that" in each for each in rebuilt.summary.warnings)
    with pytest.raises(DamageFound, match=f"{DIFFERS}.*truncate ends the log here, where RocketMQ"):
        rebuild_log(log.log, on_damage=REFUSE)
    assert salvage(log.log).summary.messages == 29


def test_of_other_damage_it_says_that_rocketmq_does_so_too() -> None:
    log = damaged(messages(30))
    log.flip(10, 5)
    with pytest.raises(DamageFound, match="truncate ends the log here as RocketMQ does"):
        rebuild_log(log.log, on_damage=REFUSE)
