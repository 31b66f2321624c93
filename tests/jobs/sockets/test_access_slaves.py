"""`reput serve --ha-listen`: the log goes to slaves, all of it, while clients are served."""

from __future__ import annotations

import argparse
import socket
import struct
from pathlib import Path

import pytest

from reput.jobs.sockets.access import add_slave_arguments, serve_slaves
from reput.store_format.faults import StoreError
from reput.store_format.release.settings import SettingError
from tests.broker.serving.served import message, served
from tests.broker.writer.stores import TINY
from tests.jobs.sockets.asked import Asked

HERE = ("127.0.0.1", 0)
SETTINGS = {name: str(value) for name, value in TINY.items()}


def words(store: Path, at: int | None = None, follow: bool = False) -> argparse.Namespace:
    return argparse.Namespace(store=f"{store}/", rocketmq="5.3.3", at=at, follow=follow)


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return served(tmp_path / "store", [message(0)])


def test_its_option_is_an_address_and_nobody_is_served_without_it() -> None:
    parser = argparse.ArgumentParser()
    add_slave_arguments(parser)
    assert parser.parse_args([]).ha_listen is None
    assert parser.parse_args(["--ha-listen", "0.0.0.0:10912"]).ha_listen == "0.0.0.0:10912"


def test_slaves_get_the_log_from_where_they_are(tmp_path: Path, asked: Asked) -> None:
    said: list[str] = []
    stop = serve_slaves(words(tmp_path / "store"), HERE, SETTINGS, asked.broker, said.append)
    address = asked.broker.slaves_at
    assert address is not None
    assert said[0] == f"slaves get the log at 127.0.0.1:{address[1]}"
    raw = (tmp_path / f"store/commitlog/{0:020d}").read_bytes()
    size = struct.unpack_from(">i", raw)[0]
    with socket.create_connection(address, 5.0) as peer:
        peer.sendall(struct.pack(">q", 0))
        file = peer.makefile("rb")
        assert struct.unpack(">qi", file.read(12)) == (0, size)
        assert file.read(size) == raw[:size]
        stop()
    with pytest.raises(OSError, match=r"refused|reset"):
        socket.create_connection(address, 5.0)


def test_a_store_as_it_once_was_has_no_slaves(tmp_path: Path, asked: Asked) -> None:
    with pytest.raises(SettingError, match="sends all of the log: not with --at"):
        serve_slaves(words(tmp_path / "store", at=0), HERE, SETTINGS, asked.broker, print)
    assert asked.broker.slaves_at is None


def test_a_store_without_a_log_has_none_either(tmp_path: Path, asked: Asked) -> None:
    with pytest.raises(StoreError):
        serve_slaves(words(tmp_path / "none"), HERE, SETTINGS, asked.broker, print)
    assert asked.broker.slaves_at is None
