"""Delta tables by Spark's own library: the rows of delta-rs's, clustered, each range once."""

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from reput.jobs.export import export, verify_export
from reput.jobs.exporting.delta import export_delta
from reput.jobs.exporting.delta_writers import DeltaSpark
from reput.jobs.exporting.files import Chosen
from reput.store_format.faults import DamageFound, StoreError
from reput.store_format.release.settings import SettingError
from tests import golden_stores
from tests.damaged import damaged, messages
from tests.jobs.sources.dying import Dying, Killed
from tests.jobs.sources.reading import table, up_to, write
from tests.store_format.files import s3_server

pytestmark = pytest.mark.long


def run(spark: Any, store: Path, to: Path | str, **options: Any) -> Any:
    return export(spark, str(store), str(to), format="delta", delta_by="spark", **options)


def same(spark: Any, store: Path, to: Path | str, engine: str = "spark", **options: Any) -> bool:
    return verify_export(spark, str(store), str(to), delta_by=engine, **options).same


def rows(to: Path, name: str = "messages") -> list[dict[str, Any]]:
    """As delta-rs reads them."""
    order = "physicalOffset" if name == "messages" else "logStart"
    found = DeltaTable(to / name).to_pyarrow_table().sort_by(order).to_pylist()
    return [dict(row) for row in found]


def test_both_engines_make_the_same_rows(delta: Any, tmp_path: Path) -> None:
    store = golden_stores.unpack("mixed_5.5.0").input
    ours, theirs = tmp_path / "spark", tmp_path / "deltalake"
    done = run(delta, store, ours, rocketmq="5.5.0", system_topics=True)
    export(None, str(store), str(theirs), format="delta", rocketmq="5.5.0", system_topics=True)
    wanted = table(store, rocketmq="5.5.0").to_pylist()
    assert done.messages == len(wanted)
    assert rows(ours) == rows(theirs) == wanted
    assert rows(ours, "runs") == rows(theirs, "runs")
    for name in ("messages", "runs"):
        read = delta.read.format("delta").load(str(ours / name)).toArrow().to_pylist()
        assert len(read) == len(rows(ours, name))
        made, other = (DeltaTable(each / name) for each in (ours, theirs))
        assert made.schema().to_json() == other.schema().to_json()
        for each in (made.metadata(), other.metadata()):
            assert (each.name, each.description) == (None, None)
            assert json.loads(each.configuration["reput.export"])["store"] == str(store)
    (about,) = delta.sql(f"DESCRIBE DETAIL delta.`{ours}/messages`").collect()
    assert about["clusteringColumns"] == ["topic", "storeTimestamp"]
    fields = delta.read.format("delta").load(str(ours / "messages")).schema.fields
    assert fields[-1].name == "body"
    assert all(field.metadata["comment"] for field in fields)
    # each reads what the other wrote
    assert same(delta, store, ours, "local", rocketmq="5.5.0")
    assert same(delta, store, theirs, "spark", rocketmq="5.5.0")
    some = run(delta, store, tmp_path / "some", rocketmq="5.5.0")
    other = export(None, str(store), str(tmp_path / "other"), format="delta", rocketmq="5.5.0")
    assert (some.messages, some.system) == (other.messages, other.system)
    assert some.system
    assert rows(tmp_path / "some") == rows(tmp_path / "other")
    assert run(delta, store, tmp_path / "some", rocketmq="5.5.0").system == 0  # nothing is new


def test_a_grown_log_adds_what_is_new_once_also_behind_optimize(delta: Any, tmp_path: Path) -> None:
    log, out, begun = damaged(messages(60)), tmp_path / "out", tmp_path / "begun"
    store = write(up_to(log, 20, torn=30), tmp_path / "store")
    assert run(delta, store, out).messages == 20
    assert run(delta, store, out).messages == 0
    export(None, str(store), str(begun), format="delta")
    delta.sql(f"OPTIMIZE delta.`{out}/messages`").collect()
    write(log.log, store)
    for each in (out, begun):  # Spark goes on where deltalake ended, too
        assert run(delta, store, each).messages == 40
        assert run(delta, store, each).messages == 0
        assert [row["physicalOffset"] for row in rows(each)] == log.places
    assert export(None, str(store), str(begun), format="delta").messages == 0
    assert same(delta, store, out)
    write(damaged(messages(90)).log, store)
    with pytest.raises(StoreError, match="is clustered, so that only --engine spark"):
        export(None, str(store), str(out), format="delta")


def test_killed_behind_each_step_and_run_again(delta: Any, tmp_path: Path) -> None:
    log = damaged(messages(60))
    for at in (2, 3, 6):  # behind the tables, then messages and runs of two segments
        store, out = write(up_to(log, 50), tmp_path / f"store{at}"), tmp_path / f"out{at}"
        dying = Dying(DeltaSpark(delta), at, late=True)
        with pytest.raises(Killed):
            export_delta(dying, str(store), str(out), Chosen(system_topics=False), None, {})
        write(log.log, store)  # the log has grown: the next range ends elsewhere
        run(delta, store, out)
        assert [row["physicalOffset"] for row in rows(out)] == log.places, at
        assert same(delta, store, out), at


def test_what_is_lost_or_left_out_is_reported(delta: Any, tmp_path: Path) -> None:
    log = damaged(messages(60))
    second = next(n for n, place in enumerate(log.places) if place >= 4096)
    log.flip(second + 3, 0)
    store = write(log.log, tmp_path / "store")
    with pytest.raises(DamageFound, match=rf"physical {log.places[second + 3]}\)"):
        run(delta, store, tmp_path / "out")
    done = run(delta, store, tmp_path / "salvaged", on_damage="salvage")
    assert (done.messages, done.left_out) == (59, 1)
    assert rows(tmp_path / "salvaged", "runs")[-1]["leftOut"] == 1
    assert same(delta, store, tmp_path / "salvaged")


def test_a_url_that_the_session_does_not_open_is_reported(delta: Any, tmp_path: Path) -> None:
    store = write(damaged(messages(3)).log, tmp_path / "store")
    with (
        s3_server.served(apart=True),
        pytest.raises(
            SettingError,
            match=r"open s3://bucket/archive/messages \(org.apache.hadoop.fs.Unsupp\S+: "
            r'No FileSystem for scheme "s3"\): docs/export.md .*; --engine local writes to s3://',
        ),
    ):
        run(delta, store, f"s3://{s3_server.BUCKET}/archive")
