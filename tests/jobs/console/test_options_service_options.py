"""A service of the broker that runs once: its options, as its function takes them."""

import argparse
import io
from pathlib import Path

import pytest

from reput.jobs.console.declared import OfService
from reput.jobs.console.options import add_service, asked_of
from reput.store_format.faults import StoreError
from reput.store_format.release.profiles import UnknownRelease
from reput.store_format.release.settings import SettingError


def options(*words: str) -> OfService:
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    add_service(parser)
    return asked_of(parser.parse_args(["store", *words]), OfService)


def test_without_words_it_asks_and_the_store_shows_its_release() -> None:
    given = options()
    assert (given.rocketmq, given.settings, given.dry_run) == (None, {}, False)


def test_set_wins_over_the_broker_s_file(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text("messageDelayLevel=1s 2s\nbrokerName=a\n")
    settings = options(
        "--broker-conf", str(tmp_path / "broker.conf"), "--set", "brokerName=b"
    ).settings  # fmt: skip
    assert settings == {"messageDelayLevel": "1s 2s", "brokerName": "b"}


def test_yes_and_dry_run_are_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    given = options("--yes", "--dry-run")
    assert given.dry_run is True
    given.confirm("deliver")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(StoreError, match="would deliver; nothing was done"):
        options().confirm("deliver")


@pytest.mark.parametrize(
    ("words", "error"),
    [(("--rocketmq", "9.9"), UnknownRelease), (("--set", "no equals sign"), SettingError)],
)
def test_wrong_words_are_told_before_the_store_is_touched(
    words: tuple[str, ...], error: type[Exception]
) -> None:
    with pytest.raises(error):
        options(*words)


@pytest.mark.parametrize("named", ["5.3", "v5.3.3", "4.1.0"])
def test_a_release_is_named_as_people_name_it(named: str) -> None:
    assert options("--rocketmq", named).rocketmq == named
