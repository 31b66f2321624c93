"""`python -m tests.store_format.files.hdfs_by_rpc URL FOLDER`: the battery by libhdfs.

In a process of its own, as libhdfs brings a JVM into it. FOLDER is an empty one on this disk.
Times are whole seconds there.
"""

import sys
from pathlib import Path

from reput.store_format.files.arrow import ArrowStorage
from tests.store_format.files import battery


def main(url: str, folder: Path) -> None:
    storage = ArrowStorage()
    battery.check_files(storage, f"{url}/files")
    battery.check_changes(storage, f"{url}/changes", tick=1.1)
    battery.upload(battery.golden().input, storage, f"{url}/store")
    battery.rebuild(f"{url}/store", f"{url}/out")
    battery.check_output(f"{url}/out", folder)
    battery.rebuild(f"{url}/store", f"{url}/out", replace=True)
    assert battery.look(f"{url}/store", f"{url}/out").same


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
