"""One setting: which releases know its names, and which values RocketMQ reads from a text."""

import pytest

from reput.store_format.release import setting_table


def of_kind(kind: str, default: str | None = None) -> setting_table.KnownSetting:
    status = setting_table.Status.OBEYED
    return setting_table.KnownSetting("name", "4.1.0", "", (), kind, default, status, status, "why")


@pytest.mark.parametrize(("since", "until", "known"), [
    ("", "", []), ("4.1.0", "", ["4.1.0-incubating", "4.9.2", "4.9.8", "5.5.1"]),
    ("4.9.2", "", ["4.9.2", "4.9.8", "5.5.1"]), ("4.1.0", "4.9.2", ["4.1.0-incubating", "4.9.2"]),
    ("5.5.1", "5.5.1", ["5.5.1"]),
])  # fmt: skip
def test_a_name_is_known_from_its_first_to_its_last_release(since, until, known) -> None:
    spelling = setting_table.Spelling("name", since, until)
    releases = ["4.1.0-incubating", "4.9.2", "4.9.8", "5.5.1"]
    assert [release for release in releases if spelling.known_to(release)] == known


@pytest.mark.parametrize(("kind", "text", "value"), [
    ("boolean", "TRUE", True), ("boolean", "false", False), ("int", "-2147483648", -(1 << 31)),
    ("int", "2147483647", (1 << 31) - 1), ("int", "+007", 7), ("int", "0" * 50 + "7", 7),
    ("int", "-" + "0" * 50, 0), ("long", "9223372036854775807", (1 << 63) - 1),
    ("long", "-9223372036854775808", -(1 << 63)), ("text", " a b ", "a b"), ("text", "", ""),
    ("A|BC", "BC", "BC"), ("A|BC", " A ", "A"),
])  # fmt: skip
def test_what_rocketmq_reads_from_a_text(kind: str, text: str, value: bool | int | str) -> None:
    assert of_kind(kind).value(text) == value


@pytest.mark.parametrize(("kind", "text", "message"), [
    ("boolean", "yes", "true or false"), ("boolean", "true ", "true or false"),
    ("int", "2147483648", "out of range -2147483648..2147483647 of a Java int"),
    ("int", "-2147483649", "of a Java int"), ("int", "+-1", "a whole number"),
    ("int", "+", "a whole number"), ("int", "1_2", "a whole number"),
    ("int", "0" * 50 + "2147483648", "of a Java int"),
    ("long", "9223372036854775808", "of a Java long"), ("long", "9" * 41, "of a Java long"),
    ("A|BC", "B", "expected one of A, BC"), ("A|BC", "A|BC", "expected one of A, BC"),
])  # fmt: skip
def test_what_it_would_not_read_is_refused(kind: str, text: str, message: str) -> None:
    with pytest.raises(setting_table.SettingError, match=message) as caught:
        of_kind(kind).value(text, "older")
    assert str(caught.value).startswith("older=")


def test_a_value_is_compared_as_a_value_and_every_spelling_is_one_setting_s_alone() -> None:
    assert not of_kind("int", "400").differs("+0400", "name")
    assert of_kind("int", "400").differs("401", "name")
    assert not of_kind("boolean", "true").differs("TRUE", "name")
    assert of_kind("text", None).differs("", "name")  # its default depends on the machine
    spellings = [spelling.name for known in setting_table.SETTINGS for spelling in known.in_any]
    assert len(set(spellings)) == len(spellings)
    assert (setting_table.BY_NAME["mapedFileSizeCommitLog"]
            is setting_table.BY_NAME["mappedFileSizeCommitLog"])  # fmt: skip
