"""What RocketMQ's releases do differently, each as one frozen value; which releases a store's clues
leave; and eras, the parts of a log that different releases dispatched.

`profile("5.3.3")` gives the `Profile` of a release. Every rule that changed between 4.1.0 and
5.5.1 is a field here, named for what it does; kernels are given the fields they need and never
see a version.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

RELEASES = (
    "4.1.0-incubating", "4.2.0", "4.3.0", "4.3.1", "4.3.2", "4.4.0", "4.5.0", "4.5.1", "4.5.2",
    "4.6.0", "4.6.1", "4.7.0", "4.7.1", "4.8.0", "4.9.0", "4.9.1", "4.9.2", "4.9.3", "4.9.4",
    "4.9.5", "4.9.6", "4.9.7", "4.9.8", "5.0.0", "5.1.0", "5.1.1", "5.1.2", "5.1.3", "5.1.4",
    "5.2.0", "5.3.0", "5.3.1", "5.3.2", "5.3.3", "5.3.4", "5.4.0", "5.5.0", "5.5.1",
)  # fmt: skip


class UnknownRelease(ValueError):
    """The named version is no RocketMQ release that reput knows."""


def since(first: str, stop: str = "", new: Any = True, old: Any = False) -> Any:
    """The field of a rule: `new` from release `first` on, but not from `stop` on, else `old`."""
    return field(metadata={"rule": (first, stop, new, old)})


def until(stop: str) -> Any:
    """The field of a rule that holds in releases before `stop`."""
    return since(stop, new=False, old=True)


@dataclass(frozen=True)
class Profile:
    """The rules of one release. A field has its first release, its comment RocketMQ's class."""

    release: str
    ipv6_hosts: bool = since("4.6.0")  # sysFlag 0x10 and 0x20 make hosts 20 bytes (MessageSysFlag)
    long_topics: bool = since("5.1.0")  # magic DAA320AB, two bytes of topic length (MessageVersion)
    # a BLANK ends the segment whatever its size says (CommitLog.checkMessageAndReturnSize; 5.3.2
    # compares the size first)
    any_blank_size: bool = until("5.3.2")
    # a queueOffset below the next position is skipped (ConsumeQueue.putMessagePositionInfo; 4.1.0
    # appends it)
    skip_lower_offsets: bool = since("4.2.0")
    # a queue skips a message whose physicalOffset + size it has reached
    skip_by_end: bool = since("4.5.1")
    split_properties: bool = until("4.9.1")  # MessageDecoder.string2messageProperties used split
    count_every_put: bool = until("4.7.1")  # hashSlotCount grows with every put (IndexFile.putKey)
    index_tags: bool = since("5.4.0")  # one more key, topic#T#tags (IndexService.buildIndex)
    # indexCount of a file without entries after a clean stop
    empty_index_count: int = since("5.0.0", new=1, old=0)
    multi_dispatch: bool = since("4.9.3")  # INNER_MULTI_DISPATCH
    multi_dispatch_skips_retry: bool = since("5.1.1")  # not for %RETRY% topics
    multi_dispatch_skips_slash: bool = since("5.1.2")  # not to names with a path separator
    multi_dispatch_skips_delays: bool = since("5.1.2")  # not for the schedule topic and the timer's
    multi_dispatch_skips_system: bool = since("5.2.0")  # not for rmq_sys_ topics
    # how a put numbers the further queues (message/multi_dispatch)
    multi_all_names: bool = until("5.0.0")  # names of other topics too, not only light queues
    multi_of_counted: bool = since("5.0.0", "5.2.0")  # not for prepared or rolled back messages
    # a queue named twice gets two numbers (assignLmqOffset)
    multi_in_turn: bool = since("5.0.0", "5.1.1")
    # the property WAIT stays; maxMessageSize limits the whole record
    multi_keeps_wait: bool = since("5.2.0")
    multi_not_of_system: bool = since("5.3.1")  # not for rmq_sys_ topics and the schedule topic
    # enableLmq alone decides (MessageExtBrokerInner.needDispatchLMQ)
    multi_by_lmq: bool = since("5.3.2")
    batch_queues: bool = since("5.0.0")  # batchconsumequeue/
    property_crc: bool = since("5.2.0")  # forceVerifyPropCRC and the __CRC32# property
    zero_property_crc: bool = since("5.3.2")  # a __CRC32# of 0 is accepted
    checkpoint_confirm_offset: bool = since("5.1.1")  # confirmPhyOffset in the checkpoint
    checkpoint_logics_offset: bool = since("5.5.0")  # logicsPhysicalOffset in the checkpoint
    # a folder among segments or queue files is no reason not to start (MappedFileQueue.doLoad)
    passes_folders_over: bool = since("5.1.0")
    removes_empty_last: bool = since("5.1.3")  # a last file of 0 bytes is no reason either (#6904)
    abort_process_id: bool = since("5.0.0")  # the abort file holds the process id
    # of the HashMap whose order properties take in MessageDecoder.string2messageProperties
    property_map_capacity: int = since("5.1.0", new=128, old=16)
    # an 02 stands after the last property too (MessageDecoder.messageProperties2String)
    property_text_ends: bool = since("4.9.1", "5.2.0", new=False, old=True)
    # TIMER_DELIVER_MS etc. lead to the timer wheel (HookUtils)
    timer_messages: bool = since("5.0.0")
    # a queue's minimum is bisected, and one whose records have all expired starts at its end
    # (ConsumeQueue.correctMinOffset; before, at 0 after a start)
    bisects_queue_min: bool = since("5.0.0")
    # a queue is searched by store times, for LOWER or UPPER (getConsumeQueueMappedFileByTime;
    # before, by the files' times of change, for the nearest)
    queue_time_boundaries: bool = since("5.1.1")
    batch_time_boundaries: bool = since("5.1.4")  # a batch queue too
    # a found position is kept within the queue (ConsumeQueueStore)
    queue_time_within: bool = since("5.2.0")
    # half messages have a topic of their own, and are checked back
    half_topic: bool = since("4.3.0")
    # a committed message keeps REAL_TOPIC and REAL_QID
    # (EndTransactionProcessor.endMessageTransaction)
    commit_keeps_place: bool = until("5.4.0")
    op_message_lists: bool = since("5.1.0")  # an op message's offsets end with a comma each
    # files of config/ have each entry on a line of its own (RemotingSerializable: fastjson2)
    config_entry_lines: bool = since("5.4.0")
    tells_pulled: bool = since("5.1.0")  # a group's progress has OffsetWrapper.pullOffset
    # a pull's answer has topicSysFlag and groupSysFlag (PullMessageResponseHeader)
    pull_sys_flags: bool = since("5.0.0")
    # a queue that there is not is INVALID_PARAMETER, before it was SYSTEM_ERROR
    # (PullMessageProcessor)
    pull_illegal_queue: bool = since("5.3.2")
    # resetting the offsets of a topic that does not exist is TOPIC_NOT_EXIST, before it was
    # SYSTEM_ERROR (Broker2Client.resetOffset)
    topic_not_exist: bool = since("5.0.0")
    commits_of_known_groups: bool = since("5.3.0")  # an offset of an unknown group is refused
    # a group's offsets are reset by the broker, before that by the group's clients
    # (useServerSideResetOffset)
    server_resets_offsets: bool = since("5.2.0")
    # over diskSpaceCleanForciblyRatio a broker deletes at any hour; before, only over
    # diskMaxUsedSpaceRatio (isSpaceToDelete)
    full_disk_deletes: bool = since("5.0.0")
    sql_text_words: bool = since("5.1.3")  # CONTAINS, STARTSWITH, ENDSWITH (SelectorParser)


