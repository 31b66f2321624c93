"""Where the log ended at a time: later records are after that physical offset."""

import numpy as np

from reput.store_format.log.reader import LogReader, NoRecord
from reput.store_format.notes import Notes


def end_at(log: LogReader, time: int, notes: Notes) -> int:
    """The physical offset before which all records were stored at `time` (milliseconds) or earlier.

    Reads the first record of each segment, and goes through one segment. So, where a broker's clock
    was set back, some records that were stored before `time` may be after that offset.
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
