"""One planted bug for each promise of the first five minutes: what is found, warmed and shown."""

from tests.planting import Bug

_PROGRESS_TEST = ("tests/jobs/console/test_progress.py",)

BUGS = (
    Bug("what is written of queues counts as their entries at most", "jobs/pipeline/stages.py",
        "min(queues, entries)", "queues", _PROGRESS_TEST),
    Bug("an end is estimated from what is done", "jobs/console/progress.py",
        "left = seconds / share - seconds", "left = seconds", _PROGRESS_TEST),
    Bug("a stage counts the tasks of all its parts", "jobs/engines/spark_engine.py",
        "return done / tasks if tasks", "return done if tasks",
        ("tests/jobs/engines/test_spark_engine.py",)),
    Bug("nothing waits for Spark where a store does not tell its release", "jobs/spark/session.py",
        "    java = installed()\n    meanwhile()\n", "    java = installed()\n",
        ("tests/jobs/spark/test_session.py", "-k", "asked_before_spark")),
    Bug("a JVM's workers end with it", "jobs/spark/jvm.py",
        "            yield from _end(child)\n", "            pass\n",
        ("tests/jobs/spark/test_session.py", "-k", "all_that_it_started")),
    Bug("a stray file in a queue's folder is no witness", "store_format/names.py",
        "    except ValueError:\n        return None", "    except KeyError:\n        return None",
        ("tests/jobs/test_check.py", "-k", "stray")),
    Bug("a time never becomes an export's folder", "jobs/export.py",
        'dest="to", type=_folder)', 'dest="to")', ("tests/jobs/console/test_words.py",)),
    Bug("--until itself is not within a query", "jobs/console/store_questions.py",
        "    return milliseconds(text) - 1\n", "    return milliseconds(text)\n",
        ("tests/jobs/console/test_words.py",)),
)  # fmt: skip