def release_key(version: str) -> tuple[int, ...]:
    """A version as a tuple of numbers, for comparisons."""
    return tuple(int(part) for part in version.split("-")[0].split("."))


def release_named(text: str) -> str:
    """The release that a person means: `4.1.0` for `4.1.0-incubating`, `v5.3.3` for 5.3.3, and
    `5.3` for the newest 5.3.x. Raises UnknownRelease, which names the nearest one.
    """
    number = text.strip().lower().removeprefix("rocketmq-all-").removeprefix("v")
    number = number.removesuffix("-incubating")
    for release in reversed(RELEASES):
        plain = release.split("-")[0]
        if plain == number or (number.count(".") == 1 and plain.startswith(f"{number}.")):
            return release
    near = get_close_matches(number, [each.split("-")[0] for each in RELEASES], 1, 0.5)
    raise UnknownRelease(
        f"RocketMQ {text!r} is not a release that reput knows"
        + (f": did you mean {near[0]}?" if near else "")
        + f"; it knows {RELEASES[0]} to {RELEASES[-1]}"
    )


@cache  # a question to a store may ask for all of them
def profile(version: str) -> Profile:
    """A release's profile, by any name of `release_named`. Raises UnknownRelease."""
    release = release_named(version)
    at = release_key(release)
    values = {}
    for each in fields(Profile)[1:]:
        first, stop, new, old = each.metadata["rule"]
        holds = release_key(first) <= at and not (stop and release_key(stop) <= at)
        values[each.name] = new if holds else old
    return Profile(release, **values)


