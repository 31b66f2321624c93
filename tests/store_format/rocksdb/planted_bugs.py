# ruff: noqa: E501 - a line of source is quoted whole
"""One planted bug for each rule of what is read of RocksDB, built there, and how it is judged."""

from functools import partial

from tests.planting import Bug, only

_LIBRARY, _QUEUES = "store_format/storage/rocksdb.py", "store_format/rocksdb/queues.py"
_JUDGED = "jobs/judging/rocksdb_queues.py"
read = partial(only, "tests/store_format/rocksdb/test_read.py")
_SERVICES, _RANGES = "store_format/rocksdb/services.py", "udfs/rebuild/table_ranges.py"
services = partial(only, "tests/store_format/rocksdb/test_services.py")
moved = partial(only, "tests/jobs/test_in_rocksdb.py")
_BUILT, _SET = "udfs/rebuild/build_tables.py", "jobs/deriving/rocksdb_set.py"
judged = partial(only, "tests/jobs/judging/test_rocksdb_queues.py")
indexed = partial(only, "tests/jobs/judging/test_rocksdb_index.py")
made = partial(only, "tests/jobs/deriving/test_rocksdb_set.py")
referred = partial(only, "tests/jobs/deriving/test_rocksdb_reference.py")
expired = partial(only, "tests/jobs/deriving/test_expired_queues.py")
converted = partial(only, "tests/jobs/in_place/test_convert_config.py")
attacked = partial(only, "tests/attack/test_rocksdb.py")
engines = partial(only, "tests/jobs/deriving/test_rocksdb_engines.py")

BUGS = (
    Bug("a query goes from hour to hour that the index has", "store_format/rocksdb/index.py::RocksDBIndex._hours",
        '_number(key.ljust(8, b"\\0"))', "at", only("tests/store_format/rocksdb/test_index.py", "any_hour")),
    Bug("timers in RocksDB are delivered from the time on that was read", _SERVICES + "::read_timers",
        "max(read, 0).to_bytes(8, \"big\"), _BEHIND_NUMBERS)", "b\"\", _BEHIND_NUMBERS)", services("from_the_time")),
    Bug("of half messages in RocksDB those up to lastOffsetPy had a row", _SERVICES + "::read_half_rows",
        "max(_number(database, HALVES, LAST_OFFSET), *checks, -1)", "max(*checks, -1)", services("by_their_places")),
    Bug("queueOffsets that run over from the last to the first number reach into all ranges", _RANGES + "::_bounds",
        "wraps = (first < 0) & (last >= 0)", "wraps = (first < 0) & (last < 0)", referred("queue_offset")),
    Bug("damage in a write-ahead log is not its end", _LIBRARY + "::open_database",
        "tolerate_corrupted_tail_records()", "point_in_time()", attacked("flipped")),
    Bug("a repaired store has its config in RocksDB too", "jobs/salvaging/repair_log.py::copy_folder",
        "            copy_folder(plan, storage, target, path, summary)\n", "", moved("queues_and_config")),
    Bug("a replica's config is what RocksDB has", "jobs/replicating/config_files.py::copy_config",
        "        if folder is not None:", "        if False:", moved("beside_them")),
    Bug("a damaged block in RocksDB is told", _LIBRARY + "::Database.rows",
        "                rows.next()\n            rows.status()", "                rows.next()", read("flipped")),
    Bug("links in place of RocksDB's tables are not followed", _LIBRARY + "::_files",
        "if state is not None]", "]", read("link")),
    Bug("the library never sees a database's own folder", _LIBRARY + "::open_database",
        '                    ours,\n                    options,', '                    folder,\n                    options,', read("found_by_position")),
    Bug("entries of a queue in RocksDB end at its max row", _QUEUES + "::RocksDBQueue.rows",
        "stop = self._last + 1 if stop is None else min(stop, self._last + 1)",
        "stop = self._last + 9 if stop is None else min(stop, self._last + 9)", judged("does_not_read")),
    Bug("a lost message is a hole in RocksDB, and no missing row", _JUDGED + "::_Comparison._fillers",
        "found[some] = positions[some] != record.queue_offset", "pass", engines("local and salvage")),
    Bug("an index whose only table is lost is no empty one", "jobs/judging/rocksdb_index.py::compare_index",
        "    if not has_database(there, folder):", "    if not has_rows(there, folder):", attacked("only_table")),
    Bug("no room for temporary files is no damaged database", _LIBRARY + "::_error",
        "    refuse_full_disk(error, ours)\n", "", attacked("no_room")),
    Bug("of a config that cannot be read a copy is put back, not a rebuild's", _LIBRARY + "::_remedy",
        "if above == CONFIG:", "if not above:", attacked("what_to_do")),
    Bug("what is dispatched again is no difference", _JUDGED + "::_Comparison._missing",
        'again = int(wanted[first]["physicalOffset"]) >= self.again_from', "again = False", judged("only_behind")),
    Bug("times of entries in RocksDB are compared", _JUDGED + "::_Comparison.compare",
        "        self._compare_times()\n        self._minima()", "        self._minima()", judged("storeTimestamp")),
    Bug("a min row of before the log's start counts for nothing", _JUDGED + "::_Comparison._minima",
        "if place < self.log_start or", "if", judged("does_not_read")),
    Bug("of two records with one queueOffset RocksDB has the later one", _BUILT + "::_Entries.in_order",
        "        return self.some(order[last])", "        return self.some(order[np.append(True, last[:-1])])",
        referred("queue_offset")),
    Bug("a queue's max row is of the entry that the log has last", _SET + "::queues_database",
        "max(lasts.get(queue, last), last)", "min(lasts.get(queue, last), last)", referred("rows_place")),
    Bug("the dispatch checkpoint is behind the last record", _SET + "::queues_database",
        'end = max(end, row["end"])', 'end = max(end, row["place"])', made("brokers_own")),
    Bug("a range without an entry has no table", _BUILT + "::BuildTables._built",
        "        if not kept.any():\n            return\n", "",
        referred("queue_offset")),
    Bug("an entry that begins a range is in that range alone", _BUILT + "::BuildTables._built",
        "kept &= (entries.queue > 0) | (entries.keys >= np.uint64(start.position))", "pass",
        referred("queue_offset")),
    Bug("a key of an index in RocksDB is there once", "udfs/table/index_rows.py::merged_rows",
        "    if len(rows) > 1:", "    if len(rows) < 0:", referred("queue_offset")),
    Bug("a queue without a live message ends where it ended", "jobs/deriving/expired_queues.py::expired_queues",
        "if last.place < log_start}", "if last.place < 0}", expired("ends_where")),
    Bug("a database that somebody has open is not replaced", "jobs/in_place/install_target.py::locked",
        "    _refuse_open_databases(target.path)\n", "", attacked("left_alone")),
    Bug("timers in the RocksDB of an index are not lost", "jobs/in_place/convert_config.py::refuse_further_rows",
        "if family != FAMILY and any", "if family == '' and any", indexed("timers")),
    Bug("an undo puts config back too", "broker/change/install.py::undo",
        '        other = note.get(_APART, ())\n        root', '        other = ()\n        root', converted("very_databases")),
)  # fmt: skip
