"""Messages a second over ten seconds, a minute and ten minutes, from what was counted by then."""

import pytest

from reput.broker.serving.clients import Given


def counted(now: int, *each: tuple[int, int]) -> Given:
    """each: (milliseconds, messages given since the tick before)."""
    given = Given(now)
    for at, messages in each:
        given.total += messages
        given.tick(at)
    return given


def test_a_new_server_has_given_nothing() -> None:
    assert Given(5000).rates(5000) == [0.0, 0.0, 0.0]
    assert Given(5000).rates(6000) == [0.0, 0.0, 0.0]


def test_each_span_begins_at_the_first_tick_within_it() -> None:
    """600 messages in the first minute, then 20 in each of the last two spans of ten seconds."""
    given = counted(0, (0, 0), *((n * 1000, 10) for n in range(1, 61)))
    for n in range(61, 81):
        given.total += 2
        given.tick(n * 1000)
    ten, minute, whole = given.rates(80_000)
    assert ten == 2.0
    assert minute == pytest.approx((40 * 10 + 20 * 2) / 60)
    assert whole == pytest.approx((600 + 40) / 80)


def test_what_came_after_the_last_tick_counts_too() -> None:
    given = counted(0, (10_000, 100))
    given.total += 50
    assert given.rates(20_000) == [5.0, 7.5, 7.5]
    # no tick is within the last ten seconds: what came since the last one, in 10.001 s
    assert given.rates(20_001)[0] == pytest.approx(50 / 10.001)


def test_ticks_within_a_second_are_one_and_only_ten_minutes_are_kept() -> None:
    given = counted(0, (999, 5), (1000, 5), (1999, 5))
    assert given.rates(10_000)[0] == 1.5
    for n in range(2, 2000):
        given.tick(n * 1000)
    assert given.rates(1_999_000) == [0.0, 0.0, 0.0]
    assert len(given._past) == 601