def differences() -> list[tuple[str, list[object]]]:
    """Each rule with its value in every release; the README's table is made from it."""
    profiles = [profile(release) for release in RELEASES]
    return [
        (field.name, [getattr(p, field.name) for p in profiles])
        for field in fields(Profile)
        if field.name != "release"
    ]


# ---
# Which releases may have written a store's files, if nobody says which one did.
#
# Clues are rules that only some releases follow, seen in the store. If all remaining releases
# derive the same files, any of them will do. Otherwise the user is asked, and sees what differs.

# The rules that decide bytes of queues and index of a sound log. The other rules do not: a broker
# writes its checkpoint anew at its next flush; only logs of new releases have IPv6 hosts and long
# topics at all; and most rules only matter to a store that has what they are about.
_ALWAYS = ("count_every_put", "index_tags")
_ODD_POSITIONS = ("skip_lower_offsets", "skip_by_end")
_MALFORMED = ("split_properties",)
_NO_KEYS = ("empty_index_count",)
_MULTI_DISPATCH = (
    "multi_dispatch", "multi_dispatch_skips_retry", "multi_dispatch_skips_slash",
    "multi_dispatch_skips_delays", "multi_dispatch_skips_system",
)  # fmt: skip
# The rules that decide the content of a new record, and which records a service makes. The last 02
# of a property text and the form of config/ do not matter, as all releases read both forms, nor
# does `__CRC32#`, which nobody writes unless asked to.
_NEW_RECORDS = (
    "half_topic", "timer_messages", "commit_keeps_place", "op_message_lists",
    "property_map_capacity", "batch_queues",
)  # fmt: skip


class Clue(NamedTuple):
    """What was seen, and the first and last release that does this; '' for no limit."""

    seen: str
    since: str = ""
    until: str = ""


def left_by(clues: Sequence[Clue]) -> list[str]:
    """The releases that all clues allow, oldest first; none if clues contradict each other."""
    first = max((release_key(clue.since) for clue in clues if clue.since), default=(0,))
    last = min((release_key(clue.until) for clue in clues if clue.until), default=(99,))
    return [release for release in RELEASES if first <= release_key(release) <= last]


class Has(NamedTuple):
    """Which content a store has that releases treat differently."""

    multi_dispatch: bool = True
    index_without_keys: bool = True
    new_records: bool = False  # new records are to be written by the release's rules
    odd_positions: bool = True  # queueOffsets that do not go on by one
    malformed: bool = True  # properties not of the form `name 01 value 02`


