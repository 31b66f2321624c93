# ruff: noqa: E501 - a line of source is quoted whole
"""One planted bug for each promise of the first five minutes: what is found, warmed and shown."""

from tests.planting import Bug

_PROGRESS_TEST = ("tests/jobs/console/test_progress_lines.py",)

_CONVERT = ("tests/jobs/test_convert.py",)
_MERGE = ("tests/jobs/converting/test_merge.py",)

BUGS = (
    Bug("what points to a half message points to its new place", "udfs/convert/write_segments.py::_Stream._put",
        "            prepared = self._records.links(prepared)", "            pass",
        (*_CONVERT, "-k", "half")),
    Bug("a moved record's __CRC32# is made anew", "store_format/convert/moved.py::stamp",
        "        if ends_in_crc(out, end - row.propertiesLength, end):", "        if False:",
        (*_CONVERT, "-k", "drawn")),
    Bug("a new log has room for a BLANK behind each record", "store_format/convert/places.py::place",
        "        if size + BLANK_BYTES > left:", "        if size > left:",
        (*_CONVERT, "-k", "drawn")),
    Bug("of equal store times the first store comes first", "store_format/convert/interleave.py::interleave",
        "times[cursors[log]] < times", "times[cursors[log]] <= times",
        (*_MERGE, "-k", "order")),
    Bug("a merge delivers nothing again", "store_format/convert/looked.py::_look",
        "            fate = _LEFT_OUT\n        grown", "            pass\n        grown",
        (*_MERGE, "-k", "delivered")),
    Bug("positions move up with a queue's records", "jobs/converting/ordered_records.py::_Feed.finish_split",
        "self._source.new_marks[name] = int(mine[below - done])", "pass",
        ("tests/jobs/converting/test_topics.py", "-k", "takes_along")),
    Bug("what is written of queues counts as their entries at most", "jobs/pipeline/stages.py::Stages._built",
        "min(queues, entries)", "queues", _PROGRESS_TEST),
    Bug("an end is estimated from what is done", "jobs/console/progress_lines.py::_end",
        "left = seconds / share - seconds", "left = seconds", _PROGRESS_TEST),
    Bug("a stage counts the tasks of all its parts", "jobs/engines/spark_engine.py::SparkEngine.share_done",
        "return done / tasks if tasks", "return done if tasks",
        ("tests/jobs/engines/test_spark_engine.py",)),
    Bug("nothing waits for Spark where a store does not tell its release", "jobs/spark/session.py::local_session",
        "    java = installed()\n    meanwhile()\n", "    java = installed()\n",
        ("tests/jobs/spark/test_session.py", "-k", "asked_before_spark")),
    Bug("a JVM's workers end with it", "jobs/spark/jvm.py::_end",
        "            yield from _end(child)\n", "            pass\n",
        ("tests/jobs/spark/test_session.py", "-k", "all_that_it_started")),
    Bug("a stray file in a queue's folder is no witness", "store_format/names.py::segment_start",
        "    except ValueError:\n        return None", "    except KeyError:\n        return None",
        ("tests/jobs/test_check.py", "-k", "stray")),
    Bug("a time never becomes an export's folder", "jobs/export.py::add_arguments",
        'dest="to", type=_folder)', 'dest="to")', ("tests/jobs/console/test_older_words.py",)),
    Bug("--until itself is not within a query", "jobs/console/store_questions.py::before",
        "    return milliseconds(text) - 1\n", "    return milliseconds(text)\n",
        ("tests/jobs/console/test_older_words.py",)),
)  # fmt: skip
