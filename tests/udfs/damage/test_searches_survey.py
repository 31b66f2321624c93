"""Whether live records follow the damage: then a rebuild is refused."""

from dataclasses import replace

import pytest

from reput.jobs.rebuild import REFUSE
from reput.store_format.faults import DamageFound
from tests.damaged import damaged, messages
from tests.in_process import rebuild_log


def test_live_records_behind_a_stale_stretch_are_seen() -> None:
    """All stretches of a split are looked at, not the first one behind the damage alone."""
    made = messages(100, 1)
    made[30:40] = [
        replace(m, queue_offset=n, store_timestamp=m.store_timestamp - 10_000_000)
        for n, m in enumerate(made[30:40])
    ]
    log = damaged(made, 1 << 16)
    log.flip(29, 5)
    log.flip(40, 5)
    first = log.places[41]
    with pytest.raises(DamageFound, match=f"live records follow, the first at offset {first}:"):
        rebuild_log(log.log, on_damage=REFUSE)
