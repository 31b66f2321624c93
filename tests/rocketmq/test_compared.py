"""A real master and slave that a kill made diverge: what `compare` says of them is what
their clients were acknowledged, and what clients read from either."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reput import compare, convert, replicate_from
from reput.jobs.comparing.report import PARTED, CompareReport
from reput.jobs.engines.local import local_engine
from reput.jobs.replicating.target import ReplicaDiffers, Replicated
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.log.groups import read_epochs
from tests.in_process import as_text
from tests.processes import until
from tests.rocketmq import two_brokers as pairs
from tests.rocketmq.driver import JobFailedError
from tests.rocketmq.live import SETTINGS, TOPICS, Broker, Client, living, messages
from tests.rocketmq.two_brokers import VERSION, two_brokers

pytestmark = [pytest.mark.rocketmq, pytest.mark.long, pytest.mark.timeout(900)]
ID = 3  # of what `send` and `read` answer: the UNIQ_KEY


def patiently(ask: Callable[[], list[list[Any]]]) -> list[str]:
    """The UNIQ_KEYs of what a client sends or reads. On a busy machine a new name server may answer
    too late when it is first asked for a route: then nothing was done, and it is done again."""
    for left in reversed(range(5)):
        try:
            return [each[ID] for each in ask()]
        except JobFailedError as error:
            if not left or "updateTopicRouteInfo" not in str(error):
                raise
    raise AssertionError


def acknowledged(client: Client, some: list[dict[str, Any]]) -> set[str]:
    return set(patiently(lambda: client.send(some)))


def found_by(master: Path, slave: Path) -> tuple[CompareReport, list[dict[str, Any]]]:
    lines = io.BytesIO()
    with local_engine(2) as engine:
        report = compare(engine, str(master), [str(slave)], settings=as_text(SETTINGS),
                         messages=lines)  # fmt: skip
    return report, [json.loads(line) for line in lines.getvalue().splitlines()]


def ids_only_of(store: Path, lines: list[dict[str, Any]]) -> set[str]:
    return {line["uniqueKey"] for line in lines if line["store"] == str(store)}


def read_ids(store: Path) -> set[str]:
    """The UNIQ_KEYs of what a client reads from a broker that starts on the store, none twice."""
    with living(VERSION, store) as (_, client):
        found = patiently(lambda: client.read(TOPICS))
    assert len(found) == len(set(found))
    return set(found)


def merged(master: Path, slave: Path) -> Path:
    made = master.parent / "merged"
    with local_engine(2) as engine:
        summary = convert(engine, str(master), str(made), merge=[str(slave)], meet="renumber",
                          rocketmq=VERSION, settings=as_text(SETTINGS))  # fmt: skip
    assert summary.shared[1] >= 3000
    return made


# --- A replica of a master under a real controller that is killed, so that another takes its place.
def copied(broker: Broker, replica: Path) -> Replicated:
    return replicate_from(f"127.0.0.1:{broker.port + 1}", str(replica), controller=True)


@pytest.mark.parametrize("lost", [False, True])
def test_the_replica_goes_on_with_the_log_that_survived_or_says_why_not(lost, tmp_path) -> None:
    """lost: the master had records that its slave had not yet, and that the replica has."""
    replica = tmp_path / "replica"
    with two_brokers(tmp_path) as (master, slave, client, store):
        both = acknowledged(client, messages(3000))
        assert copied(master, replica).records == 3000
        assert until(lambda: pairs.ends(slave) == pairs.ends(master))
        if lost:

            def copy_them() -> None:
                assert copied(master, replica).records == 300

            late = pairs.killed_behind(master, slave, client, pairs.large(300, 3000), copy_them)
        master.driver.kill()
        assert until(lambda: pairs.is_master(slave), 120)
        if lost:
            with pytest.raises(ReplicaDiffers, match="the master's log ends at"):
                copied(slave, replica)
        after = acknowledged(client, messages(1500, first=5000))
        if lost:
            after |= acknowledged(client, pairs.large(300, 7000))
            with pytest.raises(ReplicaDiffers, match="is not a beginning of that log"):
                copied(slave, replica)
            replica = tmp_path / "another"
        copied(slave, replica)
        found = sorted(map(str, client.read()))
        slave.stop()
    assert pairs.log_of(replica) == pairs.log_of(store)
    assert pairs.consumed(VERSION, replica) == found
    if lost:
        (killed,) = {tmp_path / "0", tmp_path / "1"} - {store}
        _part_where_the_epochs_say(killed, store, both, {each[ID] for each in late}, after)


def _part_where_the_epochs_say(
    master: Path, slave: Path, both: set[str], late: set[str], after: set[str]
) -> None:
    """Of the two logs, by what their clients were acknowledged."""
    report, lines = found_by(master, slave)
    (pair,) = report.pairs
    assert pair.verdict == PARTED
    behind = ids_only_of(master, lines)
    assert behind
    assert behind <= late
    assert ids_only_of(slave, lines) == after
    assert not behind & both
    assert all(read_epochs(Folder(LocalStorage(), str(store))) for store in (master, slave))
    assert pair.epochs.differ
    assert pair.epochs.point == pair.at
    assert read_ids(merged(master, slave)) == both | behind | after
