"""Checks that the log has not changed since the plan was made."""

from reput.jobs.opening.plan import Plan
from reput.store_format.faults import StoreChanged


def check_unchanged(plan: Plan) -> None:
    """Raise StoreChanged if a segment has changed since the plan was made.

    The folders are listed again, as one such request on a remote storage covers many files.
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
