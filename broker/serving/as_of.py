"""The physical offset at which the log ended at a given time."""

import numpy as np

from reput.store_format.log.reader import LogReader, NoRecord
from reput.store_format.notes import Notes


def end_at(log: LogReader, time: int, notes: Notes) -> int:
    """The physical offset before which all records were stored at `time` (milliseconds) or earlier.

    Reads the first record of each segment, and all records of one segment. So, if the broker's
    clock was set back, records with a storeTimestamp up to `time` may follow that offset.
    """
    end, walked = log.end, log.segments[0]
    for segment in log.segments:
        try:
            first = log.record_at(segment.start)
        except NoRecord:
            continue
        if first.store_timestamp > time:
            end = segment.start
            break
        walked = segment
    try:
        for step in log.steps(walked.start, min(walked.end, end)):
            later = np.flatnonzero(step.rows["storeTimestamp"] > time)
            if len(later):
                return int(step.rows["physicalOffset"][later[0]])
    except NoRecord as error:
        notes.note(f"{error}; what follows may have been stored later, and is not served")
        return error.place
    return end
