"""The table of settings has the names, types and defaults of RocketMQ's own classes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.rocketmq.setting_releases import FOLDER, read_all

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]


def test_the_settings_of_34_releases(needs_rocketmq: Callable[[str], None]) -> None:
    """tests/store_format/release/test_settings.py holds the table against this file."""
    needs_rocketmq("5.3.3")
    assert (FOLDER / "releases.tsv").read_text() == read_all()
