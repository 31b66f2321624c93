"""What is due and in which order: levels queue by queue, the wheel slot by slot."""

from collections.abc import Sequence

import numpy as np

from reput.broker.services.deliver import DeliveryPlan, Due, Until, plan_delivery
from reput.store_format.fate.delays import Delayed, DelayState
from reput.store_format.fate.gather import BAD_OUT, MARK, WHEEL, Gathered
from reput.store_format.state.timers import that_stay

T = 1_700_000_000_000
DELAYS = {1: 1000, 2: 5000}
UNTIL = Until(T, T, False, 1000)
WAITING, NEVER, REPEATED = DelayState.WAITING, DelayState.NEVER, DelayState.REPEATED


def delayed(place: int, due: int, level: int = 1, state: DelayState = WAITING,
            recalled: bool = False) -> Delayed:  # fmt: skip
    """A message whose queueOffset is a hundredth of its place."""
    return Delayed(state, place, level, place // 100, due, -1, recalled)


def wheel(*each: tuple[int, int, bool, int]) -> Gathered:
    """(place, TIMER_OUT_MS, whether it recalls another, flaws) of messages of the timer topic."""
    marks = np.zeros(len(each), MARK)
    for mark, (place, out, recalls, flaws) in zip(marks, each, strict=True):
        mark["physicalOffset"], mark["out"], mark["kind"] = place, out, WHEEL
        mark["deletes"], mark["flaws"] = recalls, flaws
    return Gathered(marks, marks[:0], [], 0, 0, [], 0)


def planned(found: Sequence[Delayed], until: Until = UNTIL,
            gathered: Gathered | None = None) -> DeliveryPlan:  # fmt: skip
    return plan_delivery(gathered or wheel(), found, DELAYS, until)


def stay(plan: DeliveryPlan, since: int) -> list[int]:
    return that_stay(plan.timers, plan.wheel or (), since)["physicalOffset"].tolist()


def test_levels_are_delivered_in_order_and_first_what_was_skipped() -> None:
    plan = planned([delayed(100, T - 5), delayed(200, T - 9), delayed(300, T - 7, 2)])
    assert plan.due == [Due(300, 3, T - 7, 2, False), Due(100, 1, T - 5, 1, False), Due(
        200, 2, T - 5, 1, False)]  # fmt: skip
    # ScheduleMessageService.correctDeliverTimestamp: `deliverTimestamp > now + delay`.
    for due, delivered in [(T + 1000, False), (T + 1001, True)]:
        assert bool(planned([delayed(100, due)]).due) is delivered
    for missed, places in [(False, [200]), (True, [100, 200])]:
        found = [delayed(100, T - 1, 1, NEVER), delayed(200, T - 5, 2), delayed(
            300, T - 9, 1, DelayState.UNSURE)]  # fmt: skip
        plan = planned(found, UNTIL._replace(missed=missed))
        assert [each.physical_offset for each in plan.due] == places
        assert (plan.skipped, plan.unsure) == (2 - missed, 1)
        assert plan.levels == {2: None}


def test_a_timer_is_due_once_its_tick_is_over() -> None:
    for out, time, due in [
        (T - 1, T, True), (T, T, False), (T, T + 999, False), (T, T + 1000, True)]:  # fmt: skip
        plan = planned([delayed(100, out, 0)], UNTIL._replace(time=time), wheel((100, out, False,
                                                                                 0)))  # fmt: skip
        assert [each.physical_offset for each in plan.due] == [100] * due
        assert plan.wheel == ([] if due else None)
        assert (len(plan.timers), plan.waiting) == (1, 1 - due)
    until = Until(T + 5999, T + 2500, False, 1000)
    assert (until.tick, until.read_to) == (T + 5000, T + 2000)
    gathered = wheel((100, T, False, 0), (150, T + 2000, True, 0), (160, T + 1999, True, 0))
    plan = planned([delayed(100, T, 0)], until, gathered)
    assert stay(plan, until.read_to) == [150]
    assert stay(plan, T + 2001) == []


def test_a_recalled_timer_is_not_delivered_and_the_rest_of_the_wheel_waits_in_order() -> None:
    gathered = wheel(
        (100, T - 9000, False, 0), (150, T + 2000, True, 0), (160, T + 2000, True, BAD_OUT),
        (170, T - 1, True, 0), (200, T + 9000, False, 0))  # fmt: skip
    found = [delayed(100, T - 9000, 0, recalled=True), delayed(200, T + 9000, 0)]
    plan = planned(found, UNTIL, gathered)
    assert plan.due == []
    assert stay(plan, UNTIL.read_to) == [150, 200]
    again = planned([delayed(100, T, 0, REPEATED)], UNTIL, gathered)
    assert (again.due, again.done, stay(again, UNTIL.read_to)) == ([], 1, [150])
