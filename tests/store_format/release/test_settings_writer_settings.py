"""The writer's settings: which the user gave, its own address, and where it writes."""

from pathlib import Path

import pytest

from reput.store_format.release.settings import (
    SettingError,
    WriterSettings,
    refuse_other_folders,
    writer_settings_from,
)


def test_given_names_are_rocketmqs_newest_whatever_the_value() -> None:
    layers = {"mapedFileSizeCommitLog": "1073741824"}, {"brokerName": "a", "listenPort": "10911"}
    wanted = {"mappedFileSizeCommitLog", "brokerName", "listenPort"}
    assert writer_settings_from(*layers).given_names == wanted
    assert writer_settings_from().given_names == frozenset()


def test_without_a_users_word_what_differs_from_its_default_was_given() -> None:
    assert WriterSettings().given_names == frozenset()
    assert WriterSettings(listen_port=1, max_index_num=20_000_000).given_names == {"listenPort"}


@pytest.mark.parametrize(
    ("address", "port", "host"),
    [
        ("192.0.2.7", "1", "192.0.2.7:1"),
        ("2001:DB8:0:0:0:0:0:1", "65535", "[2001:db8::1]:65535"),
        ("2001:db8::192.0.2.7", "10911", "[2001:db8::c000:207]:10911"),
    ],
)
def test_the_store_host_is_an_address_and_a_port(address: str, port: str, host: str) -> None:
    given = {"brokerIP1": address, "listenPort": port}
    assert writer_settings_from(given).store_host == host
    assert WriterSettings().store_host == "127.0.0.1:10911"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("brokerIP1", "localhost"),
        ("brokerIP1", "192.0.2"),
        ("brokerIP1", "192.0.2.256"),
        ("brokerIP1", "[::1]"),
        ("listenPort", "65536"),
    ],
)
def test_what_is_no_address_is_refused_when_it_is_asked_for(name: str, value: str) -> None:
    settings = writer_settings_from({name: value})
    with pytest.raises(SettingError, match=f"{name}="):
        _ = settings.store_host


@pytest.mark.parametrize("name", ["listenPort", "transientStorePoolSize", "maxTopicLength"])
def test_a_count_of_none_is_refused(name: str) -> None:
    with pytest.raises(SettingError, match=f"{name}=0: out of range 1"):
        writer_settings_from({name: "0"})


def test_only_sync_flush_is_sync_flush() -> None:
    assert not WriterSettings().sync_flush
    assert writer_settings_from({"flushDiskType": "SYNC_FLUSH"}).sync_flush


def test_the_log_is_in_the_store_by_whatever_path(tmp_path: Path) -> None:
    store, link = tmp_path / "store", tmp_path / "link"
    (store / "commitlog").mkdir(parents=True)
    link.symlink_to(store / "commitlog")
    for own in (link, store / "x" / ".." / "commitlog"):
        refuse_other_folders(writer_settings_from({"storePathCommitLog": str(own)}), str(store))
    refuse_other_folders(WriterSettings(), str(store))
    for several in (store, store / "commitlog" / "x", f"{link},{link}"):
        given = {"storePathCommitLog": str(several)}
        with pytest.raises(SettingError, match="storePathCommitLog="):
            refuse_other_folders(writer_settings_from(given), str(store))
