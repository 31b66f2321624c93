"""What one RocketMQ release does differently from another, as one frozen value.

`profile("5.3.3")` gives the `Profile` of a release. Every rule that changed between 4.1.0 and
5.5.1 is a field here, named for what it does; kernels are given the fields they need and never
see a version.
"""

from dataclasses import dataclass, fields
from difflib import get_close_matches

RELEASES = (
    "4.1.0-incubating", "4.2.0", "4.3.0", "4.3.1", "4.3.2", "4.4.0", "4.5.0", "4.5.1", "4.5.2",
    "4.6.0", "4.6.1", "4.7.0", "4.7.1", "4.8.0", "4.9.0", "4.9.1", "4.9.2", "4.9.3", "4.9.4",
    "4.9.5", "4.9.6", "4.9.7", "4.9.8", "5.0.0", "5.1.0", "5.1.1", "5.1.2", "5.1.3", "5.1.4",
    "5.2.0", "5.3.0", "5.3.1", "5.3.2", "5.3.3", "5.3.4", "5.4.0", "5.5.0", "5.5.1",
)  # fmt: skip


class UnknownRelease(ValueError):
    """The named version is no RocketMQ release that reput knows."""


@dataclass(frozen=True)
class Profile:
    """The rules of one release. A field's comment has its first release, and RocketMQ's class."""

    release: str
    ipv6_hosts: bool  # 4.6.0: sysFlag 0x10 and 0x20 make hosts 20 bytes (MessageSysFlag)
    long_topics: bool  # 5.1.0: magic DAA320AB, two bytes of topic length (MessageVersion)
    any_blank_size: bool  # up to 5.3.1: a BLANK ends the segment whatever its size says
    # (CommitLog.checkMessageAndReturnSize; 5.3.2 compares the size first)
    skip_lower_offsets: bool  # 4.2.0: a queueOffset below the next position is skipped
    # (ConsumeQueue.putMessagePositionInfo; 4.1.0 appends it)
    skip_by_end: bool  # 4.5.1: a queue skips a message whose physicalOffset + size it has reached
    split_properties: bool  # up to 4.9.0: MessageDecoder.string2messageProperties used split
    count_every_put: bool  # up to 4.7.0: hashSlotCount grows with every put (IndexFile.putKey)
    index_tags: bool  # 5.4.0: one more key, topic#T#tags (IndexService.buildIndex)
    empty_index_count: int  # indexCount of a file without entries after a clean stop: 5.0.0: 1
    multi_dispatch: bool  # 4.9.3: INNER_MULTI_DISPATCH
    multi_dispatch_skips_retry: bool  # 5.1.1: not for %RETRY% topics
    multi_dispatch_skips_slash: bool  # 5.1.2: not to names with a path separator
    multi_dispatch_skips_delays: bool  # 5.1.2: not for the schedule topic and the timer's
    multi_dispatch_skips_system: bool  # 5.2.0: not for rmq_sys_ topics
    # how a put numbers the further queues (message/multi_dispatch)
    multi_all_names: bool  # up to 4.9.8: names of other topics too, not only light queues
    multi_of_counted: bool  # 5.0.0 to 5.1.4: not for prepared or rolled back messages
    multi_in_turn: bool  # 5.0.0 to 5.1.0: a queue named twice gets two numbers (assignLmqOffset)
    multi_keeps_wait: bool  # 5.2.0: the property WAIT stays; maxMessageSize limits the whole record
    multi_not_of_system: bool  # 5.3.1: not for rmq_sys_ topics and the schedule topic
    multi_by_lmq: bool  # 5.3.2: enableLmq alone decides (MessageExtBrokerInner.needDispatchLMQ)
    batch_queues: bool  # 5.0.0: batchconsumequeue/
    property_crc: bool  # 5.2.0: forceVerifyPropCRC and the __CRC32# property
    zero_property_crc: bool  # 5.3.2: a __CRC32# of 0 is accepted
    checkpoint_confirm_offset: bool  # 5.1.1: confirmPhyOffset in the checkpoint
    checkpoint_logics_offset: bool  # 5.5.0: logicsPhysicalOffset in the checkpoint
    abort_process_id: bool  # 5.0.0: the abort file holds the process id
    property_map_capacity: int  # of the HashMap whose order a message's properties take in
    # MessageDecoder.string2messageProperties: 5.1.0: 128, before 16
    property_text_ends: bool  # not from 4.9.1 to 5.1.4: an 02 stands after the last property too
    # (MessageDecoder.messageProperties2String)
    timer_messages: bool  # 5.0.0: TIMER_DELIVER_MS etc. lead to the timer wheel (HookUtils)
    bisects_queue_min: bool  # 5.0.0: a queue's minimum is bisected, and one whose records have
    # all expired starts at its end (ConsumeQueue.correctMinOffset; before, at 0 after a start)
    queue_time_boundaries: bool  # 5.1.1: a queue is searched by store times, for LOWER or UPPER
    # (getConsumeQueueMappedFileByTime; before, by the files' times of change, for the nearest)
    batch_time_boundaries: bool  # 5.1.4: a batch queue too
    queue_time_within: bool  # 5.2.0: a found position is kept within the queue (ConsumeQueueStore)
    half_topic: bool  # 4.3.0: half messages have a topic of their own, and are checked back
    commit_keeps_place: bool  # up to 5.3.4: a committed message keeps REAL_TOPIC and REAL_QID
    # (EndTransactionProcessor.endMessageTransaction)
    op_message_lists: bool  # 5.1.0: an op message's offsets end with a comma each
    config_entry_lines: bool  # 5.4.0: files of config/ have each entry on a line of its own
    # (RemotingSerializable: fastjson2)
    tells_pulled: bool  # 5.1.0: a group's progress has OffsetWrapper.pullOffset
    pull_sys_flags: bool  # 5.0.0: a pull's answer has topicSysFlag and groupSysFlag
    # (PullMessageResponseHeader)
    pull_illegal_queue: bool  # 5.3.2: a queue that there is not is INVALID_PARAMETER, before it was
    # SYSTEM_ERROR (PullMessageProcessor)
    topic_not_exist: bool  # 5.0.0: resetting the offsets of a topic that does not exist is
    # TOPIC_NOT_EXIST, before it was SYSTEM_ERROR (Broker2Client.resetOffset)
    commits_of_known_groups: bool  # 5.3.0: an offset of an unknown group is refused
    server_resets_offsets: bool  # 5.2.0: a group's offsets are reset by the broker, before that by
    # the group's clients (useServerSideResetOffset)
    full_disk_deletes: bool  # 5.0.0: over diskSpaceCleanForciblyRatio a broker deletes at any
    # hour; before, only over diskMaxUsedSpaceRatio (isSpaceToDelete)
    sql_text_words: bool  # 5.1.3: CONTAINS, STARTSWITH, ENDSWITH (SelectorParser)


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


