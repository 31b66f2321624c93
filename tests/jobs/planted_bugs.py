"""One planted bug for each promise of the first five minutes: what is told, warmed and shown."""

from tests.planting import Bug

_ARCHIVE = "jobs/spark/archive.py"
_SESSION_TEST = (
    "tests/jobs/spark/test_session.py",
    "-m",
    "not spark",
    "-k",
    "archive or background or prepared",
)
_PROGRESS_TEST = ("tests/jobs/console/test_progress.py",)

BUGS = (
    Bug("an archive whose bytes changed is made anew", _ARCHIVE,
        "is_whole(archive) and _note(archive).read_text().split()[1:] == [_digest(archive)]",
        "is_whole(archive)", _SESSION_TEST),
    Bug("one process at a time makes an archive", _ARCHIVE,
        "fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))", "pass", _SESSION_TEST),
    Bug("another Java wants another archive", _ARCHIVE,
        'release.read_text() if release.is_file() else ""', '""', _SESSION_TEST),
    Bug("another PySpark wants another archive", _ARCHIVE,
        "{jar} {status.st_size} {status.st_mtime_ns}", "jar", _SESSION_TEST),
    Bug("nothing is prepared where that is forbidden", "jobs/spark/prepare.py",
        'if os.environ.get("REPUT_WARM") == _NEVER:', "if False:", _SESSION_TEST),
    Bug("the next start is prepared beside the first run, where it has no archive",
        "jobs/spark/session.py", "not flags and not is_impossible(archive)",
        "not is_impossible(archive)", _SESSION_TEST),
    Bug("what is written of queues counts as their entries at most", "jobs/engine/stages.py",
        "min(queues, entries)", "queues", _PROGRESS_TEST),
    Bug("an end is estimated from what is done", "jobs/console/progress.py",
        "left = seconds / share - seconds", "left = seconds", _PROGRESS_TEST),
    Bug("a stage counts the tasks of all its parts", "jobs/engine/stages.py",
        "return done / tasks if tasks", "return done if tasks", _PROGRESS_TEST),
    Bug("a release is asked for while Spark starts", "jobs/spark/session.py",
        "        meanwhile()\n        tell_of_first_run()\n", "        tell_of_first_run()\n",
        ("tests/jobs/console/test_first_words.py", "-k", "before_spark")),
    Bug("a stray file in a queue's folder is no witness", "store_format/names.py",
        "    except ValueError:\n        return None", "    except KeyError:\n        return None",
        ("tests/jobs/test_check.py", "-k", "stray")),
    Bug("a time never becomes an export's folder", "jobs/export.py",
        'dest="to", type=_folder)', 'dest="to")', ("tests/jobs/console/test_words.py",)),
    Bug("--until itself is not within a query", "jobs/console/asking.py",
        "    return milliseconds(text) - 1\n", "    return milliseconds(text)\n",
        ("tests/jobs/console/test_words.py",)),
)  # fmt: skip