def _rules(has: Has) -> list[str]:
    """The rules that matter for a store with this content."""
    of_each = (
        (True, _ALWAYS), (has.odd_positions, _ODD_POSITIONS), (has.malformed, _MALFORMED),
        (has.multi_dispatch, _MULTI_DISPATCH), (has.index_without_keys, _NO_KEYS),
        (has.new_records, _NEW_RECORDS),
    )  # fmt: skip
    return [rule for counts, rules in of_each if counts for rule in rules]


def groups(releases: Sequence[str], has: Has) -> list[list[str]]:
    """The releases, grouped with those that derive the same files."""
    rules = _rules(has)
    found: list[list[str]] = []
    values: list[tuple[object, ...]] = []
    for release in releases:
        value = tuple(getattr(profile(release), rule) for rule in rules)
        if not values or values[-1] != value:
            values.append(value)
            found.append([])
        found[-1].append(release)
    return found


def same_files(one: str, other: str, has: Has) -> bool:
    """Whether two releases derive the same files from a sound log."""
    return len(groups([one, other], has)) == 1


def differing(releases: Sequence[str], has: Has) -> set[str]:
    """The rules that matter and in which the first and the last of these releases differ."""
    old, new = profile(releases[0]), profile(releases[-1])
    return {rule for rule in _rules(has) if getattr(old, rule) != getattr(new, rule)}


def span(releases: Sequence[str]) -> str:
    """Neighbouring releases as a text."""
    if len(releases) == 1:
        return releases[0]
    return f"{releases[0]} to {releases[-1]}"


# ---
# The releases that a store's broker has had, one after the other (decision 0024).
#
# An era is the part of the log that was dispatched by one release, or by several with the same
# rules. An upgraded broker goes on with the files that it finds, so a file may have entries of
# several.

NEVER = (1 << 63) - 1  # no physical offset is as great


class Era(NamedTuple):
    """The log from physical offset `start` on, and the releases that the files allow."""

    start: int
    release: str  # of `left`, the release whose rules are taken
    left: tuple[str, ...]


class Period(NamedTuple):
    """A part of the log, from physical offset `start` on, and the clues in its derived files."""

    start: int
    clues: tuple[Clue, ...]


def merged(*lists: Sequence[Period]) -> list[Period]:
    """Periods of several kinds of clues as one list: each start of any kind begins a period."""
    starts = sorted({period.start for each in lists for period in each})
    found = []
    for start in starts:
        clues: list[Clue] = []
        for each in lists:
            before = [period for period in each if period.start <= start]
            clues += before[-1].clues if before else ()
        found.append(Period(start, tuple(clues)))
    return found


def eras_of(periods: Sequence[Period], newest: str, left: Sequence[str]) -> tuple[Era, ...]:
    """The eras that periods show; each period has to allow a release.

    newest, left: `release` and `left` of the last era. An older era gets its newest release.
    """
    older = ((period.start, left_by(period.clues)) for period in periods[:-1])
    eras = [Era(start, releases[-1], tuple(releases)) for start, releases in older]
    return (*eras, Era(periods[-1].start, newest, tuple(left)))


def every_put_counts_up_to(eras: Sequence[Era]) -> int:
    """The physical offset below which hashSlotCount grew with every key (up to 4.7.0)."""
    stop = 0
    for era, after in pairwise([*eras, None]):
        if era is not None and profile(era.release).count_every_put:
            stop = NEVER if after is None else after.start
    return stop


def eras_text(eras: Sequence[Era]) -> str:
    """The eras for people, in a line; "" for a single era."""
    if len(eras) < 2:
        return ""
    parts = [f"{_span(era.left)} up to offset {after.start:,}" for era, after in pairwise(eras)]
    return ", ".join([*parts, f"then {_span(eras[-1].left)}"])


def _span(left: Sequence[str]) -> str:
    if len(left) > 1 and left[-1] == RELEASES[-1]:
        return f"{left[0]} or later"
    return f"{left[-1]} or older" if left[0] == RELEASES[0] and len(left) > 1 else span(left)