def profile(version: str) -> Profile:
    """A release's profile, by any name of `release_named`. Raises UnknownRelease."""
    release = release_named(version)
    at = release_key(release)

    def since(number: str) -> bool:
        return at >= release_key(number)

    return Profile(
        release=release,
        ipv6_hosts=since("4.6.0"),
        long_topics=since("5.1.0"),
        any_blank_size=not since("5.3.2"),
        skip_lower_offsets=since("4.2.0"),
        skip_by_end=since("4.5.1"),
        split_properties=not since("4.9.1"),
        count_every_put=not since("4.7.1"),
        index_tags=since("5.4.0"),
        empty_index_count=1 if since("5.0.0") else 0,
        multi_dispatch=since("4.9.3"),
        multi_dispatch_skips_retry=since("5.1.1"),
        multi_dispatch_skips_slash=since("5.1.2"),
        multi_dispatch_skips_delays=since("5.1.2"),
        multi_dispatch_skips_system=since("5.2.0"),
        multi_all_names=not since("5.0.0"),
        multi_of_counted=since("5.0.0") and not since("5.2.0"),
        multi_in_turn=since("5.0.0") and not since("5.1.1"),
        multi_keeps_wait=since("5.2.0"),
        multi_not_of_system=since("5.3.1"),
        multi_by_lmq=since("5.3.2"),
        batch_queues=since("5.0.0"),
        property_crc=since("5.2.0"),
        zero_property_crc=since("5.3.2"),
        checkpoint_confirm_offset=since("5.1.1"),
        checkpoint_logics_offset=since("5.5.0"),
        abort_process_id=since("5.0.0"),
        property_map_capacity=128 if since("5.1.0") else 16,
        property_text_ends=not since("4.9.1") or since("5.2.0"),
        timer_messages=since("5.0.0"),
        bisects_queue_min=since("5.0.0"),
        queue_time_boundaries=since("5.1.1"),
        batch_time_boundaries=since("5.1.4"),
        queue_time_within=since("5.2.0"),
        half_topic=since("4.3.0"),
        commit_keeps_place=not since("5.4.0"),
        op_message_lists=since("5.1.0"),
        config_entry_lines=since("5.4.0"),
        tells_pulled=since("5.1.0"),
        pull_sys_flags=since("5.0.0"),
        pull_illegal_queue=since("5.3.2"),
        topic_not_exist=since("5.0.0"),
        commits_of_known_groups=since("5.3.0"),
        server_resets_offsets=since("5.2.0"),
        full_disk_deletes=since("5.0.0"),
        sql_text_words=since("5.1.3"),
    )


def differences() -> list[tuple[str, list[object]]]:
    """Each rule with its value in every release; the README's table is made from it."""
    profiles = [profile(release) for release in RELEASES]
    return [
        (field.name, [getattr(p, field.name) for p in profiles])
        for field in fields(Profile)
        if field.name != "release"
    ]
