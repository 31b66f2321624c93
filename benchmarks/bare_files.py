"""What the files of many queues cost by themselves: the floor below `benchmarks.many_queues`.

`python -m benchmarks.bare_files [--queues N]`: two processes make nothing but the folders and files
of so many queues (10 entries each, in files of 300), as few system calls as can be; then all of
it is synced, and removed unless `--keep`. One JSON line.

ext4 gives no inode again within minutes of its removal, and looks at each such one before it finds
another: files made right after 200,000 were removed take three times as long.
"""

import argparse
import json
import os
import resource
import shutil
import tempfile
import time

from benchmarks.many_queues import QUEUE_FILE_BYTES, QUEUES_A_TOPIC
from benchmarks.stores import cache_folder
from reput.store_format.files.disk import DiskFiles
from reput.store_format.names import segment_name

_PROCESSES = 2


def make(root: str, topics: range) -> None:
    """The folders and files of these topics' queues."""
    content, name = bytes(range(200)), segment_name(0)
    for topic in topics:
        os.mkdir(f"{root}/Topic{topic}", 0o700)
        folder = os.open(f"{root}/Topic{topic}", os.O_RDONLY | os.O_DIRECTORY)
        for queue in range(QUEUES_A_TOPIC):
            os.mkdir(str(queue), 0o700, dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            file = os.open(f"{queue}/{name}", flags, 0o600, dir_fd=folder)
            os.pwrite(file, content, 0)
            os.ftruncate(file, QUEUE_FILE_BYTES)
            os.close(file)
        os.close(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=200_000)
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    root = tempfile.mkdtemp(prefix="bare-files-", dir=cache_folder())
    started = time.monotonic()
    children = []
    for number in range(_PROCESSES):
        child = os.fork()
        if not child:
            make(root, range(number, arguments.queues // QUEUES_A_TOPIC, _PROCESSES))
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    made = time.monotonic()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    DiskFiles(root).sync_all("")
    synced = time.monotonic()
    if not arguments.keep:
        shutil.rmtree(root)
    print(json.dumps({
        "queues": arguments.queues,
        "folder": root,
        "make": round(made - started, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "sync": round(synced - made, 1),
        "remove": round(time.monotonic() - synced, 1),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
