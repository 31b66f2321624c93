"""Input and output on S3: moto's server, real requests."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from botocore.awsrequest import AWSResponse

import reput
from reput.jobs import cli
from reput.jobs.sources.derived_source import ConsumeQueueSource
from reput.jobs.sources.log_source import CommitLogSource
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files import s3
from reput.store_format.files.protocol import FileState
from reput.store_format.files.s3 import S3Storage
from reput.store_format.names import UNFINISHED
from reput.store_format.notes import Done, Progress
from tests import golden_stores
from tests.in_process import as_text
from tests.local_time import with_sleep
from tests.processes import run_python
from tests.store_format.files import battery, cutting_proxy, s3_server
from tests.store_format.files.s3_server import BUCKET

URL = f"s3://{BUCKET}"
SIZES = [word for name, value in as_text(battery.golden().settings).items()
    for word in ("--set", f"{name}={value}")]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def endpoint() -> Iterator[str]:
    with s3_server.served() as endpoint:
        battery.upload(battery.golden().input, S3Storage(), f"{URL}/store")
        yield endpoint


@pytest.fixture
def output(request: pytest.FixtureRequest) -> str:
    return f"{URL}/{request.node.name}/out"


def test_files_are_put_and_what_a_killed_writer_sent_goes() -> None:
    battery.check_files(S3Storage(), f"{URL}/files")
    assert s3_server.unfinished_uploads() == 0
    battery.check_put_new(S3Storage(), f"{URL}/new")
    for name in ("killed", "abandoned"):
        output = S3Storage().create(f"{URL}/half/{name}")
        output.write(bytes(9 << 20))
    assert s3_server.unfinished_uploads() == 2
    output.abandon()
    assert s3_server.unfinished_uploads() == 1
    S3Storage().remove_tree(f"{URL}/half")
    assert s3_server.unfinished_uploads() == 0
    assert s3_server.object_keys("half") == []


def test_a_throttled_request_waits_and_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As S3 answers where a prefix gets more requests than it has partitions for."""
    battery.write(S3Storage(), f"{URL}/throttled", b"content")
    refused, waits = [503] * 8, list[float]()

    def answer(request: Any, **_: Any) -> Any:
        if not refused:
            return None
        raw = type(
            "Raw", (), {"stream": lambda self: iter([b"<Error><Code>SlowDown</Code></Error>"])}
        )
        return AWSResponse(request.url, refused.pop(), {}, raw())

    monkeypatch.setattr("botocore.endpoint.time", with_sleep(waits.append))
    events = s3.client().meta.events
    events.register("before-send.s3", answer)
    try:
        assert bytes(S3Storage().read_bytes(f"{URL}/throttled")) == b"content"
    finally:
        events.unregister("before-send.s3", answer)
    assert (refused, len(waits)) == ([], 8)
    assert max(waits) <= 20


def test_a_read_goes_on_where_its_connection_broke(endpoint: str) -> None:
    content = np.random.default_rng(2).integers(0, 256, 300_000, np.uint8)
    battery.write(S3Storage(), f"{URL}/cut/object", content.tobytes())
    with cutting_proxy.between(endpoint, 100_000, cuts=3) as (address, cuts):
        with s3_server.environment({"AWS_ENDPOINT_URL": address}):
            buffer = np.empty(299_000, np.uint8)
            S3Storage().open(f"{URL}/cut/object").read_into(1000, buffer)
        assert cuts() == 3
    assert np.array_equal(buffer, content[1000:])
    with (
        cutting_proxy.between(endpoint, 0, cuts=99) as (address, _),
        s3_server.environment({"AWS_ENDPOINT_URL": address, "AWS_MAX_ATTEMPTS": "1"}),
        pytest.raises(OSError, match=f"^{URL}/cut/object: "),
    ):
        S3Storage().open(f"{URL}/cut/object").read_into(0, buffer)
    # A manifest or a configuration, which is read as a whole.
    content = np.random.default_rng(3).integers(0, 256, 50_000, np.uint8).tobytes()
    battery.write(S3Storage(), f"{URL}/cut/small", content)
    with cutting_proxy.between(endpoint, 20_000, cuts=2) as (address, cuts):
        with s3_server.environment({"AWS_ENDPOINT_URL": address}):
            assert S3Storage().read_bytes(f"{URL}/cut/small") == content
        assert cuts() == 2
    with (
        cutting_proxy.between(endpoint, 20_000, cuts=99) as (address, _),
        s3_server.environment({"AWS_ENDPOINT_URL": address}),
        pytest.raises(OSError, match=f"^{URL}/cut/small: the connection broke 5 times"),
    ):
        S3Storage().read_bytes(f"{URL}/cut/small")


