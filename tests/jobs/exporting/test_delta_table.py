"""Delta tables of a log's messages: each range once, whatever is killed; and what was done."""

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from reput.jobs.cli import main
from reput.jobs.export import export, verify_export
from reput.jobs.exporting.delta import export_delta
from reput.jobs.exporting.delta_writers import DeltaRs
from reput.jobs.exporting.files import Chosen
from reput.jobs.outputs.output import OutputInUse, OverlapsInput
from reput.store_format.faults import DamageFound, StoreError
from reput.store_format.release.settings import SettingError
from tests import golden_stores
from tests.damaged import START, damaged, messages
from tests.jobs.sources.dying import Dying, Killed
from tests.jobs.sources.reading import places, table, up_to, write

CHOSEN = Chosen(system_topics=False)  # as `export` by default


def run(store: Path, to: Path, **options: Any) -> Any:
    return export(None, str(store), str(to), format="delta", **options)


def check(store: Path, to: Path, **options: Any) -> Any:
    return verify_export(None, str(store), str(to), **options)


def there(to: Path) -> list[int]:
    rows = DeltaTable(to / "messages").to_pyarrow_table(columns=["physicalOffset"])
    return sorted(rows["physicalOffset"].to_pylist())


def test_the_table_has_the_rows_of_the_source(tmp_path: Path) -> None:
    store = golden_stores.unpack("small_odd_5.5.0").input
    done = run(store, tmp_path / "out", rocketmq="5.5.0", system_topics=True)
    wanted = table(store, rocketmq="5.5.0")
    made = DeltaTable(tmp_path / "out" / "messages")
    assert made.to_pyarrow_table().sort_by("physicalOffset").to_pylist() == wanted.to_pylist()
    assert done.messages == wanted.num_rows
    fields = json.loads(made.schema().to_json())["fields"]
    assert fields[-1]["name"] == "body"
    assert all(field["metadata"]["comment"] for field in fields)
    assert set(made.metadata().configuration) == {"delta.appendOnly", "reput.export"}
    assert check(store, tmp_path / "out", rocketmq="5.5.0").same


@pytest.mark.parametrize("kind", ["delta", "rocketmq"])
def test_a_wrong_filter_is_reported_before_anything_is_made(kind: str, tmp_path, capsys) -> None:
    store, out = write(damaged(messages(3)).log, tmp_path / "store"), tmp_path / "out"
    words = ["export", str(store), "--output", str(out), "--as", kind, "--sql", "a >"]
    assert main(words) == 2
    assert "SQL92 expression: line 1, column 4: ends where" in capsys.readouterr().err
    assert not out.exists()


