"""`python -m tests.store_format.files.hdfs_by_rpc URL FOLDER`: the battery by libhdfs.

In a process of its own, as libhdfs brings a JVM into it. FOLDER is an empty one on this disk.
Times are whole seconds there.
"""

import sys
from pathlib import Path

from reput.store_format.files.arrow import ArrowStorage
from tests.store_format.files import battery

if __name__ == "__main__":
    battery.check_all(ArrowStorage(), sys.argv[1], Path(sys.argv[2]), tick=1.1)