def test_changes_are_seen_within_a_second() -> None:
    battery.check_changes(S3Storage(), f"{URL}/changes")


@pytest.mark.long
def test_from_s3_to_s3_and_a_difference_has_its_url(output: str, tmp_path: Path) -> None:
    before = set(s3_server.object_keys())
    summary = battery.rebuild(f"{URL}/store", output)
    assert summary.store == f"{URL}/store"
    battery.check_output(output, tmp_path)
    folder = output.removeprefix(URL + "/")
    assert {key for key in s3_server.object_keys() if key not in before} == set(
        s3_server.object_keys(folder)
    )
    assert s3_server.unfinished_uploads() == 0
    report = battery.look(f"{URL}/store", output, staging_folder=f"{URL}/staging")
    assert report.same, report.text()
    assert s3_server.object_keys("staging") == []
    key = next(key for key in s3_server.object_keys(folder) if "/index/" in key)
    content = bytearray(s3.client().get_object(Bucket=BUCKET, Key=key)["Body"].read())
    content[7] ^= 1
    s3.client().put_object(Bucket=BUCKET, Key=key, Body=bytes(content))
    report = battery.look(f"{URL}/store", output)
    assert [found.path for found in report.differences] == [f"{URL}/{key}"]


def test_a_store_is_asked_by_its_url(tmp_path: Path) -> None:
    store, _ = golden_stores.whole("small_all_5.3.3", tmp_path)
    battery.upload(store, S3Storage(), f"{URL}/asked")
    with (
        reput.open_store(str(store)) as here,
        reput.open_store(f"file://{store}") as by_name,
        reput.open_store(f"{URL}/asked") as there,
    ):
        plain = (each for each in here.messages(scan=True) if not each.record.sys_flag)
        topic, tags = next((each.topic, each.tags) for each in plain if each.tags)
        keys = [key for each in here.messages(topic) for key in each.keys]
        answers = [([[each.row() for each in one.query(topic, key)] for key in keys[:3]],
            one.query_keys(topic, keys).to_arrow(body=True),
            one.messages(scan=True, where=one.filter(sql="TAGS IS NOT NULL")).to_arrow(),
            one.messages(topic, begin=0, where=one.filter(tags=tags)).to_arrow(), one.topics(),
            one.queues()) for one in (here, by_name, there)]  # fmt: skip
    assert answers[0] == answers[1] == answers[2]
    assert min(len(some) for some in answers[0]) > 0


def test_an_output_that_overlaps_the_store_is_refused(output: str) -> None:
    spellings = [f"{URL}/store", f"{URL}/store/", f"{URL}//store", f"{URL}/x/../store",
        f"{URL}/./store/y", f"s3a://{BUCKET}/store", f"S3N://{BUCKET}/store/commitlog",
        f"{URL}/store/consumequeue", f"{URL}/store/out", URL, f"{URL}/",
        f"{URL}/store/../store//z"]  # fmt: skip
    battery.check_overlaps(f"{URL}/store", spellings)
    battery.rebuild(f"{URL}/store", output)
    battery.check_replaces_only_its_own(f"{URL}/store", output)


