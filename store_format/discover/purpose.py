"""What a command wants of a store: one table, which discovery and plan read.

A row says what is done where the store's files leave something open or contradict the user, and
what of a store is refused. A new command takes the row that fits, or gets one of its own here.
"""

from dataclasses import dataclass, replace
from enum import Enum

from reput.store_format.faults import SALVAGE


class Unknown(Enum):
    """What is done if the files do not show which release wrote them."""

    ASK = "ask"  # UnknownRelease, which lists the candidates
    NEWEST_LEFT = "left"  # the newest that may have written: files are only compared
    NEWEST = "newest"  # the newest of all, which reads every older log


class Faults(Enum):
    """What is done about faults of segments: gaps, wrong lengths, misnamed files."""

    REFUSE = "refuse"  # StoreError
    MAP = "map"  # they become the plan's findings
    AS_ASKED = "as asked"  # --on-damage salvage maps them (Purpose.asked)


@dataclass(frozen=True, kw_only=True)
class Purpose:
    """What a command does with a store."""

    unknown: Unknown = Unknown.ASK
    faults: Faults = Faults.REFUSE
    adds: bool = False  # records are added, in which more releases differ
    index: bool = False  # every index entry counts: messages indexed twice must be known
    rocksdb: bool = False  # queues in RocksDB are read, built, or do not matter
    one_release: bool = False  # all is derived by the rules of the last release
    queue_logs: bool = False  # logs of one queue too: `compacted:` and `tiered:`
    due_times: bool = False  # delays of levels are used: where they contradict, it stops
    agrees: bool = False  # --rocketmq must not contradict the store's files
    sizes: bool = False  # refused where the only segment seems to be a part
    names: bool = True  # of mapped segments each one's records say whether it has its name

    @property
    def maps(self) -> bool:
        """Whether faults of segments are findings, and not refused."""
        return self.faults is Faults.MAP

    def asked(self, on_damage: str) -> "Purpose":
        """The purpose with the user's word on damage."""
        if self.faults is not Faults.AS_ASKED:
            return self
        return replace(self, faults=Faults.MAP if on_damage == SALVAGE else Faults.REFUSE)


_DERIVED = Purpose(rocksdb=True, due_times=True)

LOOK = Purpose()  # at release and sizes alone
REBUILD = replace(_DERIVED, faults=Faults.AS_ASKED, one_release=True)
CONVERT = replace(_DERIVED, one_release=True)  # its new store too
REPAIR = replace(_DERIVED, faults=Faults.MAP, one_release=True, sizes=True)
REPAIRED = replace(_DERIVED, faults=Faults.AS_ASKED)  # the copy, whose release is given
CHECK = replace(_DERIVED, unknown=Unknown.NEWEST_LEFT, faults=Faults.MAP, index=True)
CHECK_AGAIN = replace(CHECK, unknown=Unknown.ASK, due_times=False)  # by another release
VERIFY = replace(CHECK, faults=Faults.AS_ASKED)
RECOVER = Purpose(index=True, due_times=True, agrees=True, sizes=True)
RECOVER_DRY_RUN = replace(RECOVER, unknown=Unknown.NEWEST_LEFT)
CATCH_UP = Purpose(due_times=True)
CATCH_UP_IN_PLACE = replace(CATCH_UP, agrees=True, sizes=True)
FOLLOW = Purpose(faults=Faults.MAP, agrees=True)  # a log that grows
EXPIRE = Purpose(rocksdb=True, agrees=True)
APPEND = Purpose(adds=True, due_times=True, agrees=True)
COMPARE = Purpose(unknown=Unknown.NEWEST, faults=Faults.MAP, rocksdb=True, queue_logs=True)
READ = replace(COMPARE, faults=Faults.AS_ASKED, names=False)
REPLICATE = Purpose(faults=Faults.MAP, rocksdb=True)
BACKUP = replace(REPLICATE, unknown=Unknown.NEWEST_LEFT, names=False)
REPORT = Purpose(unknown=Unknown.NEWEST_LEFT, faults=Faults.MAP, rocksdb=True)
