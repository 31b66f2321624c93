"""When a put counts as replicated (HAService.isSlaveOK, GroupTransferService.doWaitTransfer)."""

import pytest

from reput.broker.wire.peers import is_replicated, is_slave_ok


@pytest.mark.parametrize(
    ("connected", "pushed", "near"),
    [
        (True, 1000, True),
        (True, 901, True),
        (True, 900, False),  # strictly less than the gap
        (True, 2000, True),  # behind the put
        (False, 1000, False),
    ],
)
def test_a_slave_is_near_where_less_than_the_gap_is_missing(
    connected: bool, pushed: int, near: bool
) -> None:
    assert is_slave_ok(1000, connected, pushed, gap=100) == near


@pytest.mark.parametrize("replicas", [1, 0, -1])
def test_for_one_replica_any_slave_that_ever_had_it_is_enough(replicas: int) -> None:
    assert is_replicated(1000, [], 1000, replicas)
    assert not is_replicated(1000, [5000, 5000], 999, replicas)


@pytest.mark.parametrize(
    ("acked", "replicas", "enough"),
    [
        ([], 2, False),
        ([1000], 2, True),
        ([999], 2, False),
        ([999, 1000, 4], 2, True),
        ([1000, 1000], 3, True),
        ([1000, 999], 3, False),
        ([-1, -1, -1], 2, False),  # nothing reported yet
    ],
)
def test_of_more_the_master_counts_as_one(acked: list[int], replicas: int, enough: bool) -> None:
    assert is_replicated(1000, iter(acked), 9999, replicas) == enough
