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
    Bug("a process holds its scratch folder", "store_format/disk/scratch_folder.py::scratch_folder",
        "release = claim_folder(folder)", "release = os.mkdir(folder, 0o700) or (lambda: None)",
        ("tests/store_format/disk/test_scratch_folder.py",)),
    Bug("blocks are asked for before they are wanted", _AHEAD + "::_ReadAhead._block",
        "min(number + self._many, last + 1)", "number + 1", ahead),
    Bug("a block is asked for once, though windows overlap", _AHEAD + "::_ReadAhead._block",
        "if each < number]", "if each <= number]", ahead),
    Bug("nothing is asked for behind a file's end", _AHEAD + "::open_ahead", "min(end, state.size)", "end", ahead),
    Bug("nothing before a split is asked for ahead", _AHEAD + "::_ReadAhead._span", "max(self._begin, at)", "at", ahead),
    Bug("a block has a room of its own", _AHEAD + "::_ReadAhead._fetch", "self._free.pop()", "self._free[-1]", ahead),
    Bug("nobody waits for a block that is left out", _AHEAD + "::_ReadAhead._forget", "not block.cancel() and block.done()",
        "not block.cancel()", ahead),
    Bug("a log that leaves room in memory is read into it", _AHEAD + "::open_ahead",
        "whole > (available_memory() or whole) // 2", "whole", past("leaves_room")),
    Bug("what the page cache holds is read from it", _LOCAL + "::LocalReader.go_past_cache", "cached < (end - begin) // 2", "True",
        past("in_memory")),
    Bug("what is read past the page cache leaves nothing there", _LOCAL + "::LocalReader._read_past_cache",
        "offset, buffer, self._past_cache)", "offset, buffer)", past("does_not_stay")),
    Bug("a file system that cannot read past the page cache is read as ever", _LOCAL + "::LocalReader._read_past_cache",
        "error.errno != errno.EOPNOTSUPP", "True", past("that_cannot_is")),
    Bug("a disk's error is one past the page cache too", _LOCAL + "::LocalReader._read_past_cache",
        "error.errno != errno.EOPNOTSUPP", "False", past("that_cannot_is")),
    Bug("an object is read in the version that was listed", _S3 + "::S3Reader._read_some",
        'wanted["IfMatch"] = str(self._state.tag)', "pass", s3("changes or changed")),
    Bug("an object that ends too early has changed", _S3 + "::_of_code",
        'if code in ("InvalidRange", "416"):', "if False:", s3("files")),
    Bug("a broken read goes on", _S3 + "::S3Reader.read_into", "done += self._read_some(offset + done, view[done:])",
        "done += self._read_some(offset, view[done:])", s3("connection_broke")),
    Bug("uploads that were never finished go", _S3 + "::S3Storage.remove_tree", "client().abort_multipart_upload(\n                        Bucket",
        "dict(\n                        Bucket", s3("killed_writer")),
    Bug("a large object has all of its parts", _S3 + "::S3Writer._send", "self._buffer += view[:room]",
        "self._buffer += view[: room - 1]", s3("files")),
    Bug("the old manifest goes first", _LAST + "::ManifestLast.begin_set", 'self.remove(f"{to}/{MANIFEST}")', "pass",
        s3("old_set")),
    Bug("another job's marker is seen", _LAST + "::ManifestLast.publish", "if not mine:", "if False:", s3("two_jobs")),
    Bug("what a killed job left beside is removed", "jobs/outputs/staging_folder.py::leftovers",
        "wanted = (True,) if number else (True, None)", "wanted = (True,)",
        s3("killed_driver")),
    Bug("what a killed job left in the output is no set", "jobs/outputs/output.py::Output._is_half",
        "return MANIFEST not in going", "return False", s3("killed_driver")),
    Bug("an object that came meanwhile stays", "jobs/outputs/sets.py::what_may_go",
        '_refuse(name not in files, folder, name, kind, "is not in its manifest")', "pass",
        s3("overlaps")),
    Bug("an unfinished set is not verified", "jobs/outputs/manifest.py::refuse_unfinished",
        "if UNFINISHED in names and MANIFEST not in names:", "if False:", s3("unfinished")),
    Bug("the input has a storage of its own", "jobs/pipeline/pipeline.py::Pipeline._scan",
        "self.plan.storage, self.staging,", "self.staging.storage, self.staging,", s3("disk")),
    Bug("a file of HDFS that is made anew is another", _HDFS + "::_state",
        'about["modificationTime"] * 1_000_000, about["fileId"])', "0, 0)", hdfs("changes")),
    Bug("a volume's inodes tell nothing", _VOLUMES + "::VolumeReader.state_of", "about.st_mtime_ns, 0)",
        "about.st_mtime_ns, about.st_ino)", volumes("inode")),
    Bug("a volume's files are moved by copies", _VOLUMES + "::VolumeStorage.move_all",
        "            with open(path, \"rb\") as source, open(to, \"xb\") as target:",
        "            os.rename(path, to)\n            continue\n            with open(path, \"rb\") as source, open(to, \"xb\") as target:",
        volumes("files")),
    Bug("a volume's files have no holes", _VOLUMES + "::VolumeWriter",
        "class VolumeWriter(SequentialWriter):", "from reput.store_format.storage.local_writers import LocalWriter\n\n\nclass VolumeWriter(LocalWriter):",
        volumes("files")),
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(plant_all(BUGS, " ".join(sys.argv[1:])))
