"""Whether the log is still what it was when the plan was made."""

from reput.jobs.opening.plan import Plan
from reput.store_format.faults import StoreChanged


def check_unchanged(plan: Plan) -> None:
    """Raise StoreChanged where a segment is not what it was when the plan was made.

    Their folders are listed again: on a remote file system one request then tells of many files.
    """
    folders = dict.fromkeys(segment.path.rpartition("/")[0] for segment in plan.segments)
    now = {f"{folder}/{name}": state
           for folder in folders for name, state in plan.storage.list(folder)}  # fmt: skip
    for segment in plan.segments:
        state = now.get(segment.path)
        if state is None or not segment.state.admits(state):
            raise StoreChanged(
                f"{segment.path}: changed during the rebuild: {segment.state} is now {state}"
            )
