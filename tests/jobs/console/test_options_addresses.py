"""`HOST:PORT` in an option."""

import pytest

from reput.jobs.console.options import host_port
from reput.store_format.release.setting_table import SettingError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("broker:10911", ("broker", 10911)),
        ("10.0.0.1:0", ("10.0.0.1", 0)),
        ("[::1]:65535", ("::1", 65535)),
        ("::1:80", ("::1", 80)),
    ],
)
def test_the_port_stands_behind_the_last_colon(text: str, address: tuple[str, int]) -> None:
    assert host_port("--bind", text) == address


@pytest.mark.parametrize(
    "text", ["", "broker", ":80", "broker:", "broker:65536", "broker:-1", "broker:٣", "broker: 80"]
)
def test_other_words_are_no_address(text: str) -> None:
    with pytest.raises(SettingError, match=r"--bind .* is not an address: HOST:PORT"):
        host_port("--bind", text)


def test_a_port_of_0_is_refused_where_one_must_be_known() -> None:
    with pytest.raises(SettingError):
        host_port("--master", "broker:0", least=1)
    assert host_port("--master", "broker:1", least=1) == ("broker", 1)
