"""A store without queues, and one with damage in its log: queues are derived first."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from reput.broker.wire.codes import RequestCode
from reput.jobs.sockets.opened import has_queues
from tests import golden_stores
from tests.jobs.sockets.asking import Peer, pull, request
from tests.jobs.sockets.serving import REPUT, Serving
from tests.processes import runs, until

pytestmark = pytest.mark.long
DAMAGED = "middle_crc_5.3.3"


def messages(address: str) -> int:
    """How many messages a client finds in all queues."""
    found = 0
    with Peer(address) as peer:
        topics = peer.ask(request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
        assert b"Topic0" in (topics.body or b"")
        for topic in range(8):
            for queue in range(8):
                at = {"topic": f"Topic{topic}", "queueId": queue}
                end = peer.ask(request(RequestCode.GET_MAX_OFFSET, **at)).fields["offset"]
                found += int(end) - int(
                    peer.ask(request(RequestCode.GET_MIN_OFFSET, **at)).fields["offset"]
                )
        assert peer.ask(pull("Topic0", 0, 0)).code in (0, 21)
    return found


def test_a_store_without_queues_is_served_and_its_set_goes_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    golden = golden_stores.unpack("mixed_5.3.3")
    assert not has_queues(str(golden.input))
    sizes = [f"--set={name}={value}" for name, value in golden.settings.items()]
    with Serving(golden.input, "--rocketmq", "5.3.3", *sizes, seconds=120) as serving:
        assert messages(serving.address) > 1000
        (made,) = tmp_path.glob("reput-serve-*")
        code, said = serving.end(signal.SIGTERM)
    assert (code, "derived from the log" in said) == (0, True)
    assert not made.exists()


@contextmanager
def deriving() -> Iterator[subprocess.Popen[str]]:
    """A server that derives a store's queues; it is killed at the end."""
    words = ["serve", str(golden_stores.unpack("mixed_5.3.3").input), "--rocketmq", "5.3.3"]
    with subprocess.Popen([*REPUT, *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert any("derived from the log" in line for line in process.stderr)
            yield process
        finally:
            process.kill()


def test_a_signal_while_queues_are_derived_ends_it_with_0(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with deriving() as process:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert not list(tmp_path.glob("reput-serve-*"))


def test_a_killed_server_leaves_nothing_that_runs(tmp_path, monkeypatch) -> None:
    """Nor does its rebuild come to its end by itself: no set is there then."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with deriving() as process:
        # the rebuild and a worker of its own: it derives
        assert until(lambda: len(descendants(process.pid)) > 1)
        there = descendants(process.pid)
    assert until(lambda: not any(map(runs, there)))
    assert list(tmp_path.glob("reput-serve-*"))
    assert not list(tmp_path.glob("reput-serve-*/set"))


def descendants(pid: int) -> list[int]:
    """The processes that one has started, and those that these have."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found[1:]


def test_damage_is_named_and_salvage_serves_past_it() -> None:
    store = golden_stores.unpack(DAMAGED).input
    with pytest.raises(AssertionError, match="--salvage serves past damage"):
        Serving(store, "--rocketmq", "5.3.3", seconds=120)
    with Serving(store, "--rocketmq", "5.3.3", "--salvage", seconds=120) as serving:
        assert messages(serving.address) > 500
        assert serving.end()[0] == 0
