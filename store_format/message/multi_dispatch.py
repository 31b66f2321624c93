"""Numbers the further queues of a message, as a broker does when it puts it (LMQ, RIP-28).

A producer names them in INNER_MULTI_DISPATCH. The broker adds INNER_MULTI_QUEUE_OFFSET, the next
position of each, from which the queues are built. By release, it is added by MultiDispatch (4.9.3
to 4.9.8), ConsumeQueue.assignQueueOffset (5.0.0 to 5.1.4), MultiDispatch again (5.2.0 to 5.3.1),
LmqDispatch (later).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from reput.store_format.layouts import SYS_TRANSACTION_COMMIT
from reput.store_format.message.message import SCHEDULE_TOPIC, TIMER_TOPIC
from reput.store_format.message.refusals import TopicUnsafe
from reput.store_format.names import (
    LMQ_PREFIX,
    RETRY_PREFIX,
    SYSTEM_PREFIX,
    UnsafeName,
    check_topic,
)
from reput.store_format.release.profiles import Profile
from reput.store_format.release.settings import WriterSettings

NAMED = "INNER_MULTI_DISPATCH"
NUMBERED = "INNER_MULTI_QUEUE_OFFSET"
_WAIT = "WAIT"
_SEPARATOR = ","

Queue = tuple[str, int]


class Further(NamedTuple):
    """The further queues of one message; None for a name that gets no number."""

    queues: tuple[Queue | None, ...]
    advances: bool  # the queues advance; up to 4.9.8 not for what is prepared or rolled back
    in_turn: bool  # Profile.multi_numbers_in_turn
    once: bool  # a queue that is named twice still advances by one, up to 4.9.8

    def numbers(
        self, next_offset: Callable[[Queue], int]
    ) -> tuple[list[int | None], dict[Queue, int]]:
        """(the number of each further queue, each queue's next number after the message)."""
        found: list[int | None] = []
        after: dict[Queue, int] = {}
        for queue in self.queues:
            if queue is None:
                found.append(None)
                continue
            first = next_offset(queue)
            before = after.get(queue, first)
            found.append(before if self.in_turn else first)
            after[queue] = first + 1 if self.once else before + 1
        return found, after if self.advances else {}


class Numbering:
    """Which messages get numbers, under one store's settings."""

    def __init__(self, profile: Profile, settings: WriterSettings) -> None:
        self._profile = profile
        self._lmq = settings.enable_lmq
        wanted = self._lmq if profile.multi_by_lmq else settings.enable_multi_dispatch
        self.is_on = profile.multi_dispatch and wanted

    def of(
        self, topic: str, queue_id: int, transaction: int, properties: Mapping[str, str]
    ) -> Further | None:
        """The further queues of a message; None if the broker numbers none."""
        rules, text = self._profile, properties.get(NAMED, "")
        counted = transaction in (0, SYS_TRANSACTION_COMMIT)
        if not self.is_on or not text.strip() or not self._takes(topic):
            return None
        if rules.multi_of_counted and not counted:
            return None
        return Further(
            tuple(self._queues(text, queue_id)), counted or not rules.multi_all_names,
            rules.multi_in_turn, rules.multi_all_names,
        )  # fmt: skip

    def _takes(self, topic: str) -> bool:
        """Whether a topic has further queues (isNeedHandleMultiDispatch, topicAllowsLMQ)."""
        rules = self._profile
        if rules.multi_dispatch_skips_retry and topic.startswith(RETRY_PREFIX):
            return False
        if rules.multi_of_counted:  # 5.0.0 to 5.1.4
            return not (
                rules.multi_dispatch_skips_delays and topic in (SCHEDULE_TOPIC, TIMER_TOPIC)
            )
        if rules.multi_not_of_system:
            return topic != SCHEDULE_TOPIC and not topic.startswith(SYSTEM_PREFIX)
        return True

    def _queues(self, text: str, queue_id: int) -> Iterator[Queue | None]:
        names = text.split(_SEPARATOR)
        while names and not names[-1]:  # like Java's split
            names.pop()
        for name in names:
            if self._lmq and name.startswith(LMQ_PREFIX):
                yield name, 0
            else:
                yield (name, queue_id) if self._profile.multi_all_names else None

    def check_folders(self, further: Further) -> None:
        """Raise TopicUnsafe for a queue that could not be dispatched: its name is no folder's."""
        for queue in further.queues:
            if queue is None or (self._profile.multi_dispatch_skips_slash and "/" in queue[0]):
                continue
            try:
                check_topic(queue[0])
            except UnsafeName as error:
                raise TopicUnsafe(f"{NAMED}: {error}") from None

    def numbered(self, properties: Mapping[str, str], numbers: list[int | None]) -> dict[str, str]:
        """The properties with INNER_MULTI_QUEUE_OFFSET, in the order of the broker's map.

        Up to 5.1.4 WAIT is removed; later it is removed and put back
        (removeWaitStorePropertyString).
        """
        made = dict(properties)
        made[NUMBERED] = _SEPARATOR.join("" if n is None else str(n) for n in numbers)
        wait = made.pop(_WAIT, None)
        if wait is not None and self._profile.multi_keeps_wait:
            made[_WAIT] = wait
        return made
