"""Stores of real brokers with timers and pops: those of tests/store_format/state/stores.

timers_5.4.0: 20 timers delivered (Soon), 20 wait (Late), a clean stop. in_flight_5.3.3: 40 messages
of In, 20 popped, 7 acknowledged. Their timerlog's file is cut to 160 units, their wheel is empty:
a broker would not start on them.
"""

from pathlib import Path

from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.log.segments import Finding
from reput.store_format.notes import Notes
from reput.store_format.query.reader import NEWEST, OpenedStore
from reput.store_format.state.judge import state_faults
from tests.unpacking import unpack

ARCHIVES = Path(__file__).parent / "stores"
TIMERS, IN_FLIGHT = "timers_5.4.0", "in_flight_5.3.3"


def unpacked(name: str, folder: Path) -> Path:
    unpack(ARCHIVES / f"{name}.tar.xz", folder)
    return folder / "store"


def opened(store: Path) -> OpenedStore:
    return OpenedStore(Folder(LocalStorage(), str(store)), NEWEST, {}, Notes())


def faults(store: Path, log_end: int | None = None) -> list[Finding]:
    """What `check` says of the store's state; log_end: as if its log ended there."""
    with opened(store) as there:
        end, last = there.log.end, 0
        for step in there.log.steps_past_damage(lambda _: None, None):
            end, last = step.next, int(step.rows["storeTimestamp"].max(initial=last))
        return list(state_faults(there, end if log_end is None else log_end, last))
