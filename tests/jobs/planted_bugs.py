# ruff: noqa: E501 - a line of source is quoted whole
"""One planted bug for each promise of the first five minutes: what is found, warmed and shown."""

from tests.planting import Bug

_PROGRESS_TEST = ("tests/jobs/console/test_progress_lines.py",)

BUGS = (
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
    Bug("no module is added that Java lacks", "jobs/spark/java.py::home_for_spark",
        "_ADDED in modules[1].split() or", "modules or", ("tests/jobs/spark/test_java.py",)),
    Bug("a JVM's workers end with it", "jobs/spark/jvm.py::_end",
        "            yield from _end(child)\n", "            pass\n",
        ("tests/jobs/spark/test_session.py", "-k", "all_that_it_started")),
    Bug("a stray file in a queue's folder is no witness", "store_format/names.py::segment_start",
        "    except ValueError:\n        return None", "    except KeyError:\n        return None",
        ("tests/jobs/test_check.py", "-k", "stray")),
    Bug("segments behind the picture's last row may be damaged", "jobs/console/check_text.py::MapRow.left_out",
        'if self.cells else "more segments"', 'if True else ""', ("tests/jobs/console/test_check_text.py", "-k", "last_row")),
    Bug("behind the last listed range nothing is drawn as sound", "jobs/console/check_text.py::_spans",
        'if len(ranges) < report.damage["range_count"]:', "if False:", ("tests/jobs/console/test_check_text.py", "-k", "listed")),
    Bug("no segment holds what is before the first", "jobs/salvaging/damage_map.py::segment_of",
        "if at >= 0 and offset", "if offset", ("tests/jobs/salvaging/test_damage_map.py", "-k", "outside")),
    Bug("what a killed installation leaves is known", "jobs/clean.py::_look",
        "for prefix in _TEMPORARY]", "for prefix in (Temporary.CHECK,)]", ("tests/jobs/test_clean.py", "-k", "command_s_folder")),
    Bug("an installation holds what it makes", "jobs/install.py::install_set",
        "with temporary_folder(local, tempfile.gettempdir(), Temporary.CONFIG, inputs) as made:",
        "with closing(tempfile.TemporaryDirectory()) as made:", ("tests/jobs/test_clean.py", "-k", "an_installation_holds")),
    Bug("--until itself is not within a query", "jobs/console/options.py::before",
        "    return milliseconds(text) - 1\n", "    return milliseconds(text)\n",
        ("tests/jobs/console/test_same_words.py",)),
)  # fmt: skip