def test_sources_plan_without_a_request_a_segment_or_a_queue() -> None:
    store = golden_stores.unpack("mixed_5.3.3")
    for part, there in (("commitlog", store.input), ("consumequeue", store.expect)):
        files = sorted(path for path in (there / part).rglob("*") if path.is_file())
        for path in files[:20]:
            to = f"{URL}/of_{part}/{path.relative_to(there)}"
            battery.write(S3Storage(), to, path.read_bytes())
    options = {"path": f"{URL}/of_commitlog", **as_text(store.settings)}
    with s3_server.counted() as asked:
        parts = CommitLogSource(options)
        parts = parts.reader(parts.schema()).partitions()
    assert len(parts) == 5  # segments
    assert asked["GET", "log"] <= 3
    options = {"path": f"{URL}/of_consumequeue"}
    with s3_server.counted() as asked:
        queues = ConsumeQueueSource(options)
        queues = queues.reader(queues.schema()).partitions()
    assert sum(len(part.value) for part in queues) > 1
    assert sum(count for (method, _), count in asked.items() if "bytes" not in method) <= 6


def test_between_s3_and_a_disk_and_a_folder_s_marker_is_no_file(output, tmp_path) -> None:
    battery.rebuild(f"{URL}/store", str(tmp_path / "out"))
    battery.check_output(str(tmp_path / "out"), tmp_path)
    battery.rebuild(str(battery.golden().input), f"{output}/")
    battery.check_output(output, tmp_path / "2")
    assert battery.look(f"{URL}/store", str(tmp_path / "out")).same
    progress = Asking()
    assert battery.rebuild(f"{URL}/store", f"{output}2", progress=progress).messages
    assert [text.rpartition(" ")[2] for text in progress.said[:2]] == ["bytes", "bytes"]
    # As the consoles of object stores make them.
    for marker in ("consumequeue/", ""):
        s3.client().put_object(Bucket=BUCKET, Key=f"{output.split('/', 3)[3]}/{marker}", Body=b"")
    battery.rebuild(f"{URL}/store", output, replace=True)


class Asking(Progress):
    """Asks how far a stage is before its first task and after its last."""

    def __init__(self) -> None:
        self.said: list[str] = []

    @contextmanager
    def stage(self, name: str, done: Callable[[], Done]) -> Iterator[None]:
        self.said.append(done().text)
        yield
        self.said.append(done().text)


def test_an_unfinished_set_is_not_verified(output: str) -> None:
    battery.write(S3Storage(), f"{output}/{UNFINISHED}", b"a job")
    with pytest.raises(StoreError, match=f"{output}: .*no whole set"):
        battery.look(f"{URL}/store", output)


@pytest.mark.long
def test_a_killed_driver_leaves_no_set(output: str, tmp_path: Path) -> None:
    battery.check_kills(f"{URL}/store", output, tmp_path)
    assert s3_server.unfinished_uploads() == 0


class Meddling(S3Storage):
    """Writes a segment anew, with its own bytes but for the last, at the look given."""

    def __init__(self, at_look: int) -> None:
        self.left = at_look

    def _look(self) -> None:
        self.left -= 1
        if self.left == 0:
            (key,) = s3_server.object_keys("changing/commitlog/")
            content = s3.client().get_object(Bucket=BUCKET, Key=key)["Body"].read()
            changed = content[:-1] + bytes([content[-1] ^ 1])
            s3.client().put_object(Bucket=BUCKET, Key=key, Body=changed)

    def open(self, path: str, state: FileState | None = None) -> Any:
        if "/commitlog/" in path:
            self._look()
        return super().open(path, state)

    def list(self, folder: str) -> Any:
        if folder.endswith("/commitlog"):
            self._look()
        return super().list(folder)


# the first look is for what the store tells, the second one for the plan
@pytest.mark.parametrize("at_look", [3, 4, 6])
def test_a_changed_object_ends_the_job(at_look: int, output: str) -> None:
    battery.upload(battery.golden().input, S3Storage(), f"{URL}/changing")
    storage = Meddling(at_look)
    with pytest.raises(StoreChanged, match=f"^{URL}/changing/commitlog/0"):
        battery.rebuild(f"{URL}/changing", output, storage=storage, output_storage=S3Storage())
    assert storage.left <= 0
    assert s3_server.object_keys(output.removeprefix(URL + "/").rpartition("/")[0]) == []


