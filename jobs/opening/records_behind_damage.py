"""The live records after damage in a segment, for commands that count them as the check does."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import SALVAGE
from reput.store_format.files.protocol import InputStorage
from reput.store_format.log.groups import heads_from
from reput.store_format.log.segments import Segment, may_grow
from reput.store_format.log.walk import Step
from reput.store_format.release.profiles import Profile
from reput.store_format.release.settings import Settings
from reput.udfs.table.log_parts import LogPart, LogParts


def live_behind(
    storage: InputStorage, segments: Sequence[Segment], profile: Profile, settings: Settings,
    batch_topics: Sequence[str], limit: int | None = None,
) -> Callable[[int], Iterator[Step]]:  # fmt: skip
    """A function that gives a segment's live records from an offset on, past damage, to `limit`.

    A broker may be writing to the log.
    """
    rules = replace(
        scan_rules(profile, settings, tuple(batch_topics), heads_from=heads_from(segments)),
        check_property_crc=profile.property_crc,
    )
    log = LogParts(storage, tuple(may_grow(list(segments), -1)), rules, SALVAGE)

    def behind(place: int) -> Iterator[Step]:
        number = next(n for n, s in enumerate(log.segments) if s.start <= place < s.end)
        segment = log.segments[number]
        stop = segment.end if limit is None else min(segment.end, limit)
        return log.steps(LogPart(number, segment.start, place, stop), lambda _: None)

    return behind
