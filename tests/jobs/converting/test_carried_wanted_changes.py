"""The user's changes: which are refused before anything is read."""

from collections.abc import Mapping, Sequence

import pytest

from reput.jobs.converting.carried import parse_renames, refuse_unknown_topics, wanted_changes
from reput.store_format.release.profiles import profile
from reput.store_format.release.setting_table import SettingError
from reput.store_format.rewrite.changes import Changes


@pytest.mark.parametrize(
    ("words", "renames"),
    [([], {}), (["A=B", "B=A"], {"A": "B", "B": "A"}), (["A=B=C"], {"A": "B=C"})],
)
def test_a_rename_is_two_names(words: list[str], renames: dict[str, str]) -> None:
    assert parse_renames(words) == renames


@pytest.mark.parametrize("words", [["A"], ["=B"], ["A="], ["A=B", "A=C"], ["A=B", "A=B"]])
def test_half_a_rename_or_two_of_one_topic_are_refused(words: list[str]) -> None:
    with pytest.raises(SettingError, match="--rename"):
        parse_renames(words)


def wanted(
    topics: Sequence[str] = (), dropped: Sequence[str] = (), host: str | None = None,
    renames: Mapping[str, str] | None = None, release: str = "5.3.3",
) -> Changes:  # fmt: skip
    return wanted_changes(topics, dropped, renames or {}, host, profile(release))


@pytest.mark.parametrize(
    ("renames", "release", "why"),
    [
        ({"%RETRY%g": "A"}, "5.3.3", "only the topics of producers"),
        ({"A": "%DLQ%g"}, "5.3.3", "only the topics of producers"),
        ({"%LMQ%a": "A"}, "5.3.3", "only the topics of producers"),
        ({"A": "SCHEDULE_TOPIC_XXXX"}, "5.3.3", "only the topics of producers"),
        ({"A": "rmq_sys_x"}, "5.3.3", "only the topics of producers"),
        ({"A": "C", "B": "C"}, "5.3.3", "same name"),
        ({"A": "B=C"}, "5.3.3", "is allowed"),
        ({"A": "B" * 127}, "5.0.0", None),
        ({"A": "B" * 128}, "5.0.0", "at most 127"),
        ({"A": "B" * 128}, "5.1.0", None),
        ({"A": "B" * 255}, "5.1.0", None),
        ({"A": "B" * 256}, "5.1.0", "at most 255"),
        ({"A": "B", "B": "A"}, "5.3.3", None),
    ],
)
def test_a_new_name_is_one_that_a_broker_of_the_release_takes(
    renames: dict[str, str], release: str, why: str | None
) -> None:
    if why is None:
        assert wanted(renames=renames, release=release).renames == tuple(renames.items())
    else:
        with pytest.raises(SettingError, match=why):
            wanted(renames=renames, release=release)


def test_topics_are_taken_or_dropped_and_each_counts_once() -> None:
    assert wanted(["B", "A", "B"]).topics == ("B", "A")
    with pytest.raises(SettingError, match="--drop has nothing to add"):
        wanted(["A"], ["B"])


@pytest.mark.parametrize(
    ("host", "raw"),
    [
        (None, b""),
        ("10.0.0.1:10911", b"\x0a\0\0\x01\0\0\x2a\x9f"),
        ("[::1]:1", bytes(15) + b"\x01\0\0\0\x01"),
    ],
)
def test_a_store_host_is_written_as_in_a_record(host: str | None, raw: bytes) -> None:
    assert wanted(host=host).store_host == raw


@pytest.mark.parametrize("host", ["", "broker:10911", "10.0.0.1", "10.0.0.1:65536", "10.0.0.1:-1"])
def test_a_host_s_name_is_no_store_host(host: str) -> None:
    with pytest.raises(SettingError, match="--store-host"):
        wanted(host=host)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (Changes(topics=("Orders",)), None),
        (Changes(topics=("Order",)), "no topic 'Order' in this store; it has Orders"),
        (Changes(dropped=("zzz",)), "it has Bills, Orders"),
        (Changes(renames=(("Orders", "Bills"),)), "a topic Bills: their messages would be one"),
        (Changes(renames=(("Orders", "Bills"), ("Bills", "Orders"))), None),
        (Changes(renames=(("Orders", "Bills"),), dropped=("Bills",)), None),
        (Changes(renames=(("Orders", "Bills"),), topics=("Orders",)), None),
    ],
)
def test_a_new_name_must_be_free_in_what_is_taken(changes: Changes, why: str | None) -> None:
    there = {"Orders", "Bills"}
    if why is None:
        refuse_unknown_topics(changes, there)
    else:
        with pytest.raises(SettingError, match=why):
            refuse_unknown_topics(changes, there)