def test_times_are_words_as_of_a_query_too(tmp_path, capsys) -> None:
    store = write(damaged(messages(6)).log, tmp_path / "store")
    words = ["export", str(store), "--output", str(tmp_path / "out"), "--as", "delta"]
    assert main([*words, "--since", str(START + 1), "--until", str(START + 3), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["messages"] == 2
    assert main([*words, "--since", str(START + 1), "--until", str(START + 3)]) == 0
    assert "messages  0\n" in capsys.readouterr().out  # of a table nobody counts files


def test_a_grown_log_adds_what_is_new_and_nothing_twice(tmp_path: Path) -> None:
    log, out = damaged(messages(60)), tmp_path / "out"
    store = write(up_to(log, 20, torn=30), tmp_path / "store")
    assert run(store, out).messages == 20
    assert run(store, out).messages == 0
    write(log.log, store)
    assert run(store, out).messages == 40
    assert run(store, out).messages == 0
    assert there(out) == log.places
    runs = DeltaTable(out / "runs").to_pyarrow_table().sort_by("logStart").to_pylist()
    first = sum(place < 4096 for place in log.places)  # in the first segment
    assert [row["messages"] for row in runs if row["messages"]] == [20, first - 20, 60 - first]
    assert [a["logEnd"] for a in runs[:-1]] == [b["logStart"] for b in runs[1:]]
    assert check(store, out).same


def test_killed_at_each_step_and_run_again_nothing_is_there_twice(tmp_path: Path) -> None:
    log = damaged(messages(60))
    store = write(log.log, tmp_path / "store")
    for at in range(1, 7):  # two tables made, then messages and runs of two segments
        for late in (False, True):
            out = tmp_path / f"out{at}{late}"
            with pytest.raises(Killed):
                export_delta(Dying(DeltaRs(), at, late), str(store), str(out), CHOSEN, None, {})
            run(store, out)
            assert there(out) == log.places, (at, late)
            assert check(store, out).same, (at, late)


def test_what_was_deleted_before_it_was_read_is_reported(tmp_path: Path) -> None:
    log, out = damaged(messages(60)), tmp_path / "out"
    store = write(up_to(log, 10), tmp_path / "store")
    run(store, out)
    write(log.log, store)
    (store / "commitlog" / f"{0:020d}").unlink()
    done = run(store, out)
    assert "bytes before 4096 were deleted unread" in done.notes[0]
    runs = DeltaTable(out / "runs").to_pyarrow_table().sort_by("logStart").to_pylist()
    assert runs[-1]["lostBefore"] == 4096 - log.places[10]
    assert check(store, out).same


def test_ranges_of_other_options_or_logs_are_not_mixed(tmp_path: Path) -> None:
    log, out = damaged(messages(60)), tmp_path / "out"
    store = write(log.log, tmp_path / "store")
    run(store, out)
    with pytest.raises(StoreError, match="ranges are not mixed"):
        run(store, out, bodies=False)
    write(damaged(messages(60, body=b"other!!!")).log, store)
    with pytest.raises(StoreError, match="of another log"):
        run(store, out)
    write(up_to(log, 3), store)
    (store / "commitlog" / f"{4096:020d}").unlink()
    with pytest.raises(StoreError, match=r"the log of .* ends at|of another log"):
        run(store, out)


def test_another_log_is_reported_also_behind_a_range_that_was_just_noted(tmp_path: Path) -> None:
    store, out = write(damaged(messages(20)).log, tmp_path / "store"), tmp_path / "out"
    with pytest.raises(Killed):  # between the first messages and their row in runs
        export_delta(Dying(DeltaRs(), 4, late=False), str(store), str(out), CHOSEN, None, {})
    write(damaged(messages(60, body=b"other!!!")).log, store)
    with pytest.raises(StoreError, match="of another log"):
        run(store, out)


def test_damage_stops_where_it_is_and_salvage_goes_past(tmp_path: Path) -> None:
    log = damaged(messages(60))
    second = next(n for n, place in enumerate(log.places) if place >= 4096)
    log.flip(second + 3, 0)
    store = write(log.log, tmp_path / "store")
    with pytest.raises(DamageFound, match=rf"physical {log.places[second + 3]}\)"):
        run(store, tmp_path / "out")
    assert not (tmp_path / "out" / "messages" / "_delta_log" / f"{1:020d}.json").exists()
    done = run(store, tmp_path / "salvaged", on_damage="salvage")
    assert (done.messages, done.left_out) == (59, 1)
    assert there(tmp_path / "salvaged") == places(store, onDamage="salvage")
    assert check(store, tmp_path / "salvaged").same


def test_verify_names_what_differs(tmp_path: Path) -> None:
    store, out = write(damaged(messages(60)).log, tmp_path / "store"), tmp_path / "out"
    run(store, out)
    for made in (out / "messages").glob("*.parquet"):
        made.unlink()
        break
    assert "cannot be read" in check(store, out).differences[0]
    assert main(["export", str(store), "--output", str(out), "--verify"]) == 1


def test_other_folders_and_words_are_refused(tmp_path: Path) -> None:
    store = write(damaged(messages(3)).log, tmp_path / "store")
    with pytest.raises(OverlapsInput):
        run(store, store / "commitlog" / "table")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("!")
    with pytest.raises(OutputInUse, match="file"):
        run(store, tmp_path / "mine")
    with pytest.raises(SettingError, match="only added to"):
        run(store, tmp_path / "out", replace=True)
    with pytest.raises(SettingError, match="--engine spark: expected a session"):
        run(store, tmp_path / "out", delta_by="spark")
