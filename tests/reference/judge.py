"""`python -m tests.reference.judge VERSION [EXAMPLES [SEED]]`: drawn logs, derived by RocketMQ too.

The golden stores show what producers make; this puts the reference, and with it every rule, to the
real store on logs that no producer would. It takes a second or so a log, and Maven once.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.logs import Log, logs
from tests.logs.strategies import numbers_of
from tests.reference import compare, derive, records
from tests.rocketmq.driver import Driver, JobFailedError, derive_mode

# The first version that has a setting; the driver refuses one that its RocketMQ does not know.
SETTINGS_SINCE = {"enableMultiDispatch": (4, 9, 3), "enableLmq": (4, 9, 3),
    "mapperFileSizeBatchConsumeQueue": (5, 0, 0), "forceVerifyPropCRC": (5, 2, 0)}  # fmt: skip

# With these RocketMQ makes RocksDB files too (tests/rocketmq/test_commands_in_rocksdb.py).
IN_ROCKSDB = {"rocksdbCQDoubleWriteEnable", "combineCQUseRocksdbForLmq"}


def fitted(log: Log, version: str) -> Log:
    """The log as one for this version."""
    numbers = numbers_of(version)
    known = {name: value for name, value in log.settings.items()
        if SETTINGS_SINCE.get(name, (0, 0, 0)) <= numbers and name not in IN_ROCKSDB}  # fmt: skip
    attributes = log.topic_attributes if numbers >= (5, 0, 0) else {}
    return Log(log.segments, known, version, attributes)


def why_not(log: Log) -> str | None:
    """Why a recovering RocketMQ and the reference may differ on this log by intent."""
    if not log.segments[max(log.segments)] and numbers_of(log.version) < (5, 1, 3):
        return "a last segment of length zero, which RocketMQ refuses"
    stop = derive(*log).stop
    if stop.startswith("physicalOffset"):
        return "a misplaced record, which RocketMQ accepts"
    later = log.segments.keys() - {min(log.segments)}
    first = [message for message in records(*log[:3]) if message.physical_offset in later]
    if any(message.store_timestamp <= 0 for message in first):
        return "recovery starts at the last segment that is not newer than the checkpoint"
    if numbers_of(log.version) < (4, 4, 0) and stop == "the parts do not add up to the size":
        return (
            "up to 4.3.2 a crash recovery dispatches such a record, as one of topic and id nothing"
        )
    if derive_mode(log.version) == "clean" and len(log.segments) > 3 and stop != "zeros":
        return "recovery after a clean stop looks at the last three segments only"
    return None


def judge(log: Log, driver: Driver) -> str | None:
    """The first difference between RocketMQ's files and the reference's."""
    with tempfile.TemporaryDirectory(prefix="reput-judge-") as folder:
        store = Path(folder)
        (store / "commitlog").mkdir()
        for base, segment in log.segments.items():
            (store / "commitlog" / f"{base:020d}").write_bytes(segment)
        try:
            driver.derive(store, log.settings, topics=log.topic_attributes, seconds=20, timeout=60)
        except (JobFailedError, TimeoutError) as error:
            driver.kill()  # a store that failed to start leaves its threads behind
            said = [line for line in driver.log.splitlines() if "Exception" in line]
            return f"no answer: {error.args[0].splitlines()[0]} {said[-1:]}"
        derivation = derive(*log)
        if "index/1" in derivation.files:
            # Two index files made in one millisecond have one name, and RocketMQ writes both into
            # the same file.
            for path in (store / "index").iterdir():
                path.unlink()
            for name in [name for name in derivation.files if name.startswith("index/")]:
                del derivation.files[name]
        return compare(derivation, store)


def main(version: str, examples: str = "50", number: str = "0") -> int:
    verdicts: Counter[str] = Counter()
    with Driver(version) as driver:

        @seed(int(number))
        @settings(max_examples=int(examples), deadline=None, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck))  # fmt: skip
        @given(logs(only_version=version))
        def run(drawn: Log) -> None:
            log = fitted(drawn, version)
            verdict = why_not(log)
            if verdict is None:
                verdict = judge(log, driver) or "agree"
            verdicts[verdict] += 1
            if verdict not in ("agree", why_not(log)):
                print(verdict, log, sep="\n")

        run()
    for verdict, count in verdicts.most_common():
        print(f"{count:5} {verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
