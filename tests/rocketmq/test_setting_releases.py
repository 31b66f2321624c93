"""The table of settings has the names and defaults of RocketMQ's own classes."""

import pytest

from reput.store_format.release.profiles import RELEASES, release_key
from tests.rocketmq.setting_releases import FOLDER, read_all, table

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]
SOME = (RELEASES[0], "4.9.7", "5.3.3", RELEASES[-1])  # what is released changes no more


def test_the_settings_of_some_releases() -> None:
    """release/test_settings_and_setting_table.py holds the table against this file."""
    whole = [line.split("\t") for line in (FOLDER / "releases.tsv").read_text().splitlines()[1:]]
    for release, rows in read_all(SOME).items():
        at = release_key(release)
        listed = set()
        for name, owner, _, since, until, defaults in whole:
            if release_key(since) <= at <= release_key(until):
                known = [each.partition(": ")[::2] for each in defaults.split(" | ")]
                default = [value for begun, value in known if release_key(begun) <= at][-1]
                listed.add((name, owner, default))
        lines = [line.split("\t") for line in table({release: rows}).splitlines()[1:]]
        assert {(*each[:2], each[5].partition(": ")[2]) for each in lines} == listed
