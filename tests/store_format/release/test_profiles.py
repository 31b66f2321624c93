"""Releases and what differs between them: the table below is store-rules' own, by hand."""

from dataclasses import fields

import pytest

from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.release import profiles
from reput.store_format.release.settings import settings_from

# rule -> its value before, the release that changed it, and its value from then on
CHANGES = {
    "ipv6_hosts": (False, "4.6.0", True), "long_topics": (False, "5.1.0", True),
    "any_blank_size": (True, "5.3.2", False), "skip_lower_offsets": (False, "4.2.0", True),
    "skip_by_end": (False, "4.5.1", True), "split_properties": (True, "4.9.1", False),
    "count_every_put": (True, "4.7.1", False), "index_tags": (False, "5.4.0", True),
    "empty_index_count": (0, "5.0.0", 1), "multi_dispatch": (False, "4.9.3", True),
    "multi_dispatch_skips_retry": (False, "5.1.1", True),
    "multi_dispatch_skips_slash": (False, "5.1.2", True),
    "multi_dispatch_skips_delays": (False, "5.1.2", True),
    "multi_dispatch_skips_system": (False, "5.2.0", True),
    "multi_all_names": (True, "5.0.0", False), "multi_keeps_wait": (False, "5.2.0", True),
    "multi_not_of_system": (False, "5.3.1", True), "multi_by_lmq": (False, "5.3.2", True),
    "batch_queues": (False, "5.0.0", True), "property_crc": (False, "5.2.0", True),
    "checkpoint_confirm_offset": (False, "5.1.1", True),
    "checkpoint_logics_offset": (False, "5.5.0", True),
    "passes_folders_over": (False, "5.1.0", True), "removes_empty_last": (False, "5.1.3", True),
    "abort_process_id": (False, "5.0.0", True), "property_map_capacity": (16, "5.1.0", 128),
    "timer_messages": (False, "5.0.0", True), "half_topic": (False, "4.3.0", True),
    "commit_keeps_place": (True, "5.4.0", False), "op_message_lists": (False, "5.1.0", True),
    "config_entry_lines": (False, "5.4.0", True), "sql_text_words": (False, "5.1.3", True),
    "tells_pulled": (False, "5.1.0", True), "pull_sys_flags": (False, "5.0.0", True),
    "pull_illegal_queue": (False, "5.3.2", True), "topic_not_exist": (False, "5.0.0", True),
    "commits_of_known_groups": (False, "5.3.0", True),
    "server_resets_offsets": (False, "5.2.0", True),
}  # fmt: skip
# Rules that decide no byte of queues and index in a sound log, or only where a store has what a
# clue is about; all others are in candidates, by which a release is chosen that nobody has named.
TELLS_NOTHING = {
    "ipv6_hosts", "long_topics", "any_blank_size", "batch_queues", "property_crc",
    "zero_property_crc", "checkpoint_confirm_offset", "checkpoint_logics_offset",
    "passes_folders_over", "removes_empty_last", "abort_process_id", "property_map_capacity",
    "property_text_ends", "timer_messages",
    "bisects_queue_min", "queue_time_boundaries", "batch_time_boundaries", "queue_time_within",
    "op_message_lists", "sql_text_words", "half_topic", "config_entry_lines",
    "commit_keeps_place", "tells_pulled", "pull_sys_flags", "pull_illegal_queue",
    "topic_not_exist", "commits_of_known_groups", "server_resets_offsets", "multi_all_names",
    "multi_of_counted",
    "full_disk_deletes", "multi_in_turn", "multi_keeps_wait", "multi_not_of_system", "multi_by_lmq",
}  # fmt: skip


def number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.removesuffix("-incubating").split(".")))


@pytest.mark.parametrize("release", profiles.RELEASES)
def test_every_release_has_a_profile_and_from_4_9_1_to_5_1_4_no_02_ends_a_text(release) -> None:
    found = profiles.profile(release)
    assert found.release == release
    assert profiles.profile(release.removesuffix("-incubating")) == found
    for rule, (before, since, after) in CHANGES.items():
        expected = after if number(release) >= number(since) else before
        assert getattr(found, rule) == expected, rule
    # What `messageProperties2String` of each release's own rocketmq-common gave for {a: b}.
    left_out = (4, 9, 1) <= number(release) <= (5, 1, 4)
    assert profiles.profile(release).property_text_ends != left_out


