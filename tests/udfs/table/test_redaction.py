"""What is redacted stands in no byte of an export, in whatever format, wherever it was repeated."""

import base64
import hashlib
import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from reput.jobs.export import export, verify_export
from reput.store_format.filter.texts import Repeats
from reput.store_format.layouts import SYS_INNER_BATCH, SYS_NEED_UNWRAP
from reput.store_format.message.bodies import InnerMessage, encode_inner, inner_messages
from reput.store_format.release.settings import SettingError
from tests import golden_stores
from tests.damaged import damaged
from tests.in_process import Session
from tests.jobs.sources.reading import table, write
from tests.logs.encoder import Message, properties

FORMATS = ("parquet", "jsonl", "delta", "rocketmq")
CARD, WORD = "4711-0815-2342", "Rumpelstilzchen"
SMALL = {"maxHashSlotNum": "100", "maxIndexNum": "4000", "mappedFileSizeConsumeQueue": "2000"}
BATCH = SYS_INNER_BATCH | SYS_NEED_UNWRAP


def run(store: Path, to: Path, kind: str, **options: Any) -> Any:
    spark = Session() if kind in ("parquet", "jsonl") else None
    return export(
        spark, str(store), str(to), format=kind, rocketmq="5.3.3", settings=SMALL, **options
    )  # type: ignore[arg-type]


def every_byte(folder: Path) -> bytes:
    """All files, and what is packed in them: Parquet's columns, bodies in base64."""
    found = []
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        found.append(path.read_bytes())
        if path.suffix == ".parquet":
            found.append(repr(pq.read_table(path, partitioning=None).to_pylist()).encode())
        if path.suffix == ".jsonl":
            for line in path.read_text().splitlines():
                found.append(base64.b64decode(json.loads(line).get("bodyBase64", "")))
    return b"\n".join(found)


def messages() -> list[Message]:
    secret = (("card", CARD), ("city", "Bern"), ("pin", "42"))
    inner = [InnerMessage(0, b"one", properties(*secret)), InnerMessage(0, b"two", b"a\1b\2")]
    return [
        Message(topic="A", body=b"plain", properties=properties(("KEYS", "k1"), *secret)),
        Message(topic="A", body=b"a copy", properties=properties(("__transactionId__", CARD))),
        Message(topic="A", body=b"tagged", properties=properties(("TAGS", f"card {CARD}!"))),
        Message(topic="A", body=b"longer", properties=properties(("more", f"x{CARD}y"))),
        Message(topic="A", body=encode_inner(inner), sys_flag=BATCH),
        Message(topic="A", body=zlib.compress(encode_inner(inner)), sys_flag=BATCH | 1),
    ]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_propertys_value_is_in_no_byte(kind: str, tmp_path: Path) -> None:
    store = write(damaged(messages()).log, tmp_path / "store")
    assert CARD.encode() in every_byte(store)
    done = run(store, tmp_path / "out", kind, redact=["property:card", "property:pin"])
    assert "1 redacted values have fewer than 4 bytes: not looked for" in done.warnings
    found = every_byte(tmp_path / "out")
    assert CARD.encode() not in found
    assert b"Bern" in found
    assert done.messages == 6
    if kind != "rocketmq":
        spark: Any = Session()
        assert verify_export(spark, str(store), str(tmp_path / "out"), rocketmq="5.3.3").same
        return
    rows = table(tmp_path / "out", rocketmq="5.3.3").to_pylist()
    assert [dict(row["properties"]).get("KEYS") for row in rows] == ["k1"] + [None] * 5
    assert not any("pin" in dict(row["properties"]) for row in rows)
    for row in rows[4:]:
        assert row["sysFlag"] == BATCH
        assert [each.body for each in inner_messages(row["body"])] == [b"one", b"two"]


def test_no_crc_of_what_was_there_is_left(tmp_path: Path) -> None:
    """By one, a short value that was taken out could be found again."""
    crc = ("__CRC32#", "123456789")
    made = [*messages(), Message(topic="A", body=b"last", properties=properties(("a", "b"), crc))]
    store = write(damaged(made).log, tmp_path / "store")
    for what in ("property:card", "body:hash", "body"):
        to = tmp_path / what.replace(":", "-")
        run(store, to, "parquet", redact=[what])
        [rows] = [pq.read_table(path).to_pylist() for path in to.glob("data/*.parquet")]
        assert [row["bodyCRC"] for row in rows] == [
            zlib.crc32(row["body"]) & 0x7FFFFFFF for row in rows
        ]
        assert not any("__CRC32#" in dict(row["properties"]) for row in rows)
    run(store, tmp_path / "without", "parquet", redact=["body"], bodies=False)
    [rows] = [pq.read_table(p).to_pylist() for p in (tmp_path / "without").glob("data/*.parquet")]
    assert {row["bodyCRC"] for row in rows} == {0}


