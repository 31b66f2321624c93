"""The spans in which two logs differ, in physical offsets."""

from itertools import pairwise

import pytest

from reput.jobs.comparing.logs import Parting, Side, open_side, part
from reput.store_format.discover.store import store_at
from reput.store_format.notes import Progress
from tests.in_process import Session
from tests.jobs.comparing.pairs import COMMON, MASTER, SEGMENT, SLAVE, message, places, store
from tests.logs.encoder import Message
from tests.memory_storage import MemoryStorage

AT = places(COMMON)
Spans = tuple[tuple[int, int], ...]


def side(name: str, messages: list[Message], segment: int = SEGMENT, first: int = 0) -> Side:
    files = store(name, messages, segment, first)
    settings = {"mappedFileSizeCommitLog": str(segment)}
    return open_side(store_at(name, "5.3.3", settings, MemoryStorage(files)))


def parted(ours: Side, *theirs: Side) -> list[Parting]:
    return part(Session(), [ours, *theirs], Progress())


@pytest.mark.parametrize(
    ("unlike", "ours", "theirs", "spans"),
    [
        ((), (), (), []),
        (((10, 20),), ((20, 30),), (), [(10, 30)]),
        (((10, 20),), ((21, 30),), (), [(10, 20), (21, 30)]),
        (((10, 50),), ((20, 30),), ((5, 11),), [(5, 50)]),
    ],
)
def test_spans_that_meet_are_one(
    unlike: Spans, ours: Spans, theirs: Spans, spans: list[tuple[int, int]]
) -> None:
    parting = Parting(unlike, ours, theirs)
    assert parting.spans == spans
    assert parting.first == (spans[0][0] if spans else None)


def test_what_only_one_log_has_is_told_of_either_side() -> None:
    whole, short = side(MASTER, COMMON), side(SLAVE, COMMON[:41])
    assert short.end == AT[41]
    only = ((AT[41], whole.end),)
    assert AT[41] > SEGMENT
    assert parted(whole, short) == [Parting((), only, ())]
    assert parted(short, whole) == [Parting((), (), only)]


def test_messages_before_a_log_s_start_are_no_difference() -> None:
    later = side(SLAVE, [m for m, at in zip(COMMON, AT, strict=True) if at >= SEGMENT],
                 first=SEGMENT)  # fmt: skip
    assert parted(side(MASTER, COMMON), later) == [Parting((), (), ())]


def test_each_log_is_compared_with_the_first() -> None:
    changed = [*COMMON[:3], message(3, body=b"BODY OF 3"), *COMMON[4:]]
    same, unlike = parted(side(MASTER, COMMON), side("a", COMMON), side("b", changed))
    assert same == Parting((), (), ())
    ((first, last),) = unlike.unlike
    # totalSize and magic are alike, the CRC of the body is not; a span ends with what was read
    assert (first, last) == (AT[3] + 8, SEGMENT)
    assert unlike.ours == unlike.theirs == ()


def test_logs_of_other_segment_sizes_differ_from_their_first_blank_on() -> None:
    ours, theirs = side(MASTER, COMMON), side(SLAVE, COMMON, 2 * SEGMENT)
    (found,) = parted(ours, theirs)
    (blank,) = [at for at, after in pairwise(AT) if at < SEGMENT <= after]
    assert blank < found.spans[0][0] < SEGMENT
    assert found.unlike == ((found.spans[0][0], max(ours.end, theirs.end)),)
