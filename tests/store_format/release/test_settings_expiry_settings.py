"""When a broker deletes, by its settings: hours of the day, and shares of the disk."""

import pytest

from reput.store_format.release.settings import ExpirySettings, SettingError, parse_settings


def given(**values: str) -> ExpirySettings:
    return parse_settings(ExpirySettings, values)


def test_defaults_are_rocketmqs() -> None:
    settings = given()
    assert settings.file_reserved_time == 72
    assert settings.hours == (4,)
    assert settings.delete_file_batch_max == 10
    assert settings.clean_file_forcibly_enable
    assert settings.used_most == 75
    assert settings.forced == (85, "diskSpaceCleanForciblyRatio")
    assert settings.disk_space_warning_level_ratio == 90


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("04", (4,)),
        ("4", (4,)),
        ("00;23", (0, 23)),
        ("04;05;", (4, 5)),  # String.split drops what is empty at the end
        ("", ()),
        (";", ()),
        ("+4;" + "0" * 50 + "5", (4, 5)),
        ("5;4;5", (5, 4, 5)),
    ],
)
def test_hours_are_numbers_with_semicolons(text: str, hours: tuple[int, ...]) -> None:
    assert given(deleteWhen=text).hours == hours


@pytest.mark.parametrize(
    "text", ["24", "-1", "04,05", "4h", "04;x", "04;24", "1.5", "1_2", "04; 05", "04;;05", ";4"]
)
def test_what_is_no_hour_of_a_day_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match=f"deleteWhen={text}"):
        _ = given(deleteWhen=text).hours


@pytest.mark.parametrize(
    ("ratio", "used"), [("0", 10), ("9", 10), ("10", 10), ("11", 11), ("95", 95), ("96", 95)]
)
def test_the_used_share_is_kept_within_10_and_95(ratio: str, used: int) -> None:
    assert given(diskMaxUsedSpaceRatio=ratio).used_most == used


@pytest.mark.parametrize(
    ("forcibly", "warning", "forced"),
    [("29", "90", 30), ("86", "90", 85), ("85", "34", 35), ("85", "84", 84), ("85", "91", 85)],
)
def test_files_of_any_age_go_above_the_lesser_of_two_ratios_kept_in_bounds(
    forcibly: str, warning: str, forced: int
) -> None:
    """30 to 85, and 35 to 90 (CleanCommitLogService.getDiskSpaceCleanForciblyRatio and the next)"""
    settings = given(diskSpaceCleanForciblyRatio=forcibly, diskSpaceWarningLevelRatio=warning)
    assert settings.forced[0] == forced


@pytest.mark.parametrize(("name", "least"), [("fileReservedTime", 0), ("deleteFileBatchMax", 1)])
def test_a_number_below_the_least_is_refused(name: str, least: int) -> None:
    given(**{name: str(least)})
    with pytest.raises(SettingError, match=f"{name}={least - 1}: out of range {least}"):
        given(**{name: str(least - 1)})
