"""What consumers of a store that served.py made must be given: its messages by number."""

from collections.abc import Callable, Sequence

from tests.rocketmq import served
from tests.rocketmq.languages.programs import Received
from tests.rocketmq.live import TOPICS

_CHOSEN: dict[str, Callable[[int], bool]] = {"*": lambda n: True, "A": lambda n: n % 2 == 0,
                                             "n > 300": lambda n: n > 300}  # fmt: skip


def keys_of(topic: str, expression: str) -> list[str]:
    """The own key of each message of a topic that a filter lets through (live.messages)."""
    chosen = _CHOSEN[expression]
    numbers = (n for n in range(served.SENT) if TOPICS[n % len(TOPICS)] == topic)
    return [f"key{n}" for n in numbers if chosen(n)]


def same_messages(
    made: served.Made, ours: Sequence[Received], theirs: Sequence[Received], topic: str
) -> None:
    """The same messages, as often, with the same keys and bodies; all of them the topic's."""
    assert sorted(ours) == sorted(theirs)
    # its producer's id, or the broker's: Rust's client names it by that
    of_topic = {each for name, _, _, *ids in made.sent if name == topic for each in ids}
    assert {each.id for each in ours} <= of_topic
    assert len({(each.id, each.attempt) for each in ours}) == len(ours)


def in_order(made: served.Made, received: Sequence[Received]) -> bool:
    """Whether each queue's messages came one after the other."""
    places = {each: (queue, offset) for _, queue, offset, *ids in made.sent for each in ids}
    found: dict[int, list[int]] = {}
    for each in received:
        queue, offset = places[each.id]
        found.setdefault(queue, []).append(offset)
    return all(offsets == sorted(offsets) for offsets in found.values())
