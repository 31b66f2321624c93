"""The order of index files by their headers, the time zone of their names, and new names."""

from datetime import timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from reput.store_format.derived import index_header
from reput.store_format.derived.index_names import BY_PROCESS, NameZone, name_zone, names_in_order
from reput.store_format.files.folder import Folder
from reput.store_format.names import index_name
from tests.memory_storage import MemoryStorage, WatchedStorage

HOUR = 3_600_000
T0 = 1_795_728_612_645  # 2026-11-26 21:30:12.645 in UTC
HERE = NameZone("UTC+00:00", BY_PROCESS, lambda _: 0)
# as a broker in Shanghai named two files, and then one in UTC two more
SHANGHAI = [(8, 0, 0, 133_438), (8, 1149, 133_438, 267_463)]
MOVED = [*SHANGHAI, (0, 14_020, 267_463, 401_441), (0, 14_796, 402_036, 481_831)]


def made(hours: float, after: int, begin: int, end: int) -> index_header.Named:
    """A file whose name is of a zone so many hours ahead of UTC."""
    name = index_name(T0 + after + int(hours * HOUR) + 1)
    return name, index_header.IndexHeader(T0 + after, T0 + after + 500, begin, end, 1, 900)


def by_name(files: list[tuple[float, int, int, int]]) -> list[index_header.Named]:
    return sorted(made(*each) for each in files)


def test_headers_order_the_files_of_two_zones() -> None:
    assert index_header.in_log_order(by_name(MOVED)) == [made(*each)[0] for each in MOVED]
    stored = {f"s/index/{name}": index_header.encode_header(head) for name, head in by_name(MOVED)}
    storage = MemoryStorage({**stored, "s/index/.DS_Store": b"x"})
    names = [about.name for about in index_header.listed_index(Folder(storage, "s"))]
    assert names == index_header.in_log_order(by_name(MOVED))
    assert {
        about.name: head for about, head in index_header.index_files(Folder(storage, "s"))
    } == dict(by_name(MOVED))
    # Its offsets contradict those of its neighbours: the names say the order then.
    for flipped in [1 << 40, -1, 1 << 17]:
        files = by_name(
            [(0, 0, 0, 90_000), (0, 900, 100_000, 200_000), (0, 1800, 300_000, 400_000)]
        )
        for number in range(3):
            name, head = files[number]
            damaged = [*files]
            damaged[number] = (name, head._replace(begin_offset=head.begin_offset ^ flipped))
            assert index_header.in_log_order(damaged) == [each for each, _ in files]
    last, head = made(0, 2000, 400_000, 400_000)
    files = [
        *by_name([(0, 0, 0, 90_000), (0, 900, 100_000, 400_000)]),
        (last, index_header.NO_HEADER),
    ]
    assert index_header.in_log_order(files)[-1] == last
    files[2] = (last, index_header.IndexHeader(T0 + 900, T0 + 1400, 400_000, 400_000, 0, 1))
    assert index_header.in_log_order(files)[-1] == last
    assert index_header.in_log_order([(last, head)]) == [last]


def days(many: int) -> list[index_header.Named]:
    return [made(8, 24 * HOUR * n, 1000 * n, 1000 * n + 900) for n in range(many)]


@pytest.mark.parametrize(("files", "read_for_one"), [
    (days(5), 1),  # none can be newer but the last
    (sorted([*days(3), made(-5, 48 * HOUR + 60_000, 9000, 9900)]), 2), (by_name(MOVED), 4),
    ([*days(4), (index_name(T0 + 40 * 24 * HOUR), index_header.NO_HEADER)], 5),  # it says nothing
    ([*days(1)], 0)])  # fmt: skip
def test_the_newest_file_is_found_by_few_headers(files, read_for_one) -> None:
    """Each header is a request to S3 before a query that the newest file answers."""
    stored = {f"s/index/{name}": index_header.encode_header(head) for name, head in files}
    storage = WatchedStorage(stored)
    names = index_header.newest_first(Folder(storage, "s"), [name for name, _ in files])
    order = index_header.in_log_order(files)[::-1]
    assert (next(names), len(storage.opened)) == (order[0], read_for_one)
    assert list(names) == order[1:]
    assert len(storage.opened) <= len(files)


@pytest.mark.parametrize(("files", "given", "said", "ahead"), [
    ([], None, "UTC+00:00", 0), (SHANGHAI, None, "UTC+08:00", 8),
    (MOVED, None, "UTC+00:00", 0),  # names of two zones are two eras: the last one counts
    (SHANGHAI, ZoneInfo("America/New_York"), "America/New_York", -5),
    (SHANGHAI, timezone(timedelta(hours=5, minutes=45)), "UTC+05:45", 5.75),
    ([(-9.5, 0, 0, 1)], None, "UTC-09:30", -9.5),
    ([(15, 0, 0, 1)], None, "UTC+00:00", 0),  # no zone is so far east
    ([(-5, 0, 0, 1), (-4.7, 900, 2, 3)], None, "UTC-05:00", -5)  # the last: by a recovery
    ])  # fmt: skip
def test_the_zone_of_new_names(files, given, said, ahead) -> None:
    zone = name_zone([made(*each) for each in files], given, HERE)
    assert (zone.said, zone.local(T0)) == (said, T0 + int(ahead * HOUR))
    assert zone.is_a_guess == (said == "UTC+00:00" and files != MOVED)
    assert zone.as_settings() == ({} if zone.is_a_guess else {"user.timezone": said})


def test_older_names_are_lowered_and_summer_time_is_this_process_s() -> None:
    new_york = NameZone("UTC-05:00", BY_PROCESS, lambda at: (-5 if at > T0 - HOUR else -4) * HOUR)
    july, winter = T0 - 140 * 24 * HOUR, T0 + HOUR
    head = index_header.IndexHeader(july, july, 0, 9, 1, 2)
    summer = [(index_name(july - 4 * HOUR), head)]
    assert name_zone(summer, None, new_york).local(winter) == winter - 5 * HOUR
    assert name_zone(summer, None, HERE).local(winter) == winter - 4 * HOUR
    zone = name_zone([], ZoneInfo("America/New_York"), HERE)
    assert (zone.local(july), zone.local(winter)) == (july - 4 * HOUR, winter - 5 * HOUR)
    for at in [-(1 << 63), 0, (1 << 63) - 1]:
        zone = name_zone([], ZoneInfo("Asia/Shanghai"), HERE)
        assert len(index_name(zone.local(at))) == 17
    names = [made(*each)[0] for each in MOVED]
    moved = names_in_order(names)
    assert moved == sorted(moved)
    assert moved[2:] == names[2:]
    assert moved[:2] == ["20261126213012646", "20261126213013795"]  # as a broker in UTC names them
    assert names_in_order(moved) == moved
    close = ["20260101080000000", "20260101000000000", "20260101000000001"]
    assert names_in_order(close)[0] < close[1]
    taken = names_in_order(["20260101000000000", "20260101001500000", "20260101000000001"])
    assert taken == ["20251231234500000", "20251231235959999", "20260101000000001"]  # none is lost
