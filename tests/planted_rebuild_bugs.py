# ruff: noqa: E501 - a line of source is quoted whole
"""One planted bug for each promise of a rebuild besides its bytes: cuts, refusals, bounds, traces.

`python -m tests.planted_rebuild_bugs [PART OF A NAME]`. The rules of the bytes are in mutants.
"""

import sys

from tests.planting import Bug, plant_all

_PIPELINE = "jobs/pipeline.py"
_PUBLISH = "jobs/publish.py"
_REBUILD = "jobs/rebuild.py"
_SEGMENTS = "store_format/segments.py"
_KINDS = "tests/test_kinds_of_log.py"
_WRONG = "tests/test_wrong_input.py"
_BOUNDS = "tests/test_bounds.py"


def only(module: str, words: str) -> tuple[str, ...]:
    return (module, "-k", words)


_PUBLISHING = "store_format/publishing.py"
_CRASHES = "tests/test_publish_crashes.py"
_LEFTOVERS = "tests/test_leftovers.py"
_INSTALL = "tests/test_install.py"
_RECOVER = "tests/test_recover.py"
_LIVE = "tests/test_live_store.py"
_SHORT = "tests/test_short_writes.py"
_WRITERS = "tests/test_local_writers.py"

BUGS = (
    # Crashes
    Bug("a set is durable before it has its name", _PUBLISHING, "    files.sync_all(folder)\n", "",
        (_CRASHES,)),
    Bug("a set takes its place in one step", _PUBLISHING, "        files.exchange(folder, to)",
        "        files.rename(to, folder + 'x')\n        files.rename(folder, to)", (_CRASHES,)),
    Bug("the name is made durable before the old set goes", _PUBLISHING,
        "        files.sync_folder(parent)", "        pass", (_CRASHES,)),
    Bug("neither set is removed where the step may not last", "jobs/staging.py",
        "    except NotDurable:\n        raise\n", "", only(_CRASHES, "fails")),
    Bug("the next run cleans", "jobs/staging.py", "        storage.remove_tree(folder)\n    return removed",
        "        pass\n    return removed", (_CRASHES, _LEFTOVERS)),
    Bug("what is in use is no leftover", "store_format/locks.py",
        "        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)", "        pass",
        only(_LEFTOVERS, "in_use")),
    Bug("clean keeps what is in use", "jobs/clean.py", "if gone or (gone is None and idle):",
        "if True:", ("tests/test_clean.py",)),
    Bug("clean asks first", "jobs/clean.py", "        confirm(f", "        str(f", ("tests/test_clean.py",)),
    Bug("another attempt at a task may give other rows", "jobs/collect.py",
        '        spark.conf.set(_FULL_RETRY, "false")', "        pass",
        only("tests/test_kills.py", "another_attempt")),
    Bug("late tasks find no folder", "store_format/storage/local.py",
        "            os.rename(folder, gone)\n        shutil.rmtree(gone, ignore_errors=True)",
        "            os.listdir(folder)", only(_LEFTOVERS, "zombie")),
    Bug("a store in use has one end", "jobs/plan.py", "end.at if end.sure else None", "None",
        only(_LIVE, "one_end")),
    Bug("a log that changes fails the job", "store_format/store_files.py",
        "now._replace(mtime=ANY_TIME) if self.mtime == ANY_TIME else now",
        "now._replace(mtime=self.mtime)", (_LIVE, _WRONG, "-k", "grows or changes")),
    Bug("asking for a lock lets go of none", "store_format/locks.py",
        "if identity(os.stat(path)) in held_here:", "if False:", only(_LIVE, "who_holds")),
    # Disks that take a part of a write
    Bug("the rest of a short write is written", "store_format/file_layer.py",
        "        if done < len(data):", "        if False:", (_SHORT,)),
    Bug("the rest of a short write of a task is written", "store_format/storage/local_writers.py",
        "            while at < end:", "            if at < end:", (_SHORT,)),
    Bug("a file system that knows no RWF_DONTCACHE is written to as ever", "store_format/storage/local_writers.py",
        "error.errno != errno.EOPNOTSUPP", "True", (_WRITERS,)),
    Bug("kernels that may lose what was written twice are not asked", "store_format/storage/local_writers.py",
        "_DONTCACHE_SINCE = (6, 16)", "_DONTCACHE_SINCE = (6, 14)", (_WRITERS,)),
    Bug("small files wait for the sync of their set", "store_format/storage/local_writers.py",
        "        self._how = 0\n        self._write_piece()", "        self._write_piece()", (_WRITERS,)),
    Bug("pages are written whole", "store_format/storage/local_writers.py",
        "            if self._waiting == _PIECE_BYTES:", "            if self._waiting:", (_WRITERS,)),
    Bug("a file is synced with its length", "store_format/storage/local_writers.py",
        "        os.ftruncate(self._descriptor, length)\n        if self._sync:\n            os.fsync(self._descriptor)\n",
        "        if self._sync:\n            os.fsync(self._descriptor)\n        os.ftruncate(self._descriptor, length)\n",
        (_WRITERS,)),
    Bug("the rest of a short write to a volume is written", "store_format/storage/volumes.py",
        "        while done < len(view):", "        if done < len(view):", only(_SHORT, "volume")),
    Bug("a copy that was written in part is not installed", "store_format/installing.py",
        "                copied.write_at(at, buffer)",
        "                with suppress(OSError):\n                    copied.write_at(at, buffer)",
        only(_INSTALL, "fails")),
    Bug("what is kept in part is not cut", "store_format/writer/recovery.py",
        "                    kept.write_at(start - at, window)",
        "                    try:\n                        kept.write_at(start - at, window)\n                    except OSError:\n                        pass",
        only(_RECOVER, "fails")),
    # Installing
    Bug("a store changes its set in one step", "store_format/installing.py",
        'put_in_place(files, f"{staging}/{_ROOT}", store, replace=True)',
        'files.rename(store, f"{staging}/x"); files.rename(f"{staging}/{_ROOT}", store); files.rename(f"{staging}/x", f"{staging}/{_ROOT}")',
        only(_INSTALL, "crash_leaves")),
    Bug("what takes the kept set's name is that set", "store_format/installing.py",
        '        files.sync_all("")  # so', '        pass  # so', only(_INSTALL, "crash")),
    Bug("an installation that was killed is told by its root", "store_format/installing.py",
        'files.inode(root) == note["root"]', "True", only(_INSTALL, "crash_leaves")),
    Bug("not while the lock is held", "jobs/install.py", "    if holder is not None:",
        "    if False:", only(_INSTALL, "has_the_lock")),
    Bug("not when the log has grown", "jobs/install.py", "return part.records > 0", "return False",
        only(_INSTALL, "grown")),
    Bug("not a file that the manifest does not name", "store_format/installing.py",
        "!= (wanted.length, wanted.sha256)", "== (0, '')", only(_INSTALL, "changed")),
    Bug("a queue without messages keeps its position", "store_format/installing.py",
        "last < log_start", "False", only(_INSTALL, "expired")),
    # Recovering
    Bug("what is cut is kept", "store_format/recovering.py", "log.cut(end, CUT)", "log.cut(end)",
        only(_RECOVER, "crash_of or tail_becomes")),
    Bug("what is cut is durable before it goes", "store_format/writer/recovery.py",
        "            kept.sync()\n", "            pass\n", only(_RECOVER, "crash_of")),
    Bug("what is cut has a durable name before it goes", "store_format/writer/recovery.py",
        "        self.files.rename(part, self._new_name(folder, at))\n        self.files.sync_folder(folder)",
        "        self.files.rename(part, self._new_name(folder, at))", only(_RECOVER, "crash_of")),
    Bug("abort goes last", "store_format/recovering.py",
        "    log.cut(end, CUT)\n", "    files.remove(ABORT)\n    log.cut(end, CUT)\n    _write(files, ABORT, abort)\n",
        only(_RECOVER, "crash_of")),
    Bug("abort goes when the rest is durable", "store_format/recovering.py",
        '    if placed or removed:\n        files.sync_all("")\n', "", only(_RECOVER, "crash_of")),
    Bug("derived files are durable before they have their names", "store_format/recovering.py",
        '        files.sync_all("")  # what', "        pass  # what", only(_RECOVER, "crash_of")),
    Bug("what is sound is not written", "jobs/recover.py", "if path in wrong or", "if True or",
        only(_RECOVER, "only_what")),
    Bug("a lost sector ends the log", "jobs/recover.py", "if end >= linked.end:", "if True:",
        only(_RECOVER, "sector")),
    Bug("entries of expired messages are no fault", "udfs/compare.py",
        "if expired.all() else 0", "if False else 0", only(_RECOVER, "expired")),
    # The same bytes however the work is cut
    Bug("a queue's runs are numbered in the log's order", _PIPELINE,
        ".sortWithinPartitions(*QUEUE_KEY, *LOG_ORDER)", ".sortWithinPartitions(*QUEUE_KEY)",
        only(_KINDS, "everything or expired")),
    Bug("a file is built in the log's order", _PIPELINE,
        ".sortWithinPartitions(*SEGMENT_KEY, *LOG_ORDER)", ".sortWithinPartitions(*SEGMENT_KEY)",
        only(_KINDS, "everything or expired")),
    Bug("ranges of slots are joined in order", _PIPELINE,
        '.sortWithinPartitions("file", "range")', '.sortWithinPartitions("file")', (_KINDS,)),
    Bug("puts are counted on over splits", _PIPELINE,
        'total += row["index_puts"]', 'total = row["index_puts"]', (_KINDS,)),
    Bug("two attempts at one task never meet", "udfs/staging.py",
        'return f"{prefix}-{uuid.uuid4().hex}"', "return prefix", only("tests/test_cuts.py", "all_cuts")),
    Bug("a message without keys may open one more index file", _PIPELINE,
        "return files + 1 if last_is_full and last_record > last_put else files", "return files",
        only(_KINDS, "without")),
    # Damage
    Bug("damage before live records is refused", _REBUILD,
        "if on_damage == REFUSE:", "if on_damage == TRUNCATE:", only(_WRONG, "refused_or_cut")),
    Bug("stale records are no lost data", "jobs/survey.py",
        'f.col("greatest") > f.col("known")', 'f.col("known") > f.col("greatest")',
        only("tests/test_against_reference.py", "refused_where")),
    Bug("what was stored before the log's last record is stale", "jobs/survey.py",
        "not_before=last[-1] if last else None", "not_before=None",
        only("tests/test_against_reference.py", "refused_where")),
    Bug("all that follows is looked at", "udfs/survey.py", "at = end.next + 1", "break",
        only("tests/test_against_reference.py", "refused_where")),
    Bug("damage is named by its place in the file", _REBUILD,
        "offset {broke.offset - segment.start} ", "offset {broke.offset} ",
        only("tests/test_golden.py", "refused_by_name")),
    Bug("what a task says comes out as it was", "jobs/collect.py",
        "if raised is None or kind is None:", "if True:", only("tests/test_golden.py", "task_says")),
    # Wrong input
    Bug("a segment of a wrong size", _SEGMENTS, "if segment.state.size != configured:", "if False:",
        only(_WRONG, "short")),
    Bug("a segment of a wrong name", _SEGMENTS, "if segment.start % configured:", "if False:",
        only(_WRONG, "misnamed")),
    Bug("a segment that is there twice", _SEGMENTS, "if before.start == after.start:", "if False:",
        only(_WRONG, "two_folders")),
    Bug("a hole between segments", _SEGMENTS, "if before.end != after.start:", "if False:",
        only(_WRONG, "hole")),
    Bug("a link, FIFO or folder for a segment", "store_format/storage/local.py",
        "self.reader.state_of(about) if regular else None", "self.reader.state_of(about)",
        only(_WRONG, "linked or fifo or folder_for")),
    Bug("no segments", _SEGMENTS, "if not segments:", "if segments is None:", only(_WRONG, "remove")),
    Bug("a topic that is no folder's name", "udfs/scan.py", "check_topic(queue.topic)", "str(queue.topic)",
        only(_WRONG, "unsafe")),
    Bug("an unsafe topic is said", _REBUILD,
        'for name in row["unsafe_topics"]]', "for name in ()]", only(_WRONG, "unsafe")),
    Bug("an output in use", _PUBLISH, "if holds and not replace:", "if False:",
        only(_WRONG, "output_in_use")),
    Bug("what is not built is refused", "jobs/plan.py", "refuse_unsupported(parsed)", "pass",
        only(_WRONG, "not_built")),
    Bug("topics from the backup", "jobs/plan.py", 'for name in ("topics.json", "topics.json.bak"):',
        'for name in ("topics.json",):', only(_WRONG, "backup")),
    Bug("compacted topics are warned of", "jobs/plan.py",
        'if about.get("cleanup.policy") == "COMPACTION"', "if False", only(_WRONG, "compacted")),
    Bug("a log that changed after it was scanned", _REBUILD,
        "if state is None or not segment.state.admits(state):", "if False:", only(_WRONG, "changes_during")),
    # Nothing left behind
    Bug("staging goes, whatever happens", "jobs/staging.py",
        "    except BaseException:\n        storage.remove_tree(folder)", "    except BaseException:\n        pass",
        (_WRONG,)),
    Bug("files are made with our mode", "store_format/storage/local_writers.py",
        "os.open(path, flags, mode)", "os.open(path, flags, 0o644)", only(_WRONG, "users_alone")),
    Bug("no folders are made on the way to an output that is not published", "jobs/staging.py",
        "while parent and not storage.has_folder(parent):", "while False:",
        only(_WRONG, "folders_made")),
    Bug("index names stay apart at the end of time", _PUBLISH,
        "times[place] = min(times[place], LAST_INDEX_TIME - after)", "pass",
        ("tests/test_names.py",)),
    Bug("the manifest has each file's digest", "udfs/index.py",
        'create(staging.path(name), digest=True)', 'create(staging.path(name))',
        only("tests/test_golden.py", "tiny")),
    # Bounds
    Bug("a task holds a window, not a segment", "store_format/storage/local.py",
        "window_bytes = 1 << 20", "window_bytes = 1 << 30", (_BOUNDS,)),
    Bug("rows do not grow with messages", "store_format/scan.py",
        "most = min(most_puts, max(stretch_bytes // RECORD_FIXED_BYTES, 0) + (1 << 16))",
        "most = 1000", only(_BOUNDS, "grow")),
    Bug("a split looks for its first record within itself", "store_format/scan.py",
        "limit = min(s.end + RECORD_HEAD_BYTES - 1, s.segment_end)", "limit = s.segment_end",
        only(_BOUNDS, "skipped")),
    # Where it runs
    Bug("kernels are kept wherever their sources lie", "store_format/kernels.py",
        '"CACHE_LOCATOR_CLASSES": f"{SourcesLocator.__module__}.{SourcesLocator.__qualname__}",', "",
        ("tests/test_kernels.py",)),
    Bug("a missing numba is named", "store_format/__init__.py",
        "has no module 'numba'", "cannot go on", only("tests/test_cluster.py", "numba")),
    Bug("one JSON object on standard output", "jobs/options.py",
        "return Progress() if arguments.json and one_stream else ShownProgress()",
        "return ShownProgress()", only("tests/test_cli.py", "share_a_stream")),
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(plant_all(BUGS, " ".join(sys.argv[1:])))
