"""`--in-flight`: messages that consumers of the dead broker had popped and not acknowledged are
given again, as the broker would do when it starts (PopReviveService).
"""

from collections.abc import Callable
from itertools import groupby

from reput.broker.serving.broker import Broker
from reput.broker.serving.popped import CheckPoint, TooManyInFlight
from reput.jobs.outputs.report import counted
from reput.store_format.notes import Notes
from reput.store_format.query.pop_leftovers import InFlightRow, in_flight


def take_in_flight(broker: Broker, tell: Callable[[str], None]) -> None:
    """Put these messages in flight until their invisible time is over, mostly in the past."""
    rows = in_flight(broker.store.opened, False, Notes(tell))
    given = [row for row in rows if row.topic in broker.store.topics and _is_behind(broker, row)]
    taken = 0
    for (group, topic, queue_id, since, until), some in groupby(given, _pop):
        positions = [row.offset for row in some]
        try:
            broker.in_flight.add(group, topic, CheckPoint(queue_id, positions, since, until))
        except TooManyInFlight:
            continue
        taken += len(positions)
    tell(f"given again: {counted(taken, 'message')} in flight when the broker ended")
    if taken < len(given):
        tell(f"not given again: {counted(len(given) - taken, 'message')} more than can be kept")


def _is_behind(broker: Broker, row: InFlightRow) -> bool:
    """Whether a message is before its group's offset, so that no other pop would give it again."""
    return row.offset < broker.offsets.query(row.group, row.topic, row.queue_id)


def _pop(row: InFlightRow) -> tuple[str, str, int, int, int]:
    return row.group, row.topic, row.queue_id, row.since, row.until
