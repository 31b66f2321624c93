"""RocketMQ's own clients sign and encrypt what they ask `reput serve`, or are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import golden_stores
from tests.rocketmq import real_clients
from tests.rocketmq.real_clients import VERSIONS, Step
from tests.serve.serving import Serving

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

TOPIC, MESSAGES = "Live0", 1420
KEYS = {"access_key": "reader", "secret_key": "12345678"}
TLS = Path(__file__).parent.parent / "serve" / "tls"
# TlsSystemConfig: a client trusts no certificate unless told to
TRUSTING = ("-Dtls.enable=true", "-Dtls.test.mode.enable=true")


@pytest.fixture(params=VERSIONS)
def client(request: pytest.FixtureRequest, needs_rocketmq: Callable[[str], None]) -> str:
    needs_rocketmq(request.param)
    return str(request.param)


def _words(folder: Path, *, keys: bool = False, tls: str = "") -> Iterator[str]:
    if keys:
        path = folder / "keys.yml"
        path.write_text("accessKey: reader\nsecretKey: 12345678\n")
        path.chmod(0o600)
        yield from ("--access-keys", str(path))
    if tls:
        (folder / "key.pem").write_bytes((TLS / "key.pem").read_bytes())
        (folder / "key.pem").chmod(0o600)
        yield from ("--tls-cert", str(TLS / "cert.pem"), "--tls-key", str(folder / "key.pem"))
    if tls == "required":
        yield "--tls-required"


def _serving(folder: Path, **words: Any) -> Serving:
    store = golden_stores.unpack("broker_clean_5.3.3").input
    return Serving(store, "--rocketmq", "5.3.3", *_words(folder, **words))


def _read(client: str, address: str, *options: str, **more: Any) -> int | str:
    """How many messages a push consumer, and a look-up by key, get; or an error's text."""
    steps: list[Step] = [
        {"do": "push", "group": "g", "topic": TOPIC, "least": 0 if "wrong" in more else MESSAGES,
         "quiet_ms": 1000, **more},
        {"do": "find", "keys": [["Live2", "order603"]], **more},
    ]  # fmt: skip
    pushed, found = real_clients.run(client, address, steps, options=options)
    if "error" in pushed:
        return str(pushed["error"])
    assert len(found["answer"]["keys"][0]) == 1
    return len(pushed["answer"]["messages"])


def test_signed_requests_are_answered_and_others_are_not(client: str, tmp_path: Path) -> None:
    with _serving(tmp_path, keys=True) as serving:
        assert _read(client, serving.address, **KEYS) == MESSAGES
        unsigned = _read(client, serving.address, wrong=True)
        assert "No accessKey is configured" in str(unsigned)
        wrong = {**KEYS, "secret_key": "12345679"}
        forged = _read(client, serving.address, **wrong, wrong=True)
        assert "Check signature failed for accessKey=reader" in str(forged)


def test_tls_is_taken_where_it_may_be_and_wanted_where_it_must(client: str, tmp_path: Path) -> None:
    with _serving(tmp_path, tls="permissive") as serving:
        assert _read(client, serving.address, *TRUSTING, tls=True) == MESSAGES
        assert _read(client, serving.address) == MESSAGES
    with _serving(tmp_path, tls="required", keys=True) as serving:
        assert _read(client, serving.address, *TRUSTING, **KEYS, tls=True) == MESSAGES
        assert "MQClientException" in str(_read(client, serving.address, **KEYS, wrong=True)) or (
            "Exception" in str(_read(client, serving.address, **KEYS, wrong=True))
        )
