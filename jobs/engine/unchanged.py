"""Whether the log is still what it was when the plan was made."""

from reput.jobs.engine.plan import Plan
from reput.store_format.faults import StoreChanged


def check_unchanged(plan: Plan) -> None:
    """Raise StoreChanged where a segment is not what it was when the plan was made.

    By listing its folder again: one request for many, where a file system is asked by requests.
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
