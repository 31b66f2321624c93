"""Which given settings are warned of, by command, release and value."""

import pytest

from reput.store_format.release.settings import Doing, SettingError, setting_warnings


def warned(name: str, text: str, release: str, doing: Doing = "append") -> str:
    """What is said of a setting, without its name and value; '' if nothing is."""
    lines = setting_warnings({name: text}, release, doing)
    assert all(line.startswith(f"{name}={text}: ") for line in lines)
    return "".join(line.partition(": ")[2] for line in lines)


def test_only_a_value_that_is_not_the_default_is_warned_of() -> None:
    assert warned("inSyncReplicas", "+01", "5.3.3") == ""
    assert warned("inSyncReplicas", "2", "5.3.3").startswith("not done: nothing is replicated")
    assert warned("inSyncReplicas", "2", "5.3.3", "derive") == ""


@pytest.mark.parametrize(
    ("release", "said"), [("5.3.4", False), ("5.4.0", True), ("4.1.0-incubating", False)]
)
def test_what_the_release_does_not_have_is_not_warned_of(release: str, said: bool) -> None:
    assert bool(warned("timerRocksDBEnable", "true", release, "derive")) == said


@pytest.mark.parametrize(
    ("name", "release", "said"),
    [
        ("mapedFileSizeCommitLog", "4.5.1", ""),
        ("mapedFileSizeCommitLog", "4.5.2", "RocketMQ 4.5.2 calls it mappedFileSizeCommitLog"),
        ("mappedFileSizeCommitLog", "4.5.1", ""),
        ("mappedFileSizeCommitLog", "4.5.2", ""),
    ],
)
def test_an_old_name_is_warned_of_from_the_new_names_release(
    name: str, release: str, said: str
) -> None:
    assert warned(name, "1073741824", release, "derive").startswith(said)
    assert bool(said) == bool(warned(name, "1073741824", release, "derive"))


def test_a_switch_of_a_later_release_is_not_done() -> None:
    said = warned("enableMultiDispatch", "true", "4.9.2", "derive")
    assert said.startswith("RocketMQ 4.9.2 has no such setting (since 4.9.3)")
    assert warned("enableMultiDispatch", "false", "4.9.2", "derive") == ""
    assert warned("enableMultiDispatch", "true", "4.9.3", "derive") == ""


def test_a_size_describes_what_is_there_whoever_wrote_it() -> None:
    assert warned("mapperFileSizeBatchConsumeQueue", "46", "4.9.8", "derive") == ""


def test_a_role_is_judged_by_the_writer_alone() -> None:
    assert warned("brokerRole", "ASYNC_MASTER", "5.3.3") == ""
    assert "PUT_OK speaks of this disk alone" in warned("brokerRole", "SYNC_MASTER", "5.3.3")
    assert setting_warnings({"brokerRole": "SLAVE"}, "5.3.3", "derive") == []
    for role, message in (("SLAVE", "a copy of its master's"), ("MASTER", "one of ASYNC_MASTER")):
        with pytest.raises(SettingError, match=message):
            setting_warnings({"brokerRole": role}, "5.3.3", "append")


def test_lines_come_in_the_order_given() -> None:
    given = {"totalReplicas": "3", "brokerName": "a", "flushCommitLogTimed": "false"}
    names = [line.partition("=")[0] for line in setting_warnings(given, "5.3.3", "append")]
    assert names == ["totalReplicas", "flushCommitLogTimed"]
