"""Who may ask: keys, signatures and TLS. And the file that keeps what groups commit."""

import argparse
import base64
import hashlib
import hmac
import json
import os
import shutil
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from reput.broker.serving.broker import Broker, Caller
from reput.broker.serving.groups import GroupOffsets
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.broker.wire.remoting import signature, signed_by
from reput.jobs.cli import main
from reput.jobs.outputs.output import inputs_of
from reput.jobs.sockets.access import OffsetsFile, guard_by, read_access_keys, serve_slaves
from reput.jobs.sockets.connection import tls_mode
from reput.store_format.discover.config import Offsets
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Place
from reput.store_format.files.local import LocalStorage
from reput.store_format.notes import Notes
from reput.store_format.release.settings import SettingError
from tests import golden_stores
from tests.broker.serving.served import message, served
from tests.broker.writer.stores import TINY
from tests.jobs.sockets.asked import TOPIC, Asked, opened
from tests.jobs.sockets.asking import Peer, pull, request
from tests.jobs.sockets.popping import ack, pop
from tests.jobs.sockets.serving import Serving
from tests.jobs.sockets.tls_client import MADE, put_files

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


KEYS = {"reader": "12345678"}


def read(folder: Path, content: bytes, mode: int = 0o600) -> dict[str, str]:
    path = folder / "keys.yml"
    path.write_bytes(content)
    path.chmod(mode)
    return read_access_keys(str(path))


def why(body: bytes = b"", /, **fields: Any) -> str | None:
    """Why a request is refused; None: it is not. No guard looks at the broker or the caller."""
    nobody = Caller(1, "10.0.0.1:5000", "127.0.0.1:9876", 0)
    said = guard_by(KEYS)(cast(Broker, None), request(11, body=body, **fields), nobody)
    assert said is None or said.code == ResponseCode.NO_PERMISSION
    return said and said.remark


def signed(secret: str, body: bytes, **fields: str) -> dict[str, Any]:
    """AclUtils.calSignature: HMAC-SHA1 over the values by their names, and the body."""
    content = "".join(fields[name] for name in sorted(fields)).encode() + body
    digest = hmac.new(secret.encode(), content, hashlib.sha1).digest()
    return {**fields, "Signature": base64.b64encode(digest).decode()}


@pytest.mark.parametrize(("lines", "keys"), [
    ("accessKey: a\nsecretKey: b", {"a": "b"}),
    ("accessKey: 'a'\r\nsecretKey: \"b#c\"\r\n", {"a": "b#c"}),
    ("accounts:\n  - accessKey: a # who\n    secretKey: b\n    admin: false", {"a": "b"}),
    ("accessKey: a#b # who\nsecretKey: c#d", {"a#b": "c#d"}),
    ("# accessKey: no\naccessKey: a\ntopicPerms:\n- T=DENY\nsecretKey: b", {"a": "b"}),
    ("accessKey: a\nsecretKey: b\naccessKey: c\nsecretKey: b", {"a": "b", "c": "b"}),
    ("accessKey: \u00e9\nsecretKey: 1", {"\u00e9": "1"})])  # fmt: skip
def test_pairs_of_lines_are_read_and_all_else_is_not(tmp_path, lines, keys) -> None:
    assert read(tmp_path, lines.encode()) == keys


@pytest.mark.parametrize(("content", "said"), [
    (b"accessKey: a\n\xff", "is not text in UTF-8"),
    (b"#" * ((1 << 20) + 1), "more than 1048576 bytes"),
    (b"secretKey: hidden\n", "line 1: .* do not alternate"),
    (b"accessKey: a\nsecretKey: hidden\nsecretKey: hidden\n", "line 3: .* do not alternate"),
    (b"accessKey: a\nsecretKey: has hidden blanks\n", "with its secretKey"),
    (b"accessKey: a\nsecretKey: b\naccessKey: a\nsecretKey: hidden\n", "accessKey"),
    (b"", "with its secretKey")])  # fmt: skip
def test_what_is_no_list_of_keys_is_told_without_them(tmp_path, content: bytes, said: str) -> None:
    with pytest.raises(StoreError, match=said) as error:
        read(tmp_path, content)
    assert "hidden" not in str(error.value)


def test_a_request_is_let_through_by_its_key_s_signature_alone() -> None:
    assert why(b"body", **signed("12345678", b"body", AccessKey="reader", topic="T")) is None
    assert why() == "No accessKey is configured"
    assert why(AccessKey="n" * 99) == f"No acl config for {'n' * 64}"
    failed = "Check signature failed for accessKey=reader"
    assert why(AccessKey="reader") == failed
    assert why(b"other", **signed("12345678", b"body", AccessKey="reader")) == failed
    assert why(**signed("87654321", b"", AccessKey="reader")) == failed
    for secret in ("no account", "", "12345678"):
        fields = signed(secret, b"", AccessKey="other")
        assert why(**fields) == "No acl config for other"


