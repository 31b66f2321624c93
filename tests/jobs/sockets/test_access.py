"""Who may ask: signatures and TLS. And the file that keeps what groups commit."""

import json
import os
import shutil
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from reput.broker.serving.groups import GroupOffsets
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.broker.wire.remoting import signature, signed_by
from reput.jobs.cli import main
from reput.jobs.outputs.output import inputs_of
from reput.jobs.sockets.access import OffsetsFile, guard_by, read_access_keys
from reput.jobs.sockets.connection import PlainRefused, tls_mode
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Place
from reput.store_format.files.local import LocalStorage
from reput.store_format.notes import Notes
from tests import golden_stores
from tests.jobs.sockets.asked import TOPIC, Asked, opened
from tests.jobs.sockets.asking import Peer, pull, request
from tests.jobs.sockets.popping import ack, pop
from tests.jobs.sockets.serving import Serving

TLS = Path(__file__).parent / "tls"  # made by openssl req -x509 -newkey ec, for a hundred years
FIELDS = {"topic": "T", "b": "2", "a": "1", "AccessKey": "reader"}


def test_a_signature_is_what_rocketmq_signs() -> None:
    # AclSigner.calSignature("reader12T" + body, "12345678") of rocketmq-acl 4.9.7
    assert signature(FIELDS, b"body", "12345678") == "5oX+YF9RJ5ZsopM5stte++6dN8Y="
    signed = {**FIELDS, "Signature": signature(FIELDS, b"body", "12345678")}
    assert signed_by(signed, b"body", "12345678")
    assert not signed_by(signed, b"Body", "12345678")
    assert not signed_by(signed, b"body", "12345679")
    assert not signed_by({**signed, "a": "2"}, b"body", "12345678")
    assert not signed_by(FIELDS, b"body", "12345678")
    # older clients add this when they have signed
    assert signed_by({**signed, "_UNIQUE_KEY_QUERY": "true"}, b"body", "12345678")


def test_a_replayed_signature_lets_nothing_else_through() -> None:
    """As ACL 1.0 has no number that is used once, the same request again is answered again."""
    asked = Asked(opened())
    asked.broker.guards.append(guard_by({"reader": "12345678", "other": "87654321"}))
    caught = {"topic": TOPIC, "queueId": "0", "AccessKey": "reader"}
    caught["Signature"] = signature(caught, b"", "12345678")

    def code(body: bytes = b"", **more: str) -> int:
        return asked.ask(RequestCode.GET_MAX_OFFSET, body=body, **(caught | more)).code

    assert [code() for _ in range(3)] == [ResponseCode.SUCCESS] * 3
    for more in ({"queueId": "1"}, {"topic": "Other"}, {"AccessKey": "other"}, {"x": "1"},
                 {"Signature": caught["Signature"].lower()}, {"Signature": ""}):  # fmt: skip
        assert code(**more) == ResponseCode.NO_PERMISSION
    assert code(b"{}") == ResponseCode.NO_PERMISSION


def keys_file(folder: Path, text: str, mode: int = 0o600) -> str:
    path = folder / "keys.yml"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_access_keys_are_read_from_a_file_of_their_owner(tmp_path: Path) -> None:
    text = (
        'accounts:\n- accessKey: one\n  secretKey: "a b"\n\naccessKey: two # mine\nsecretKey: c\n'
    )
    with pytest.raises(StoreError, match="alternate"):  # no blanks in a key
        read_access_keys(keys_file(tmp_path, text))
    text = text.replace("a b", "ab")
    assert read_access_keys(keys_file(tmp_path, text)) == {"one": "ab", "two": "c"}
    for mode in (0o640, 0o604, 0o620, 0o602):
        with pytest.raises(StoreError, match="chmod 600") as error:
            read_access_keys(keys_file(tmp_path, text, mode))
        assert "ab" not in str(error.value).replace(str(tmp_path), "")
    for wrong in ("", "accessKey: one\n", "secretKey: x\naccessKey: y\n",
                  "accessKey: a\naccessKey: b\nsecretKey: c\n",
                  "accessKey: a\nsecretKey: b\naccessKey: a\nsecretKey: c\n"):  # fmt: skip
        with pytest.raises(StoreError, match="accessKey"):
            read_access_keys(keys_file(tmp_path, wrong))
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(StoreError, match="is not a file"):
        read_access_keys(str(tmp_path / "fifo"))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Words for `reput serve`; the key is the owner's alone."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ("cert.pem", "key.pem"):
        shutil.copy(TLS / name, folder / name)
    (folder / "key.pem").chmod(0o600)
    return ["--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem")]


