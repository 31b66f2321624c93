"""What a broker does to a message before its store puts it.

HookUtils.handleScheduleMessage; up to 4.9.x the part about delays is in CommitLog.putMessage.
"""

from collections.abc import Mapping

import numpy as np

from reput.store_format.java.strings import parse_integer
from reput.store_format.message.refusals import DelayInvalid, MultiDispatch, TimerMessage
from reput.store_format.release.profiles import Profile

DELAY = "DELAY"
TIMERS = ("TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS")
_TIMER_OUT = "TIMER_OUT_MS"  # the broker's own: the message has been through the timer wheel
_TIMER_TOPIC = "rmq_sys_wheel_timer"  # TimerMessageStore.TIMER_TOPIC


def delay_level(properties: Mapping[str, str]) -> int:
    """Message.getDelayTimeLevel; 0 where there is none. Raises DelayInvalid."""
    text = properties.get(DELAY)
    if text is None:
        return 0
    raw = np.frombuffer(text.encode("utf-8", "replace"), np.uint8)
    well_formed, level = parse_integer(raw, 0, len(raw), 32)
    if not well_formed:
        raise DelayInvalid("property DELAY is no number: a broker fails on it")
    return int(level)


def place_delayed(
    topic: str, queue_id: int, properties: dict[str, str], profile: Profile, levels: int
) -> int:
    """The delay level that a message goes through the schedule topic by, 0 for none.

    Changes its properties as the broker does: REAL_TOPIC and REAL_QID, a DELAY above the highest
    level is that one, and beside a delay level timers do not count (HookUtils.checkIfTimerMessage).
    levels: how many messageDelayLevel has.

    Raises DelayInvalid; TimerMessage for a message of the timer wheel, which is not written here.
    """
    level = delay_level(properties) if DELAY in properties else 0
    if profile.timer_messages and topic != _TIMER_TOPIC:
        given = [name for name in TIMERS if name in properties]
        if level > 0:
            for name in given:
                del properties[name]
        elif given and _TIMER_OUT not in properties:
            raise TimerMessage(
                f"property {given[0]}: a timer message; a broker keeps those in its timer wheel, "
                "which this writer has not"
            )
    if level <= 0:
        return 0
    if level > levels:
        level = levels
        properties[DELAY] = str(level)
    properties |= {"REAL_TOPIC": topic, "REAL_QID": str(queue_id)}
    return level


def check_multi_dispatch(properties: bytes) -> None:
    """Raise MultiDispatch for a message that is to go to further queues."""
    names = {pair.partition(b"\1")[0] for pair in properties.split(b"\2")}
    if b"INNER_MULTI_DISPATCH" in names and b"INNER_MULTI_QUEUE_OFFSET" not in names:
        raise MultiDispatch("INNER_MULTI_DISPATCH: queues besides the message's own (LMQ)")
