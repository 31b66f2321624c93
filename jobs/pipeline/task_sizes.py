"""How many pieces of work each task gets: many at first, one at last."""

_PARTS_A_CORE = 2
_PIECES_A_TASK = 64
_TASKS_A_CORE = 64


def guided(pieces: int, cores: int) -> tuple[int, ...]:
    """Where each task's pieces start; they end where the next task's start, the last with `pieces`.

    A task costs Spark as much as some pieces are worth, so there should be few; and all cores
    should be busy to the end, though pieces take different times. So a task gets a share of what is
    left when it begins ("guided self-scheduling"). No task has more than a few minutes' work, which
    would be lost with it, unless there would be too many tasks.
    """
    most = max(_PIECES_A_TASK, -(-pieces // (_TASKS_A_CORE * cores)))
    starts, at = [], 0
    while at < pieces:
        starts.append(at)
        at += min(most, -(-(pieces - at) // (_PARTS_A_CORE * cores)))
    return tuple(starts)