def test_what_is_no_certificate_is_refused(certificate: list[str], tmp_path: Path) -> None:
    _, cert, _, key = certificate
    assert tls_mode(cert, key, False).begin(b"\x16\x03\x01") is not None
    assert tls_mode(cert, key, False).begin(b"\0\0\0\x20") is None
    with pytest.raises(PlainRefused):
        tls_mode(cert, key, True).begin(b"\0\0\0\x20")
    with pytest.raises(StoreError, match="do not fit"):
        tls_mode(key, key, False)
    (tmp_path / "key.pem").write_bytes(Path(key).read_bytes())
    (tmp_path / "key.pem").chmod(0o644)
    with pytest.raises(StoreError, match="chmod 600"):
        tls_mode(cert, str(tmp_path / "key.pem"), False)


@pytest.mark.parametrize("missing", ["--tls-cert", "--tls-key", "--access-keys"])
def test_a_file_that_is_missing_is_named_by_its_option(
    missing: str, certificate: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(golden_stores.unpack("broker_clean_5.3.3").input)
    assert main(["serve", store, *certificate, missing, "/none"]) == 2
    assert f"{missing} /none: No such file or directory" in capsys.readouterr().err


class TlsPeer(Peer):
    """A connection by TLS."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        context = ssl.create_default_context(cafile=str(TLS / "cert.pem"))
        self.socket: socket.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")


@pytest.fixture(scope="module")
def serving(certificate: list[str]) -> Iterator[Serving]:
    with Serving(golden_stores.unpack("broker_clean_5.3.3").input, *certificate) as process:
        yield process


def test_tls_and_plain_connections_are_served_on_one_port(serving: Serving) -> None:
    with TlsPeer(serving.address) as hidden, Peer(serving.address) as plain:
        for offset in range(0, 300, 30):
            asked = pull(TOPIC, 0, offset)
            assert hidden.ask(asked) == plain.ask(asked)
        assert hidden.ask(request(RequestCode.GET_BROKER_RUNTIME_INFO)).code == 0
    host, _, port = serving.address.rpartition(":")
    for noise in (b"\x16", b"\x16\x03\x01\x02\x00\x01" + b"\xff" * 600, b"\x16" * 70_000):
        with socket.create_connection((host, int(port)), 5) as raw:
            raw.sendall(noise)
    with TlsPeer(serving.address) as hidden:
        assert hidden.ask(request(RequestCode.GET_BROKER_RUNTIME_INFO)).code == 0


def offsets_file(path: Path, store: Path) -> OffsetsFile:
    return OffsetsFile(str(path), inputs_of(Place(LocalStorage(), str(store)), {}))


def test_what_groups_commit_outlives_the_server(tmp_path: Path) -> None:
    store = golden_stores.unpack("broker_clean_5.3.3").input
    path, start = tmp_path / "offsets.json", {("g", "T"): {0: 5, 1: 6}, ("h", "T"): {0: 1}}
    broker = opened()
    broker.offsets = offsets = GroupOffsets(start)
    file = offsets_file(path, store)
    tick = file.ticking(broker, pytest.fail)
    tick(10_000)
    assert not path.exists()  # nothing was committed
    offsets.commit("g", "T", 0, 9)
    tick(14_999)
    assert not path.exists()
    tick(15_000)
    written = path.read_bytes()
    assert json.loads(written) == {"offsetTable": {"T@g": {"0": 9, "1": 6}, "T@h": {"0": 1}}}
    tick(20_000)
    assert path.read_bytes() == written
    # the store went on meanwhile
    later = {("g", "T"): {0: 7, 1: 8, 2: 3}, ("new", "T"): {0: 4}}
    assert offsets_file(path, store).over(later, Notes()) == {
        ("g", "T"): {0: 9, 1: 6, 2: 3}, ("h", "T"): {0: 1}, ("new", "T"): {0: 4}}  # fmt: skip


def test_a_server_writes_them_at_its_end(tmp_path: Path) -> None:
    store, path = golden_stores.unpack("broker_clean_5.3.3").input, tmp_path / "offsets.json"
    fields = {"consumerGroup": "kept", "topic": TOPIC, "queueId": 1, "commitOffset": 33}
    with Serving(store, "--group-offsets", str(path)) as process, Peer(process.address) as peer:
        assert peer.ask(pull(TOPIC, 1, 0, consumerGroup="kept")).code == 0
        assert peer.ask(request(RequestCode.UPDATE_CONSUMER_OFFSET, **fields)).code == 0
        assert process.end()[0] == 0
    assert json.loads(path.read_bytes())["offsetTable"][f"{TOPIC}@kept"] == {"1": 33}
    asked = Asked(opened())
    asked.broker.offsets.take(offsets_file(path, store).over({}, Notes()))
    assert asked.broker.offsets.query("kept", TOPIC, 1) == 33


def test_what_is_popped_outlives_the_server(tmp_path: Path) -> None:
    store, path = golden_stores.unpack("broker_clean_5.3.3").input, tmp_path / "offsets.json"
    before = Asked(opened())
    file = offsets_file(path, store)
    file.over({}, Notes())
    some = pop(before, "g", queueId=1)
    for each in some[::2]:
        ack(before, "g", each)
    ordered = pop(before, "g", queueId=2, order="true", maxMsgNums=3)
    ack(before, "g", ordered[0])
    file.write(before.broker)

    after = Asked(opened())
    after.now = before.now
    later = offsets_file(path, store)
    after.broker.offsets.take(later.over({}, Notes()))
    later.restore(after.broker, Notes(pytest.fail))
    assert pop(after, "g", queueId=1, maxMsgNums=1)[0].position == len(some)
    assert pop(after, "g", queueId=2, order="true") == []
    ack(after, "g", some[1])
    after.now += 60_001  # both were popped in one millisecond
    again = pop(after, "g", queueId=1, exp="nothing")
    assert [(each.position, each.times) for each in again if each.position < len(some)] == [
        (each.position, 1) for each in some[3::2]
    ]
    assert pop(after, "g", queueId=2, order="true", maxMsgNums=1)[0].position == 1


def test_rows_that_nobody_popped_are_left_out(tmp_path: Path) -> None:
    store, path = golden_stores.unpack("broker_clean_5.3.3").input, tmp_path / "offsets.json"
    wrong = [[], [1], ["g", "T", 0, [3, 1], 1, 1, 1, 1], ["g", "T", 0, [], 1, 1, 1, 1], "text"]
    rows = {"popInFlight": [*wrong, ["g", "T", 0, [1, 5], 2, 1, 1, 1]], "popOrder": [*wrong, None]}
    path.write_text(json.dumps({"offsetTable": {}, **rows}))
    broker, notes = opened(), list[str]()
    file = offsets_file(path, store)
    file.over({}, Notes())
    file.restore(broker, Notes(notes.append))
    assert [each.waiting() for _, _, each in broker.in_flight.all()] == [[5]]
    assert notes == [f"{path}: left out: {2 * len(wrong) + 1} rows of popped messages"]


def test_the_file_of_offsets_is_ours_alone_and_never_in_the_store(tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(golden_stores.unpack("broker_clean_5.3.3").input, store)
    for place in (store / "offsets.json", store / "config" / "consumerOffset.json"):
        with pytest.raises(StoreError, match=r"nothing is written there|stays"):
            offsets_file(place, store)
    elsewhere = {"storePathCommitLog": str(tmp_path / "logs")}
    (tmp_path / "logs").mkdir()
    with pytest.raises(StoreError, match="nothing is written there"):
        OffsetsFile(str(tmp_path / "logs" / "o.json"),
                    inputs_of(Place(LocalStorage(), str(store)), elsewhere))  # fmt: skip
    other = tmp_path / "other"
    other.write_text("mine")
    with pytest.raises(StoreError, match="stays"):
        offsets_file(other, store)
    other.write_text('{"offsetTable":[1]}')
    with pytest.raises(StoreError, match="no offsetTable"):
        offsets_file(other, store).over({}, Notes())
    in_store = store / "config" / "kept.json"
    in_store.write_text('{"offsetTable":{}}')  # one that is like ours
    with pytest.raises(StoreError, match="nothing is written there"):
        offsets_file(in_store, store)
    (tmp_path / "link").symlink_to(store / "config" / "consumerOffset.json")
    with pytest.raises(StoreError):
        offsets_file(tmp_path / "link", store)


def test_a_disk_that_is_full_is_reported_and_tried_again(tmp_path: Path) -> None:
    store = golden_stores.unpack("broker_clean_5.3.3").input
    folder = tmp_path / "folder"
    folder.mkdir()
    broker, notes = opened(), list[str]()
    tick = offsets_file(folder / "offsets.json", store).ticking(broker, notes.append)
    broker.offsets.commit("g", "T", 0, 9)
    folder.rename(tmp_path / "away")
    tick(5_000)
    assert "were not written" in notes[0]
    (tmp_path / "away").rename(folder)
    tick(10_000)
    assert (folder / "offsets.json").exists()
    assert len(notes) == 1
