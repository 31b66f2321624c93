"""A queue's runs by vote: cut where an entry is outvoted, however a log was cut into splits."""

from collections.abc import Sequence
from typing import Any

import pytest

from reput.store_format.damage import queue_ends
from reput.store_format.damage.votes import runs_by_vote
from tests.store_format.damage.staged import lost, staged

Pairs = list[tuple[int, int]]
NOTHING = lost()


def queue(*offsets: int) -> Pairs:
    """(queueOffset, place) of each record."""
    return [(offset, 100 * n) for n, offset in enumerate(offsets)]


def voted(
    *runs: Sequence[tuple[int, int]], log: queue_ends.LossReader = NOTHING,
    damage: queue_ends.QueueDamage = queue_ends.NO_QUEUE_DAMAGE, topic: str = "T", batch: int = 0,
) -> tuple[list[int | None], list[dict[str, Any]]]:  # fmt: skip
    """(the queueOffset that counts of each entry, None where it is left out; the rows)."""
    files, rows = staged(*runs, damage=damage, topic=topic, batch=batch)
    made = list(runs_by_vote(files, iter(rows), log))
    count: list[int | None] = []
    places = []
    for row in made:
        offsets = files.offsets(row).tolist() or list(
            range(row["first"], row["first"] + row["count"])
        )
        count += [None] * row["count"] if row["is_left_out"] else offsets
        places += queue_ends.all_entries(files, row)["physicalOffset"].tolist()
    assert places == [place for run in runs for _, place in run]
    return count, made


SOUND = list(range(100))


def with_wrong(wrong: dict[int, int], sound: Sequence[int] = SOUND) -> Pairs:
    return queue(*(wrong.get(n, offset) for n, offset in enumerate(sound)))


@pytest.mark.parametrize("cut", [None, 1, 49, 50, 51, 52, 99])
@pytest.mark.parametrize(("wrong", "count"), [
    ({}, SOUND), ({50: 50 ^ 1 << 40}, SOUND), ({50: 3}, SOUND),
    ({50: 1 << 40, 51: (1 << 40) + 1}, SOUND),  # two that go on by one
    ({0: 1 << 40}, SOUND),
    ({99: 99 ^ 1 << 40}, [*SOUND[:99], 99 ^ 1 << 40])  # at the end it has one witness
    ])  # fmt: skip
def test_neighbours_outvote_an_entry_in_one_run_or_in_two(wrong, count, cut: int | None) -> None:
    entries = with_wrong(wrong)
    runs = [entries] if cut is None else [entries[:cut], entries[cut:]]
    assert voted(*runs)[0] == count


def test_an_outvoted_piece_is_a_run_of_its_own_where_queues_go_on() -> None:
    _, (first, second) = voted(queue(*SOUND)[:60], queue(*SOUND)[60:])
    assert (first["count"], second["count"]) == (60, 40)
    assert not any(row["is_outvoted"] or row["decided"] for row in (first, second))
    _, made = voted(with_wrong({50: 1 << 40}))
    assert [row["count"] for row in made] == [50, 1, 49]
    assert [row["is_outvoted"] for row in made] == [False, True, False]
    assert (made[1]["decided"], made[1]["decided_from"], made[1]["first"]) == (1, 50, 1 << 40)
    assert (made[2]["first"], made[2]["greatest"]) == (51, 99)
    assert voted(queue(*SOUND[:50], 30, *SOUND[50:]))[0] == [*SOUND[:50], None, *SOUND[50:]]
    # Two records have queueOffset 50; a search of the whole log found one to be a stray.
    twice = queue(*SOUND[:51], *SOUND[50:])
    stray = queue_ends.QueueDamage(strays=frozenset({5100}), twins=frozenset({5100}))
    assert voted(twice, damage=stray)[0] == [*SOUND[:51], None, *SOUND[51:]]
    first = queue_ends.QueueDamage(strays=frozenset({5000}), twins=frozenset({5000}))
    assert voted(twice, damage=first)[0] == [*SOUND[:50], None, *SOUND[50:]]
    for topic, batch in [("%LMQ%a", 0), ("T", 1)]:
        _, made = voted(with_wrong({50: 1 << 40}), topic=topic, batch=batch)
        assert [(row["count"], row["is_outvoted"]) for row in made] == [(100, False)]
    # A test or a producer made its queueOffsets up: every third is wrong, or only one.
    for times in [1, 3]:
        wrong = {n: 7000 + 1000 * n for n in range(4, 96, 3)} if times > 1 else {50: 7000}
        count = [wrong.get(n, n) for n in SOUND] if times > 1 else SOUND
        assert voted(with_wrong(wrong))[0] == count
    for offsets, log, alone in [([7], NOTHING, [False]), ([0], NOTHING, [True]),
        ([7], lost((0, 1), from_start=False), [True]),  # the others were before the log
        ([7], lost((0, 7 * 91)), [True]), ([7], lost((0, 7 * 91 - 1)), [False]),
        ([7], lost((1000, 7 * 91)), [False]),  # not before it
        ([0, 1], NOTHING, []),
        ([7, 8], NOTHING, [False]),  # as many as one damage may change
        ([7, 8, 9], NOTHING, [])]:  # fmt: skip
        _, made = voted([(offset, 1000 + n) for n, offset in enumerate(offsets)], log=log)
        assert [row["may_be_own"] for row in made if row["is_alone"]] == alone
