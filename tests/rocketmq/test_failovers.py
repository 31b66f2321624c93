"""A replica of a master under a real controller that is killed, so that another takes its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from reput.jobs.replicate import replicate_from
from reput.jobs.replicating.target import ReplicaDiffers, Replicated
from tests.rocketmq.live import Broker, messages
from tests.rocketmq.replicas import consumed, log_of, until
from tests.rocketmq.two_brokers import VERSION, ends, is_master, killed_behind, large, two_brokers

pytestmark = [pytest.mark.rocketmq, pytest.mark.long, pytest.mark.timeout(900)]


def copied(broker: Broker, replica: Path) -> Replicated:
    return replicate_from(f"127.0.0.1:{broker.port + 1}", str(replica), controller=True)


@pytest.mark.parametrize("lost", [False, True])
def test_the_replica_goes_on_with_the_log_that_survived_or_says_why_not(lost, tmp_path) -> None:
    """lost: the master had records that its slave had not yet, and that the replica has."""
    replica = tmp_path / "replica"
    with two_brokers(tmp_path) as (master, slave, client, store):
        client.send(messages(3000))
        assert copied(master, replica).records == 3000
        assert until(lambda: ends(slave) == ends(master))
        if lost:

            def copy_them() -> None:
                assert copied(master, replica).records == 300

            killed_behind(master, slave, client, large(300, 3000), copy_them)
        master.driver.kill()
        assert until(lambda: is_master(slave), 120)
        if lost:
            with pytest.raises(ReplicaDiffers, match="the master's log ends at"):
                copied(slave, replica)
        client.send(messages(1500, first=5000))
        if lost:
            client.send(large(300, 7000))
            with pytest.raises(ReplicaDiffers, match="is not a beginning of that log"):
                copied(slave, replica)
            replica = tmp_path / "another"
        copied(slave, replica)
        found = sorted(map(str, client.read()))
        slave.stop()
    assert log_of(replica) == log_of(store)
    assert consumed(VERSION, replica) == found
