"""The number of pieces of work in each task: many at first, one at last."""

_PARTS_A_CORE = 2
_PIECES_A_TASK = 64
_TASKS_A_CORE = 64


def guided(pieces: int, cores: int) -> tuple[int, ...]:
    """The first piece of each task; it has the pieces up to the next task's first, or to the end.

    A task costs Spark as much time as some pieces do, so there should be few tasks. Yet all cores
    should be busy to the end, though pieces take different times. So a task gets a share of the
    pieces left when it begins ("guided self-scheduling"). No task has more than a few minutes'
    work, which would be lost if it failed, unless there would be too many tasks.
    """
    most = max(_PIECES_A_TASK, -(-pieces // (_TASKS_A_CORE * cores)))
    starts, at = [], 0
    while at < pieces:
        starts.append(at)
        at += min(most, -(-(pieces - at) // (_PARTS_A_CORE * cores)))
    return tuple(starts)
