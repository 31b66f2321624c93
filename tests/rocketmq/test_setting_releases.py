"""The table of settings has the names, types and defaults of RocketMQ's own classes."""

from __future__ import annotations

import pytest

from tests.rocketmq.setting_releases import FOLDER, read_all

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]


def test_the_settings_of_34_releases() -> None:
    """tests/store_format/release/test_settings_and_setting_table.py holds the table against this file."""
    assert (FOLDER / "releases.tsv").read_text() == read_all()
