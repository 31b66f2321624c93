"""Few tasks for many pieces, and small ones at last."""

from itertools import pairwise

import pytest

from reput.jobs.pipeline.pipeline import Cut, guided
from tests.in_process import Made, Session, rebuild_log
from tests.logs import Log
from tests.logs.encoder import Message, build_log


def sizes(pieces: int, cores: int) -> list[int]:
    starts = guided(pieces, cores)
    assert starts[:1] == (0,)[: min(pieces, 1)]
    return [end - start for start, end in pairwise((*starts, pieces))]


def test_a_task_gets_a_share_of_what_is_left() -> None:
    assert sizes(60, 2) == [15, 12, 9, 6, 5, 4, 3, 2, 1, 1, 1, 1]
    assert sizes(8, 2) == [2, 2, 1, 1, 1, 1]
    assert sizes(1, 2) == [1]
    assert guided(0, 2) == ()


@pytest.mark.parametrize("cores", [1, 2, 16, 1000])
@pytest.mark.parametrize("pieces", [1, 7, 1000, 100_000])
def test_no_core_waits_long_for_another(pieces: int, cores: int) -> None:
    made = sizes(pieces, cores)
    assert sum(made) == pieces
    assert made == sorted(made, reverse=True)
    assert set(made[-cores:]) == {1}


def test_no_task_is_very_long_unless_there_would_be_very_many() -> None:
    assert max(sizes(4000, 2)) == 64
    assert len(sizes(100_000, 2)) < 200
    assert len(sizes(400_000, 1024)) < 16_000


@pytest.mark.parametrize(("most_cores", "tasks"), [(2, 12), (128, 60)])
def test_a_cluster_may_have_more_cores_than_it_tells(most_cores: int, tasks: int) -> None:
    """As on Spark Connect, where nothing tells: few tasks would leave most of them idle."""
    asked: list[int] = []

    class Noting(Session):
        def numbers(self, numbers: range, parts: int | None = None) -> Made:
            asked.append(len(numbers))
            return super().numbers(numbers, parts)

    session = Noting(cores=2)
    session.most_cores = most_cores
    log = Log(build_log([Message()], 60_000), {"mappedFileSizeCommitLog": 60_000}, "5.3.3", {})
    rebuild_log(log, Cut(split_bytes=1000), session)
    assert asked[0] == tasks
