# ruff: noqa: E501 - a line of source is quoted whole
"""One planted bug for each rule of what is read of RocksDB, and of how queues there are judged."""

from functools import partial

from tests.planting import Bug, only

_LIBRARY, _QUEUES = "store_format/storage/rocksdb.py", "store_format/rocksdb/queues.py"
_JUDGED = "jobs/judging/rocksdb_queues.py"
read = partial(only, "tests/store_format/rocksdb/test_read.py")
judged = partial(only, "tests/jobs/judging/test_rocksdb_queues.py")

BUGS = (
    Bug("a damaged block in RocksDB is told", _LIBRARY,
        "                rows.next()\n            rows.status()", "                rows.next()", read("flipped")),
    Bug("links in place of RocksDB's tables are not followed", _LIBRARY,
        "if state is not None]", "]", read("link")),
    Bug("the library never sees a database's own folder", _LIBRARY,
        '                    ours,\n                    options,', '                    folder,\n                    options,', read("found_by_position")),
    Bug("entries of a queue in RocksDB end at its max row", _QUEUES,
        "stop = self._last + 1 if stop is None else min(stop, self._last + 1)",
        "stop = self._last + 9 if stop is None else min(stop, self._last + 9)", judged("does_not_read")),
    Bug("what is dispatched again is no difference", _JUDGED,
        'again = int(wanted[first]["physicalOffset"]) >= self.again_from', "again = False", judged("only_behind")),
    Bug("times of entries in RocksDB are compared", _JUDGED,
        "        self._compare_times()\n        self._minima()", "        self._minima()", judged("storeTimestamp")),
    Bug("a min row of before the log's start counts for nothing", _JUDGED,
        "if place < self.log_start or", "if", judged("does_not_read")),
)  # fmt: skip