def test_a_report_and_a_dump_of_a_store_there(tmp_path, capsys) -> None:
    page = tmp_path / "report.html"
    done = reput.report(f"{URL}/store", str(page))
    assert page.stat().st_size == done.bytes
    assert set(done.unknown) == {"expired"}
    assert "of local stores only" in done.unknown["expired"]
    (key,) = s3_server.object_keys("store/commitlog/")
    assert cli.main(["dump", f"{URL}/{key}", "--rocketmq", "5.3.3", "--json", "--limit", "1"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["kind"]
    assert cli.main(["dump", f"{URL}/store"]) == 2
    assert "is a folder" in capsys.readouterr().err


@pytest.fixture
def command(commands_in_process: None, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command, with Spark aside: its code and what it says on standard error."""

    def run(*words: str) -> tuple[int, str]:
        code = cli.main([*words, "--rocketmq", "5.3.3"])
        return code, capsys.readouterr().err

    return run


def test_wrong_places_and_endpoints_are_named(command: Any, output: str, tmp_path: Path) -> None:
    code, says = command("rebuild", "s3://no-such-bucket/store", "--output", output)
    assert (code, says) == (2, "reput: error: s3://no-such-bucket/store: no such bucket\n")
    code, says = command("rebuild", f"{URL}/none", "--output", output)
    assert (code, says) == (
        2,
        f"reput: error: {URL}/none/commitlog: no such folder; STORE is what holds commitlog/\n",
    )
    code, says = command("rebuild", f"{URL}/store", "--output", URL, "--replace", *SIZES)
    assert (code, says.split(": ")[2:]) == (2, [f"{URL}", f"holds {URL}/store, which is read",
        "nothing is written there; give another place\n"])  # fmt: skip
    code, says = command("rebuild", str(battery.golden().input), "--output", URL, *SIZES)
    assert code == 2
    assert "is not empty; give another folder" in says
    code, says = command("rebuild", "s3://key:secret@bucket/store", "--output", output)
    assert code == 2
    assert "secret@" not in says
    code, says = command("rebuild", "ftp://host/store", "--output", output)
    assert code == 2
    assert "ftp://: no such file system" in says
    for named in ["nonsense", "https://", "http://[bad"]:
        with (
            s3_server.environment({"AWS_ENDPOINT_URL": named}),
            pytest.raises(
                StoreError, match="AWS_ENDPOINT_URL or the profile's endpoint_url as a URL"
            ),
        ):
            S3Storage().read_bytes(f"{URL}/x")
    program = ("import sys; sys.modules['botocore'] = None\n"
        "from reput.store_format.files.by_url import storage_for\n"
        "storage_for('s3://bucket/x').list('s3://bucket/x')")  # fmt: skip
    done = run_python("-c", program)
    assert "StoreError: s3:// needs botocore, which" in done.stderr


def test_wrong_credentials_and_a_missing_server_are_said(command, output, endpoint) -> None:
    with s3_server.credentials_checked(endpoint):
        code, says = command("rebuild", f"{URL}/store", "--output", output)
    assert code == 3
    assert f"{URL}/store: InvalidAccessKeyId" in says
    assert "of-the-tests" not in says
    reported = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_MAX_ATTEMPTS": "1"}
    with s3_server.environment(reported):
        code, says = command("rebuild", f"{URL}/store", "--output", output)
    assert code == 3
    assert f"{URL}/store: Could not connect" in says


@pytest.mark.long
def test_through_spark_by_the_command(output: str, tmp_path: Path) -> None:
    about = battery.golden()
    done = run_python("-m", "reput", "rebuild", f"{URL}/store", "--output", output, "--rocketmq",
        about.version, "--master", "local[2]", "--json", *SIZES)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["output"] == output
    battery.check_output(output, tmp_path)
