"""Why a record is not accepted: one code, one name and one sentence for each reason.

CommitLog.checkMessageAndReturnSize answers success=false for all of them and gives no reason. The
reasons are reput's own, so that a report can say which field was wrong.
"""

from enum import IntEnum

# What a command does when it finds damage and live records follow it.
REFUSE, TRUNCATE, SALVAGE = "refuse", "truncate", "salvage"


class Fault(IntEnum):
    """What stands at an offset of the log where a record was expected."""

    NONE = 0
    NEED_MORE = 1  # the record is longer than the bytes at hand: not a fault
    BLANK = 2  # the end of the segment: not a fault
    ZEROS = 3  # size and magic are 0: where a preallocated log ends
    SHORT_TAIL = 4
    BAD_MAGIC = 5
    BAD_SIZE = 6
    SIZE_PAST_END = 7
    BODY_LENGTH = 8
    TOPIC_LENGTH = 9
    LENGTHS = 10
    PLACE = 11
    BODY_CRC = 12
    PROPERTY_CRC = 13
    DELAY_LEVEL = 14
    BATCH_NUMBERS = 15
    BLANK_SIZE = 16  # a BLANK that does not end its segment; only `damage/` reports it
    MISSING = 17  # a segment's file is not there, or too short
    TORN = 18  # a crash lost a sector of the record's topic or properties (writer/recovery)
    STRAY = 19  # a record that has no place in the queue that it names (damage/chain)
    TEXT = 20  # a record's end is overwritten: its properties are no text, and damage follows
    KEPT_OUT = 21  # its transaction type keeps a record out of a queue that misses it
    # fields that the records around and another witness contradict (damage/contradictions)
    TIME = 22
    HOST = 23
    UNSEALED = 24
    # fields of a suspect log that the store's own ConsumeQueue contradicts (damage/contradictions)
    TAG = 25
    ELSEWHERE = 26
    # and those that its own IndexFiles contradict (damage/contradictions)
    KEYS = 27
    STORED = 28
    # of the head that a DLedger group's log has before each record
    HEAD_MAGIC = 29
    HEAD_SIZE = 30
    HEAD_PLACE = 31
    HEAD_INDEX = 32
    HEAD_TERM = 33


# fault -> (the field at fault, the reason)
REASONS = {
    Fault.ZEROS: ("totalSize", "zeros: the rest of the log is not used yet"),
    Fault.SHORT_TAIL: ("totalSize", "four bytes or fewer are left in the segment"),
    Fault.BAD_MAGIC: ("magic", "not a record's magic number"),
    Fault.BAD_SIZE: ("totalSize", "smaller than the fixed fields of a record"),
    Fault.SIZE_PAST_END: ("totalSize", "reaches past the end of the segment"),
    Fault.BODY_LENGTH: ("bodyLength", "reaches past the end of the record"),
    Fault.TOPIC_LENGTH: ("topicLength", "negative, or reaches past the end of the record"),
    Fault.LENGTHS: ("propertiesLength", "the lengths of the parts do not add up to totalSize"),
    Fault.PLACE: ("physicalOffset", "is not the place where the record stands"),
    Fault.BODY_CRC: ("bodyCRC", "does not match the body"),
    Fault.PROPERTY_CRC: ("__CRC32#", "is missing or does not match the record"),
    Fault.DELAY_LEVEL: ("DELAY", "not a number, on the schedule topic"),
    Fault.BATCH_NUMBERS: ("INNER_NUM/INNER_BASE", "not a number in range"),
    Fault.BLANK_SIZE: ("size", "of a BLANK, is not what is left of the segment"),
    Fault.MISSING: ("file", "is missing, or ends too early"),
    Fault.TEXT: ("properties", "are no text, and damage begins right behind"),
    Fault.STRAY: ("queueId/topic/queueOffset", "has no place in the queue that it names"),
    Fault.KEPT_OUT: ("sysFlag", "keeps the record out of a queue that misses just this message"),
    Fault.TIME: ("storeTimestamp", "is not between those of the records around it"),
    Fault.HOST: ("storeHost", "is not that of the records around it"),
    Fault.UNSEALED: ("properties", "have no `__CRC32#`, though those around have one"),
    Fault.TAG: ("TAGS", "is not of the hash that its ConsumeQueue entry has"),
    Fault.ELSEWHERE: ("queueId/topic/queueOffset", "is not what a ConsumeQueue says of the record"),
    Fault.KEYS: ("topic/KEYS/UNIQ_KEY", "have not the hash that its IndexFile entry has"),
    Fault.STORED: ("storeTimestamp", "is not in the second that its IndexFile entry has"),
    Fault.HEAD_MAGIC: ("magic", "not the magic number of a DLedger entry"),
    Fault.HEAD_SIZE: ("size/bodyLength", "a DLedger head's lengths and totalSize do not agree"),
    Fault.HEAD_PLACE: ("pos", "is not the place where the DLedger entry stands"),
    Fault.HEAD_INDEX: ("index", "does not go on from the DLedger entry before"),
    Fault.HEAD_TERM: ("term", "is lower than that of the DLedger entry before"),
    Fault.TORN: ("topic/properties", "zeros where a sector ends: torn by a crash, it seems"),
}

# Faults of the DLedger head before a record. The record itself may be sound all the same.
HEAD_FAULTS = (
    Fault.HEAD_MAGIC, Fault.HEAD_SIZE, Fault.HEAD_PLACE, Fault.HEAD_INDEX, Fault.HEAD_TERM,
)  # fmt: skip
# Faults of a DLedger head for which a report shows the field's value, and not a size.
HEAD_FIELDS = {
    fault: REASONS[fault][0]
    for fault in (Fault.HEAD_MAGIC, Fault.HEAD_PLACE, Fault.HEAD_INDEX, Fault.HEAD_TERM)
}

# A checksum does not match. If nothing else is wrong, repair computes the checksum anew.
CRC_FAULTS = (Fault.BODY_CRC, Fault.PROPERTY_CRC)


class StoreError(Exception):
    """A store is not what it must be; the message says file, offset, field, value and reason."""


class PieceBroken(StoreError):
    """A file of a backup repository is not what its name and its tables say."""


class NotAFile(StoreError):
    """A folder, or another kind of thing, stands where a file is read."""


class EmptyLog(StoreError):
    """The folders of a log have no segment."""


class WrongFilter(ValueError):
    """A filter expression is refused; the message says why."""


class DamageFound(StoreError):
    """The log is damaged and live records follow the damage. plain: the same for people: what is
    wrong, where, and what to do, between semicolons.
    """

    def __init__(self, text: str, plain: str = "") -> None:
        super().__init__(text)
        self.plain = plain or text


class StoreChanged(StoreError):
    """An input file changed, or went, while it was read."""


IS_GONE = ": is gone; it was there when the work began"  # after the path of such a file


class PeerFailed(StoreError):
    """The other side of a connection sent what no RocketMQ sends, or did not answer."""
