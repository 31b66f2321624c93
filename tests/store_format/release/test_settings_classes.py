"""When a broker deletes, by its settings: hours of the day, and shares of the disk."""

from pathlib import Path

import pytest

from reput.store_format.release import settings as module


def given(**values: str) -> module.ExpirySettings:
    return module.parse_settings(module.ExpirySettings, values)


@pytest.mark.parametrize(("text", "hours"), [
    ("04", (4,)), ("4", (4,)), ("00;23", (0, 23)),
    ("04;05;", (4, 5)),  # String.split drops what is empty at the end
    ("", ()), (";", ()), ("+4;" + "0" * 50 + "5", (4, 5)), ("5;4;5", (5, 4, 5)),
])  # fmt: skip
def test_hours_are_numbers_with_semicolons(text: str, hours: tuple[int, ...]) -> None:
    assert given(deleteWhen=text).hours == hours


@pytest.mark.parametrize(
    "text", ["24", "-1", "04,05", "4h", "04;x", "04;24", "1.5", "1_2", "04; 05", "04;;05", ";4"]
)
def test_what_is_no_hour_of_a_day_is_refused(text: str) -> None:
    with pytest.raises(module.SettingError, match=f"deleteWhen={text}"):
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
    with pytest.raises(module.SettingError, match=f"{name}={least - 1}: out of range {least}"):
        given(**{name: str(least - 1)})


# --- The writer's settings: which the user gave, its own address, and where it writes.
def test_given_names_are_rocketmqs_newest() -> None:
    layers = {"mapedFileSizeCommitLog": "1073741824"}, {"brokerName": "a", "listenPort": "10911"}
    wanted = {"mappedFileSizeCommitLog", "brokerName", "listenPort"}
    assert module.writer_settings_from(*layers).given_names == wanted
    assert module.writer_settings_from().given_names == frozenset()
    assert module.WriterSettings().given_names == frozenset()
    assert module.WriterSettings(listen_port=1, max_index_num=20_000_000).given_names == {
        "listenPort"
    }
    assert not module.WriterSettings().sync_flush
    assert module.writer_settings_from({"flushDiskType": "SYNC_FLUSH"}).sync_flush


def test_without_settings_a_broker_deletes_at_4_what_is_older_than_72_hours() -> None:
    settings = module.parse_settings(module.ExpirySettings, {})
    assert settings.file_reserved_time == 72
    assert settings.hours == (4,)
    assert settings.delete_file_batch_max == 10
    assert settings.clean_file_forcibly_enable
    assert settings.used_most == 75
    assert settings.forced == (85, "diskSpaceCleanForciblyRatio")
    assert settings.disk_space_warning_level_ratio == 90


def test_what_a_value_that_is_no_default_s_does_not_do_is_warned_of() -> None:
    assert warned("inSyncReplicas", "+01", "5.3.3") == ""
    assert warned("inSyncReplicas", "2", "5.3.3").startswith("not done: nothing is replicated")
    said = warned("enableMultiDispatch", "true", "4.9.2", "derive")
    assert said.startswith("RocketMQ 4.9.2 has no such setting (since 4.9.3)")
    assert warned("enableMultiDispatch", "false", "4.9.2", "derive") == ""
    assert warned("mapperFileSizeBatchConsumeQueue", "46", "4.9.8", "derive") == ""
    assert "PUT_OK speaks of this disk alone" in warned("brokerRole", "SYNC_MASTER", "5.3.3")
    assert module.setting_warnings({"brokerRole": "SLAVE"}, "5.3.3", "derive") == []
    for role, message in (("SLAVE", "a copy of its master's"), ("MASTER", "one of ASYNC_MASTER")):
        with pytest.raises(module.SettingError, match=message):
            module.setting_warnings({"brokerRole": role}, "5.3.3", "append")


@pytest.mark.parametrize(("address", "port", "host"), [
    ("192.0.2.7", "1", "192.0.2.7:1"), ("2001:DB8:0:0:0:0:0:1", "65535", "[2001:db8::1]:65535"),
    ("2001:db8::192.0.2.7", "10911", "[2001:db8::c000:207]:10911"),
])  # fmt: skip
def test_the_store_host_is_an_address_and_a_port(address: str, port: str, host: str) -> None:
    given = {"brokerIP1": address, "listenPort": port}
    assert module.writer_settings_from(given).store_host == host
    assert module.WriterSettings().store_host == "127.0.0.1:10911"


@pytest.mark.parametrize(("name", "value"), [
    ("brokerIP1", "localhost"), ("brokerIP1", "192.0.2"), ("brokerIP1", "192.0.2.256"),
    ("brokerIP1", "[::1]"), ("listenPort", "65536"),
])  # fmt: skip
def test_what_is_no_address_is_refused_when_it_is_asked_for(name: str, value: str) -> None:
    settings = module.writer_settings_from({name: value})
    with pytest.raises(module.SettingError, match=f"{name}="):
        _ = settings.store_host


def test_the_log_is_in_the_store_by_whatever_path(tmp_path: Path) -> None:
    store, link = tmp_path / "store", tmp_path / "link"
    (store / "commitlog").mkdir(parents=True)
    link.symlink_to(store / "commitlog")
    for own in (link, store / "x" / ".." / "commitlog"):
        module.refuse_other_folders(
            module.writer_settings_from({"storePathCommitLog": str(own)}), str(store)
        )
    module.refuse_other_folders(module.WriterSettings(), str(store))
    for several in (store, store / "commitlog" / "x", f"{link},{link}"):
        given = {"storePathCommitLog": str(several)}
        with pytest.raises(module.SettingError, match="storePathCommitLog="):
            module.refuse_other_folders(module.writer_settings_from(given), str(store))


# --- Which given settings are warned of, by command, release and value.
def warned(name: str, text: str, release: str, doing: module.Doing = "append") -> str:
    """What is said of a setting, without its name and value; '' if nothing is."""
    lines = module.setting_warnings({name: text}, release, doing)
    assert all(line.startswith(f"{name}={text}: ") for line in lines)
    return "".join(line.partition(": ")[2] for line in lines)


@pytest.mark.parametrize(
    ("release", "said"), [("5.3.4", False), ("5.4.0", True), ("4.1.0-incubating", False)]
)
def test_what_the_release_does_not_have_is_not_warned_of(release: str, said: bool) -> None:
    assert bool(warned("timerRocksDBEnable", "true", release, "derive")) == said


@pytest.mark.parametrize(("name", "release", "said"), [
    ("mapedFileSizeCommitLog", "4.5.1", ""),
    ("mapedFileSizeCommitLog", "4.5.2", "RocketMQ 4.5.2 calls it mappedFileSizeCommitLog"),
    ("mappedFileSizeCommitLog", "4.5.1", ""), ("mappedFileSizeCommitLog", "4.5.2", ""),
])  # fmt: skip
def test_an_old_name_is_warned_of_from_the_new_names_release(name, release, said) -> None:
    assert warned(name, "1073741824", release, "derive").startswith(said)
    assert bool(said) == bool(warned(name, "1073741824", release, "derive"))