@pytest.mark.parametrize("version", ["", "5", "5.3.9", "4.0.0", "6.0.0", "latest"])
def test_an_unknown_release_is_named_with_those_there_are(version: str) -> None:
    with pytest.raises(profiles.UnknownRelease, match=r"4\.1\.0-incubating to 5\.5\.1") as caught:
        profiles.profile(version)
    assert repr(version) in str(caught.value)


def test_releases_ascend_every_rule_changes_at_one_and_settings_ask_for_what_it_has() -> None:
    everything = settings_from(
        {"forceVerifyPropCRC": "true", "enableMultiDispatch": "true", "enableLmq": "true"}
    )
    old = scan_rules(profiles.profile("4.9.2"), everything, ["B"])
    assert not old.dispatch.property_crc
    assert not old.dispatch.multi_dispatch
    assert old.batch_topics == ()
    new = scan_rules(profiles.profile("5.2.0"), everything, ["b", "a"])
    assert new.dispatch.property_crc
    assert new.dispatch.multi_dispatch
    assert new.batch_topics == ("a", "b")
    off = scan_rules(profiles.profile("5.2.0"), settings_from({"checkCRCOnRecover": "false"}), [])
    assert not off.check_body_crc
    assert not off.dispatch.multi_dispatch
    unchecked = {"checkCRCOnRecover": "false", "forceVerifyPropCRC": "true"}
    assert not scan_rules(
        profiles.profile("5.2.0"), settings_from(unchecked), []
    ).dispatch.property_crc
    assert list(profiles.RELEASES) == sorted(profiles.RELEASES, key=number)
    assert (profiles.RELEASES[0], profiles.RELEASES[-1]) == ("4.1.0-incubating", "5.5.1")
    assert len(set(profiles.RELEASES)) == len(profiles.RELEASES)
    known = {release.removesuffix("-incubating") for release in profiles.RELEASES}
    assert {since for _, since, _ in CHANGES.values()} <= known
    table = dict(profiles.differences())
    assert list(table) == [f.name for f in fields(profiles.Profile) if f.name != "release"]
    for rule, values in table.items():
        assert values == [getattr(profiles.profile(release), rule) for release in profiles.RELEASES]
        assert len(set(values)) > 1, f"{rule} never changes"
    assert set(CHANGES) <= set(table)
    # One that changes derived files and is not there lets reput choose a wrong release.
    reported = set(profiles._rules(profiles.Has())) | TELLS_NOTHING
    assert reported == {f.name for f in fields(profiles.Profile)} - {"release"}
    assert TELLS_NOTHING.isdisjoint(profiles._rules(profiles.Has()))


# --- Which releases clues leave, and which of those derive the same files.
NOTHING_ODD = profiles.Has(False, False, False, False, False)


@pytest.mark.parametrize(("clues", "first", "last"), [
    ([], "4.1.0-incubating", "5.5.1"), ([profiles.Clue("a", since="4.7.1")], "4.7.1", "5.5.1"),
    ([profiles.Clue("a", until="4.7.0")], "4.1.0-incubating", "4.7.0"),
    ([profiles.Clue("a", "4.6.0"), profiles.Clue("b", "5.0.0", "5.3.3"),
      profiles.Clue("c", "", "5.4.0")], "5.0.0", "5.3.3"),
    ([profiles.Clue("a", "4.7.0", "4.7.0")], "4.7.0", "4.7.0"),
    ([profiles.Clue("a", "4.10.0")], "5.0.0", "5.5.1"),  # numbers, not texts
])  # fmt: skip
def test_clues_leave_what_all_of_them_allow(clues, first, last) -> None:
    left = profiles.left_by(clues)
    assert (left[0], left[-1]) == (first, last)
    assert left == list(
        profiles.RELEASES[profiles.RELEASES.index(first) : profiles.RELEASES.index(last) + 1]
    )


