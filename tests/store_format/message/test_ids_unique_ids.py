"""UNIQ_KEYs digit by digit: address, process, class loader, time in the month, counter."""

from collections.abc import Callable

import pytest

from reput.store_format.message.ids import UniqueIds

DAY = 86_400_000
FEBRUARY_2024 = 1_706_745_600_000  # 2024-02-01T00:00:00Z


def ids(*times: int, host: str = "10.0.0.2:10911", process: int = 1, loader: int = 2) -> UniqueIds:
    """A maker whose clock shows these times, one a look."""
    clock: Callable[[], int] = iter(times).__next__
    return UniqueIds(clock, host, process, loader)


def test_an_id_is_its_parts_in_capital_hexadecimal_digits() -> None:
    made = ids(FEBRUARY_2024 + 0xABC, process=0x1BEEF, loader=-2).next()
    assert made == "0A000002" + "BEEF" + "FFFFFFFE" + "00000ABC" + "0000"  # the port is no part


def test_an_ipv6_id_has_56_digits() -> None:
    made = ids(FEBRUARY_2024, host="[2001:db8::1]:10911").next()
    assert made == "20010DB8" + "0" * 23 + "1" + "0001" + "00000002" + "0" * 12


def test_the_counter_goes_on_over_milliseconds_and_wraps_after_65536() -> None:
    maker = ids(*[FEBRUARY_2024] * 3, FEBRUARY_2024 + 1)
    assert [maker.next()[-4:], maker.next()[-4:]] == ["0000", "0001"]
    assert maker.take(0xFFFE) == 2
    assert [maker.next()[-12:], maker.next()[-12:]] == ["000000000000", "000000010001"]


@pytest.mark.parametrize(
    ("now", "since"),
    [
        (FEBRUARY_2024, 0),
        (FEBRUARY_2024 + 29 * DAY - 1, 29 * DAY - 1),
        (FEBRUARY_2024 + 29 * DAY, 0),
        (FEBRUARY_2024 - 1, 31 * DAY - 1),
        (1_704_067_199_999, 31 * DAY - 1),  # the last of 2023
        (1_704_067_200_000, 0),
    ],
)
def test_the_time_is_since_the_month_began_in_utc(now: int, since: int) -> None:
    assert ids(now).time_part() == since


def test_the_month_changes_with_the_clock_forward_and_back() -> None:
    march = FEBRUARY_2024 + 29 * DAY
    maker = ids(FEBRUARY_2024 + 5, march - 1, march, march - 1, FEBRUARY_2024 - DAY)
    assert [maker.time_part() for _ in range(5)] == [5, 29 * DAY - 1, 0, 29 * DAY - 1, 30 * DAY]


def test_numbers_that_are_taken_are_not_given_again() -> None:
    maker = ids(FEBRUARY_2024, FEBRUARY_2024)
    assert maker.take(3) == 0
    assert maker.next()[-4:] == "0003"
    assert maker.take(0) == 4
    assert maker.next()[-4:] == "0004"
