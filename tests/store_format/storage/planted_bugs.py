# ruff: noqa: E501 - a line of source is quoted whole
"""One planted bug for each promise of the file systems: `python -m tests.store_format.storage.planted_bugs`."""

import sys
from functools import partial

from tests.planting import Bug, only, plant_all

_S3 = "store_format/storage/s3.py"
_HDFS = "store_format/storage/webhdfs.py"
_LAST = "store_format/storage/manifest_last.py"
_VOLUMES = "store_format/storage/volumes.py"


s3 = partial(only, "tests/store_format/storage/test_s3.py")
hdfs = partial(only, "tests/store_format/storage/test_webhdfs.py")
volumes = partial(only, "tests/store_format/storage/test_volumes.py")
_AHEAD = "store_format/storage/read_ahead.py"
ahead = ("tests/store_format/storage/test_read_ahead.py",)
_LOCAL = "store_format/storage/local.py"
past = partial(only, "tests/store_format/storage/test_past_cache.py")


BUGS = (
    Bug("blocks are asked for before they are wanted", _AHEAD,
        "min(number + self._many, last + 1)", "number + 1", ahead),
    Bug("a block is asked for once, though windows overlap", _AHEAD,
        "if each < number]", "if each <= number]", ahead),
    Bug("nothing is asked for behind a file's end", _AHEAD, "min(end, state.size)", "end", ahead),
    Bug("nothing before a split is asked for ahead", _AHEAD, "max(self._begin, at)", "at", ahead),
    Bug("a block has a room of its own", _AHEAD, "self._free.pop()", "self._free[-1]", ahead),
    Bug("nobody waits for a block that is left out", _AHEAD, "not block.cancel() and block.done()",
        "not block.cancel()", ahead),
    Bug("a log that leaves room in memory is read into it", _AHEAD,
        "whole > (available_memory() or whole) // 2", "whole", past("leaves_room")),
    Bug("what the page cache holds is read from it", _LOCAL, "cached < (end - begin) // 2", "True",
        past("in_memory")),
    Bug("what is read past the page cache leaves nothing there", _LOCAL,
        "offset, buffer, self._past_cache)", "offset, buffer)", past("does_not_stay")),
    Bug("a file system that cannot read past the page cache is read as ever", _LOCAL,
        "error.errno != errno.EOPNOTSUPP", "True", past("that_cannot_is")),
    Bug("a disk's error is one past the page cache too", _LOCAL,
        "error.errno != errno.EOPNOTSUPP", "False", past("that_cannot_is")),
    Bug("an object is read in the version that was listed", _S3,
        'wanted["IfMatch"] = str(self._state.tag)', "pass", s3("changes or changed")),
    Bug("an object that ends too early has changed", _S3,
        'if code in ("InvalidRange", "416"):', "if False:", s3("files")),
    Bug("a broken read goes on", _S3, "done += self._read_some(offset + done, view[done:])",
        "done += self._read_some(offset, view[done:])", s3("connection_broke")),
    Bug("uploads that were never finished go", _S3, "client().abort_multipart_upload(\n                        Bucket",
        "dict(\n                        Bucket", s3("killed_writer")),
    Bug("a large object has all of its parts", _S3, "self._buffer += view[:room]",
        "self._buffer += view[: room - 1]", s3("files")),
    Bug("the old manifest goes first", _LAST, 'self.remove(f"{to}/{MANIFEST}")', "pass",
        s3("old_set")),
    Bug("another job's marker is seen", _LAST, "if not mine:", "if False:", s3("two_jobs")),
    Bug("what a killed job left beside is removed", "jobs/outputs/staging_folder.py",
        "wanted = (True,) if number else (True, None)", "wanted = (True,)",
        s3("killed_driver")),
    Bug("what a killed job left in the output is no set", "jobs/outputs/output.py",
        "return MANIFEST not in going", "return False", s3("killed_driver")),
    Bug("an object that came meanwhile stays", "jobs/outputs/sets.py",
        '_refuse(name not in files, folder, name, kind, "is not in its manifest")', "pass",
        s3("overlaps")),
    Bug("an unfinished set is not verified", "jobs/outputs/manifest.py",
        "if UNFINISHED in names and MANIFEST not in names:", "if False:", s3("unfinished")),
    Bug("the input has a storage of its own", "jobs/pipeline/pipeline.py",
        "self.plan.storage, self.staging,", "self.staging.storage, self.staging,", s3("disk")),
    Bug("a file of HDFS that is made anew is another", _HDFS,
        'about["modificationTime"] * 1_000_000, about["fileId"])', "0, 0)", hdfs("changes")),
    Bug("a volume's inodes tell nothing", _VOLUMES, "about.st_mtime_ns, 0)",
        "about.st_mtime_ns, about.st_ino)", volumes("inode")),
    Bug("a volume's files are moved by copies", _VOLUMES,
        "            with open(path, \"rb\") as source, open(to, \"xb\") as target:",
        "            os.rename(path, to)\n            continue\n            with open(path, \"rb\") as source, open(to, \"xb\") as target:",
        volumes("files")),
    Bug("a volume's files have no holes", _VOLUMES,
        "class VolumeWriter(SequentialWriter):", "from reput.store_format.storage.local_writers import LocalWriter\n\n\nclass VolumeWriter(LocalWriter):",
        volumes("files")),
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(plant_all(BUGS, " ".join(sys.argv[1:])))
