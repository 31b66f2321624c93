"""What a broker does to a message before its store puts it.

HookUtils.handleScheduleMessage; up to 4.9.x the part about delays is in CommitLog.putMessage.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from reput.store_format.kernels.java_text import parse_integer
from reput.store_format.message.message import SCHEDULE_TOPIC, TIMER_TOPIC
from reput.store_format.message.refusals import DelayInvalid, TimerDisabled, TimerIllegal

DELAY = "DELAY"
_SECONDS, _MILLISECONDS, _DELIVER = "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"
TIMERS = (_DELIVER, _SECONDS, _MILLISECONDS)
_TIMER_OUT = "TIMER_OUT_MS"  # set by the broker: the message is or was in the timer wheel
_RECALLS = "TIMER_DEL_UNIQKEY"


class DelayRules(NamedTuple):
    """The settings by which a message is delayed. Times in milliseconds."""

    levels: int  # number of levels in messageDelayLevel
    timers: bool  # Profile.timer_messages: there is a timer wheel, from 5.0.0 on
    wheel: bool  # timerWheelEnable
    precision: int  # timerPrecisionMs
    longest: int  # timerMaxDelaySec


def delay_level(properties: Mapping[str, str]) -> int:
    """Message.getDelayTimeLevel; 0 without DELAY. Raises DelayInvalid."""
    text = properties.get(DELAY)
    if text is None:
        return 0
    raw = np.frombuffer(text.encode("utf-8", "replace"), np.uint8)
    well_formed, level = parse_integer(raw, 0, len(raw), 32)
    if not well_formed:
        raise DelayInvalid("property DELAY is not a number: a broker fails on it")
    return int(level)


def place_delayed(
    topic: str, queue_id: int, properties: dict[str, str], rules: DelayRules, now: int
) -> tuple[str, int]:
    """The topic and queue that a message is put into: its own, or those in which it waits.

    Changes its properties as the broker does: sets REAL_TOPIC and REAL_QID, lowers a DELAY above
    the highest level to it, sets a timer's TIMER_OUT_MS. With a delay level, timers do not count
    (HookUtils.checkIfTimerMessage). now: milliseconds.
    Raises DelayInvalid, TimerIllegal, TimerDisabled.
    """
    level = delay_level(properties) if DELAY in properties else 0
    given = [name for name in TIMERS if name in properties] if rules.timers else []
    if given and topic != TIMER_TOPIC:
        if level > 0:
            for name in given:
                del properties[name]
        elif _TIMER_OUT not in properties:
            out = _timer_out(properties, rules, now)
            if out is None:
                return topic, queue_id
            properties[_TIMER_OUT] = str(out)
            properties |= {"REAL_TOPIC": topic, "REAL_QID": str(queue_id)}
            return TIMER_TOPIC, 0
    if level <= 0:
        return topic, queue_id
    if level > rules.levels:
        level = rules.levels
        properties[DELAY] = str(level)
    properties |= {"REAL_TOPIC": topic, "REAL_QID": str(queue_id)}
    return SCHEDULE_TOPIC, level - 1


def _timer_out(properties: Mapping[str, str], rules: DelayRules, now: int) -> int | None:
    """The tick of the timer wheel at which a message is due; None if it is due already.

    HookUtils.transformTimerMessage: a time exactly on a tick counts as the tick before.
    """
    if not rules.wheel:
        raise TimerDisabled("a timer message, and timerWheelEnable is false")
    if _SECONDS in properties:
        due = _java_long(now + _java_long(_number(properties, _SECONDS) * 1000))
    elif _MILLISECONDS in properties:
        due = _java_long(now + _number(properties, _MILLISECONDS))
    else:
        due = _number(properties, _DELIVER)
    if due <= now:
        if _RECALLS in properties:
            raise TimerIllegal(f"property {_RECALLS}: what is to be recalled is due already")
        return None
    if _java_long(due - now) > rules.longest:
        raise TimerIllegal(f"a timer due in more than timerMaxDelaySec ({rules.longest // 1000} s)")
    return due - (due % rules.precision or rules.precision)


def _number(properties: Mapping[str, str], name: str) -> int:
    """Long.parseLong of a property. Raises TimerIllegal."""
    raw = np.frombuffer(properties[name].encode("utf-8", "replace"), np.uint8)
    well_formed, number = parse_integer(raw, 0, len(raw), 64)
    if not well_formed:
        raise TimerIllegal(f"property {name} is not a number")
    return int(number)


def _java_long(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