@pytest.mark.parametrize("kind", FORMATS)
def test_what_cannot_be_cleared_is_named_and_refused(kind: str, tmp_path: Path) -> None:
    packed = zlib.compress(f"my card is {CARD}".encode())
    made = [*messages(), Message(topic="B", body=f"{CARD}, I said".encode()),
            Message(topic="B", body=packed, sys_flag=1),
            Message(topic=CARD, body=b"x")]  # fmt: skip
    store = write(damaged(made).log, tmp_path / "store")
    out = tmp_path / "out"
    with pytest.raises(SettingError) as caught:
        run(store, out, kind, redact=["property:card"])
    assert str(caught.value) == (
        "--redact: what is redacted stands in body (2 messages), topic (1 message) too: --redact "
        "body removes bodies, --keep-repeats leaves all of it"
    )
    assert not any(path.is_file() and "manifest" in path.name for path in out.rglob("*"))
    done = run(store, out, kind, redact=["property:card"], keep_repeats=True)
    assert "stands in body (2 messages), topic (1 message) too, and stays" in done.warnings[-1]
    run(store, tmp_path / "chosen", kind, redact=["property:card", "body"], topics=["A", "B"])
    assert CARD.encode() not in every_byte(tmp_path / "chosen")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_body_is_in_no_byte(kind: str, tmp_path: Path) -> None:
    body = f"my name is {WORD}".encode()
    made = [Message(body=body, properties=properties(("was", f"<{body.decode()}>"), ("a", "b"))),
            Message(body=zlib.compress(body), properties=properties(("was", body.decode())),
                    sys_flag=1)]  # fmt: skip
    store = write(damaged(made).log, tmp_path / "store")
    run(store, tmp_path / "none", kind, redact=["body"])
    run(store, tmp_path / "hashed", kind, redact=["body:hash"], decompress=True)
    for name in ("none", "hashed"):
        found = every_byte(tmp_path / name)
        assert WORD.encode() not in found
        assert zlib.compress(body) not in found
    assert hashlib.sha256(body).hexdigest().encode() in every_byte(tmp_path / "hashed")
    if kind == "parquet":
        [rows] = [pq.read_table(p).to_pylist() for p in (tmp_path / "none").glob("data/*.parquet")]
        assert [(row["body"], row["bodyCRC"], row["sysFlag"]) for row in rows] == [(b"", 0, 0)] * 2


@pytest.mark.parametrize(("kind", "name"), [
    ("rocketmq", "UNIQ_KEY"), ("jsonl", "UNIQ_KEY"), ("rocketmq", "KEYS"),
])  # fmt: skip
def test_a_brokers_store_repeats_no_redacted_id(name: str, kind: str, tmp_path: Path) -> None:
    """243 values of UNIQ_KEY are `__transactionId__` as well; the index had keys of both."""
    store = tmp_path / "store"
    shutil.copytree(golden_stores.unpack("broker_clean_5.3.3").input, store,
                    ignore=shutil.ignore_patterns("index", "consumequeue", "timer*"))  # fmt: skip
    rows = table(store, rocketmq="5.3.3", columns="properties")["properties"].to_pylist()
    values = {value for pairs in rows for key, value in pairs if key == name and len(value) > 11}
    assert len(values) > 2000 or name == "KEYS"
    run(store, tmp_path / "out", kind, redact=[f"property:{name}"],
        system_topics=kind != "rocketmq", keep_repeats=name == "KEYS")  # fmt: skip
    found = every_byte(tmp_path / "out")
    assert Repeats(value.encode() for value in values).found_in([found]) == set()


def test_topics_groups_and_options_are_named_too(tmp_path: Path) -> None:
    made = [Message(topic="A", properties=properties(("PGROUP", "payments-group")))]
    store = write(damaged(made).log, tmp_path / "store")
    (store / "config").mkdir()
    groups = {"subscriptionGroupTable": {"payments-group": {"groupName": "payments-group"}}}
    (store / "config" / "subscriptionGroup.json").write_text(json.dumps(groups))
    with pytest.raises(SettingError, match=r"stands in config/subscriptionGroup\.json too: --keep"):
        run(store, tmp_path / "out", "rocketmq", redact=["property:PGROUP"])
    with pytest.raises(SettingError, match="stands in the options too"):
        run(store, tmp_path / "out", "parquet", redact=["property:PGROUP"],
            sql="PGROUP = 'payments-group'")  # fmt: skip
