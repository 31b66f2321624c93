"""What pop leaves in a store besides messages, when topics get other names and queues other
numbers: topics of retries, and what consumerOrderInfo.json holds.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from reput.store_format.names import RETRY_PREFIX

# ---
# Pop's retries of a topic and a group have a topic of their own (KeyBuilder.buildPopRetryTopic).

_V1, _V2 = "_", "+"  # KeyBuilder.POP_RETRY_SEPARATOR_V1 and V2; no topic or group may have a plus


def retried_topics(
    names: Iterable[str], topics: Collection[str], groups: Collection[str],
    consumed: Collection[tuple[str, str]],
) -> tuple[tuple[str, str], ...]:  # fmt: skip
    """(topic of pop's retries, the topic they are of), sorted, for those of `names` that are such.

    topics, groups: that the store knows; consumed: (group, topic) with a position. The name of the
    first release tells the group from the topic by an underscore, which both may have: a position
    decides (PopReviveService.initPopRetryOffset makes one), then a group that is known, then the
    longest topic. A group's own retries are none of pop's.
    """
    of_retries = {name for name in names if name.startswith(RETRY_PREFIX)}
    by_position = {
        topic: whole.removeprefix(group)[1:] for group, topic in consumed
        if topic in of_retries and _starts(whole := topic.removeprefix(RETRY_PREFIX), group)
    }  # fmt: skip
    found = dict(by_position)
    for name in of_retries - found.keys():
        whole = name.removeprefix(RETRY_PREFIX)
        _, plus, topic = whole.partition(_V2)
        if plus:
            found[name] = topic
        elif whole not in groups:
            cuts = [
                n for n, letter in enumerate(whole) if letter == _V1 and whole[n + 1 :] in topics
            ]
            known = [n for n in cuts if whole[:n] in groups] or cuts
            if known:
                found[name] = whole[known[0] + 1 :]
    return tuple(sorted(found.items()))


def _starts(whole: str, group: str) -> bool:
    return len(whole) > len(group) + 1 and whole.startswith((group + _V1, group + _V2))


# ---
# What a queue that is popped in order holds (ConsumerOrderInfoManager.OrderInfo).


def moved_order(info: Mapping[str, Any], new: Callable[[int], int | None]) -> dict[str, Any] | None:
    """An OrderInfo whose messages have other queueOffsets; None if none of them is taken.

    new: the new queueOffset of an old one, None where it is left out.
    """
    moved = [new(offset) for offset in order_offsets(info)]
    kept = sorted((offset, n) for n, offset in enumerate(moved) if offset is not None)
    if not kept:
        return None
    begin, acknowledged = kept[0][0], int(info.get("cm") or 0)
    made = {
        **info,
        "o": [begin, *(offset - begin for offset, _ in kept[1:])],
        "cm": sum((acknowledged >> n & 1) << at for at, (_, n) in enumerate(kept)),
    }
    for name in ("ot", "oc"):  # of each queueOffset: when it comes again, how often it came
        if isinstance(info.get(name), Mapping):
            pairs = ((new(int(offset)), value) for offset, value in info[name].items())
            made[name] = {str(offset): value for offset, value in pairs if offset is not None}
    return made


def order_offsets(info: Mapping[str, Any]) -> list[int]:
    """The queueOffsets of an OrderInfo's messages."""
    first, *steps = info["o"]
    return [first, *(first + step for step in steps)]