@pytest.mark.parametrize(("one", "other", "rules"), [
    ("4.7.0", "4.7.1", {"count_every_put"}), ("5.3.4", "5.4.0", {"index_tags"}),
    ("4.7.0", "5.4.0", {"count_every_put", "index_tags"}), ("4.7.1", "5.3.4", set()),
    ("5.4.0", "5.5.1", set()),
])  # fmt: skip
def test_two_rules_matter_to_every_store(one: str, other: str, rules: set[str]) -> None:
    assert profiles.differing([one, other], NOTHING_ODD) == rules
    assert profiles.same_files(one, other, NOTHING_ODD) == (not rules)


@pytest.mark.parametrize(("content", "one", "other"), [
    ("odd_positions", "4.1.0", "4.2.0"), ("odd_positions", "4.5.0", "4.5.1"),
    ("malformed", "4.9.0", "4.9.1"), ("multi_dispatch", "4.9.2", "4.9.3"),
    ("multi_dispatch", "5.1.0", "5.1.1"), ("multi_dispatch", "5.1.1", "5.1.2"),
    ("multi_dispatch", "5.1.4", "5.2.0"), ("index_without_keys", "4.9.8", "5.0.0"),
    ("new_records", "4.2.0", "4.3.0"), ("new_records", "5.0.0", "5.1.0"),
])  # fmt: skip
def test_other_rules_matter_to_a_store_that_has_what_they_are_about(content, one, other) -> None:
    assert profiles.same_files(one, other, NOTHING_ODD)
    assert not profiles.same_files(one, other, NOTHING_ODD._replace(**{content: True}))


def test_groups_are_of_neighbours_spans_have_ends_and_contradicting_clues_leave_none() -> None:
    assert profiles.groups([], NOTHING_ODD) == []
    found = profiles.groups(["4.6.1", "4.7.0", "4.7.1", "4.9.8", "5.3.4", "5.4.0"], NOTHING_ODD)
    assert found == [["4.6.1", "4.7.0"], ["4.7.1", "4.9.8", "5.3.4"], ["5.4.0"]]
    assert profiles.span(["5.3.3"]) == "5.3.3"
    assert profiles.span(["4.9.8", "5.0.0", "5.1.0"]) == "4.9.8 to 5.1.0"
    assert (
        profiles.left_by([profiles.Clue("a", since="5.0.0"), profiles.Clue("b", until="4.9.8")])
        == []
    )


# --- The releases that a store's broker had, one after the other, by clues in its files.
OLD, NEW, TAGS = (profiles.Clue("every put", until="4.7.0"),
                  profiles.Clue("used", since="4.7.1"), profiles.Clue("t", "5.4.0"))  # fmt: skip


def era(start: int, *left: str) -> profiles.Era:
    return profiles.Era(start, left[-1], left)


def test_every_start_begins_a_period_and_an_older_era_gets_the_newest_release_it_allows() -> None:
    index = [profiles.Period(0, (OLD,)), profiles.Period(500, (NEW,))]
    queues = [profiles.Period(100, (TAGS,)), profiles.Period(500, ())]
    assert profiles.merged(index, queues) == [
        profiles.Period(0, (OLD,)), profiles.Period(100, (OLD, TAGS)), profiles.Period(500, (NEW,)),
    ]  # fmt: skip
    assert profiles.merged() == profiles.merged([], []) == []
    since = profiles.Clue("hosts of IPv6", since="4.6.1")
    periods = [profiles.Period(0, (OLD, since)), profiles.Period(900, (NEW,))]
    assert profiles.eras_of(periods, "5.3.3", ["5.3.2", "5.3.3"]) == (
        profiles.Era(0, "4.7.0", ("4.6.1", "4.7.0")),
        profiles.Era(900, "5.3.3", ("5.3.2", "5.3.3")),
    )
    assert profiles.eras_of([profiles.Period(0, (OLD,))], "4.6.0", ["4.6.0"]) == (era(0, "4.6.0"),)