def test_access_keys_are_read_from_a_file_of_their_owner(tmp_path: Path) -> None:
    for mode in (0o640, 0o604, 0o620, 0o602):
        with pytest.raises(StoreError, match="chmod 600") as error:
            read(tmp_path, b"accessKey: one\nsecretKey: hidden\n", mode)
        assert "hidden" not in str(error.value)
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(StoreError, match="is not a file"):
        read_access_keys(str(tmp_path / "fifo"))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Words for `reput serve`."""
    folder = put_files(tmp_path_factory.mktemp("tls"))
    return ["--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem")]


def test_what_is_no_certificate_is_refused(certificate: list[str], tmp_path: Path) -> None:
    _, cert, _, key = certificate
    with pytest.raises(StoreError, match="do not fit"):
        tls_mode(key, key, False)
    (tmp_path / "key.pem").write_bytes(Path(key).read_bytes())
    (tmp_path / "key.pem").chmod(0o644)
    with pytest.raises(StoreError, match="chmod 600"):
        tls_mode(cert, str(tmp_path / "key.pem"), False)


@pytest.mark.parametrize("missing", ["--tls-cert", "--tls-key", "--access-keys"])
def test_a_file_that_is_missing_is_named_by_its_option(missing, certificate, capsys) -> None:
    store = str(golden_stores.unpack("broker_clean_5.3.3").input)
    assert main(["serve", store, *certificate, missing, "/none"]) == 2
    assert f"{missing} /none: No such file or directory" in capsys.readouterr().err


class TlsPeer(Peer):
    """A connection by TLS."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        context = ssl.create_default_context(cafile=str(MADE / "cert.pem"))
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


# --- Committed offsets beside a store: what the file says goes before what the store says.
STORE: Offsets = {("g", "T"): {0: 7, 1: 8}, ("g", "U"): {0: 1}}


def over(path: Path, content: str, notes: Notes | None = None) -> Offsets:
    path.write_text(content)
    return OffsetsFile(str(path), ()).over(STORE, notes or Notes())


def test_without_offsets_of_the_file_a_group_is_where_the_store_has_it(tmp_path: Path) -> None:
    file = OffsetsFile(str(tmp_path / "no.json"), ())
    assert file.over(STORE, Notes()) == STORE
    assert not (tmp_path / "no.json").exists()
    notes = Notes()
    assert over(tmp_path / "o", '{"offsetTable":{"T@g":[],"nogroup":{"0":1}}}', notes) == STORE
    assert len(notes.lines) == 1


@pytest.mark.parametrize(
    "rest", ["", "{}", "null}", "[1]}", "7}", '{"T@g":{"0":1}', "{" + '"a":{' * 100_000]
)
def test_a_file_that_was_cut_or_changed_is_refused_and_stays(tmp_path: Path, rest: str) -> None:
    content = '{"offsetTable":' + rest
    with pytest.raises(StoreError, match=r"o: has no offsetTable; it is left as it is"):
        over(tmp_path / "o", content)
    assert (tmp_path / "o").read_text() == content


# --- `reput serve --ha-listen`: the log goes to slaves, all of it, while clients are served.
HERE = ("127.0.0.1", 0)
SETTINGS = {name: str(value) for name, value in TINY.items()}


def words(store: Path, at: int | None = None, follow: bool = False) -> argparse.Namespace:
    return argparse.Namespace(store=f"{store}/", rocketmq="5.3.3", at=at, follow=follow)


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return served(tmp_path / "store", [message(0)])


def test_slaves_get_the_log_from_where_they_are(tmp_path: Path, asked: Asked) -> None:
    said: list[str] = []
    stop = serve_slaves(words(tmp_path / "store"), HERE, SETTINGS, asked.broker, said.append)
    address = asked.broker.slaves_at
    assert address is not None
    assert said[0] == f"slaves get the log at 127.0.0.1:{address[1]}"
    raw = (tmp_path / f"store/commitlog/{0:020d}").read_bytes()
    size = struct.unpack_from(">i", raw)[0]
    with socket.create_connection(address, 5.0) as peer:
        peer.sendall(struct.pack(">q", 0))
        file = peer.makefile("rb")
        assert struct.unpack(">qi", file.read(12)) == (0, size)
        assert file.read(size) == raw[:size]
        stop()
    with pytest.raises(OSError, match=r"refused|reset"):
        socket.create_connection(address, 5.0)


def test_a_store_as_it_once_was_or_without_a_log_has_no_slaves(tmp_path, asked) -> None:
    with pytest.raises(SettingError, match="sends all of the log: not with --at"):
        serve_slaves(words(tmp_path / "store", at=0), HERE, SETTINGS, asked.broker, print)
    assert asked.broker.slaves_at is None
    with pytest.raises(StoreError):
        serve_slaves(words(tmp_path / "none"), HERE, SETTINGS, asked.broker, print)
    assert asked.broker.slaves_at is None
