"""Which settings each release takes, read by reflection off RocketMQ's own jars.

    python -m tests.rocketmq.setting_releases        (writes settings/releases.tsv anew)

Jars come from Maven Central, without what they depend on; that is taken from one built driver."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from reput.store_format.release.profiles import RELEASES, release_key
from tests.processes import run_words
from tests.rocketmq.build import OTHERS_OF, build, cache_folder, java, run_or_raise

FOLDER = Path(__file__).parent / "settings"
NOT_IN_CENTRAL = ("4.9.6", "5.1.2", "5.3.4")  # one part of them or all
ASKED = tuple(release for release in RELEASES if release not in NOT_IN_CENTRAL)
_PARTS = ("store", "common", "remoting")
_AUTH_SINCE = "5.3.0"
_LOGGING = "4.9.7"  # the release whose own logging classes 4.3.0 to 5.0.0 want
# Defaults that depend on the machine: addresses, cores, folders, the environment.
_OF_THE_MACHINE = frozenset((
    "ackMessageThreadPoolNums", "brokerIP1", "brokerIP2", "brokerName",
    "clientCallbackExecutorThreads", "clientWorkerThreads", "compactionThreadNum",
    "endTransactionThreadPoolNums", "heartbeatThreadPoolNums", "listenPort",
    "litePullMessageThreadPoolNums", "loadBalanceProcessorThreadPoolNums", "metricsExporterType",
    "namesrvAddr", "popReviveConcurrency", "processReplyMessageThreadPoolNums",
    "pullMessageThreadPoolNums", "putMessageFutureThreadPoolNums", "queryMessageThreadPoolNums",
    "recoverThreadPoolNums", "rocketmqHome", "sendMessageThreadPoolNums",
    "serverCallbackExecutorThreads", "sharedByteBufferNum", "storePathBrokerIdentity",
    "storePathCommitLog", "storePathEpochFile", "storePathRootDir",
    "timerReputServiceCorePoolSize", "timerReputServiceMaxPoolSize", "useTLS",
))  # fmt: skip
Row = tuple[str, str, str, str]  # name, class, type, default


def fetch(folder: Path, releases: Sequence[str]) -> None:
    """The jars of releases, into a folder, by Maven. Raises RuntimeError."""
    items = sorted({jar for release in releases for jar in _jars(release)})
    named = "".join(
        f"<artifactItem><groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-{part}"
        f"</artifactId><version>{release}</version></artifactItem>"
        for part, release in [*items, ("logging", _LOGGING)]
    )
    pom = folder / "pom.xml"
    pom.write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>reput.tests</groupId><artifactId>settings</artifactId><version>1</version>"
        "<packaging>pom</packaging><build><plugins><plugin>"
        "<groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin"
        "</artifactId><version>3.6.1</version><configuration><outputDirectory>jars"
        f"</outputDirectory><artifactItems>{named}</artifactItems></configuration></plugin>"
        "</plugins></build></project>"
    )
    repository = f"-Dmaven.repo.local={cache_folder() / 'maven'}"
    run_or_raise("mvn", "-q", "-B", "-f", pom, repository, "dependency:copy")


def _has_auth(release: str) -> bool:
    return release_key(release) >= release_key(_AUTH_SINCE)


def _jars(release: str) -> list[tuple[str, str]]:
    """A release's jars, each by its part and the release that has it."""
    jars = [(part, release) for part in _PARTS]
    return [*jars, ("auth", OTHERS_OF.get(release, release))] if _has_auth(release) else jars


def read(folder: Path, release: str) -> list[Row]:
    """What one release takes, of jars that `fetch` brought."""
    jars = folder / "jars"
    own = [jars / f"rocketmq-{part}-{number}.jar" for part, number in _jars(release)]
    # what is first on the path is taken: dependencies come last
    path = [*own, jars / f"rocketmq-logging-{_LOGGING}.jar", build("5.3.3") / "lib" / "*"]
    done = run_words(java(), f"-Duser.home={folder}", "-cp", ":".join(map(str, path)),
                     str(FOLDER / "Settings.java"))  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"RocketMQ {release}: {done.stderr}")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    found = [(row[0], row[1], row[2], row[3]) for row in rows if len(row) == len(Row.__args__)]
    return [row for row in found if row[1] != "AuthConfig" or _has_auth(release)]


def table(rows: dict[str, list[Row]]) -> str:
    """releases.tsv: a line a name and class, with the releases that have it and its defaults."""
    kinds: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for release, some in rows.items():
        for name, owner, kind, default in some:
            shown = "*" if name in _OF_THE_MACHINE else default
            number = release.split("-")[0]
            kinds.setdefault((name, owner), []).append((number, kind, shown))
    lines = ["name\tclass\ttype\tsince\tuntil\tdefaults"]
    for (name, owner), seen in sorted(kinds.items()):
        defaults = [seen[0][::2]]
        for release, _, default in seen[1:]:
            if default != defaults[-1][1]:
                defaults.append((release, default))
        shown = " | ".join(f"{release}: {default}" for release, default in defaults)
        lines.append("\t".join([name, owner, seen[-1][1], seen[0][0], seen[-1][0], shown]))
    return "\n".join(lines) + "\n"


def read_all(releases: Sequence[str]) -> dict[str, list[Row]]:
    """Each release's rows as its jars have them."""
    with tempfile.TemporaryDirectory(prefix="reput-settings-") as name:
        fetch(Path(name), releases)
        return {release: read(Path(name), release) for release in releases}


if __name__ == "__main__":
    (FOLDER / "releases.tsv").write_text(table(read_all(ASKED)))
