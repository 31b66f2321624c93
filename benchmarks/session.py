"""Rebuilds in one session: `python -m benchmarks.session STORE OUTPUT RUNS` prints JSON: seconds of
the first rebuild, and of each later one, with nothing of Spark's start in them.
"""

import json
import shutil
import sys
import time
from pathlib import Path

from benchmarks.state import same_state
from benchmarks.stores import RELEASE
from reput.jobs.engines.session import local_session
from reput.jobs.rebuild import rebuild

if __name__ == "__main__":
    store, output, runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    seconds = []
    with local_session("local[2]") as spark:
        for _ in range(runs + 1):
            shutil.rmtree(output, ignore_errors=True)
            same_state(Path(store))
            began = time.monotonic()
            rebuild(spark, store, output, rocketmq=RELEASE)
            seconds.append(round(time.monotonic() - began, 3))
    print(json.dumps({"first": seconds[0], "seconds": seconds[1:]}))
