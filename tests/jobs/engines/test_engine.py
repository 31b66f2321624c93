"""What a job may expect of its engine, on both: rows by key, extremes, and what tasks raise."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reput.jobs.engines.engine import Engine, Row
from reput.store_format.faults import DamageFound, StoreChanged, StoreError
from tests.jobs.engines.tasks import IN_PART, ROW, SAID, Fail, Say, as_they_are, in_part

pytestmark = pytest.mark.both

words = st.none() | st.sampled_from(["", "a", "b", "ä", "\U0001f600"])
small = st.none() | st.integers(-3, 3)
rows = st.lists(
    st.fixed_dictionaries({"key": small, "word": words, "value": st.none() | st.integers(-9, 9)}),
    max_size=40,
)


def none_first(row: Row, names: tuple[str, ...]) -> list[tuple[bool, Any]]:
    # texts by their bytes in UTF-8, as both engines have them
    values = [row[name].encode() if isinstance(row[name], str) else row[name] for name in names]
    return [(value is not None, 0 if value is None else value) for value in values]


def as_counted(found: list[Row], names: tuple[str, ...]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[name] for name in names) for row in found)


def check_by_key(
    engine: Engine, given: list[Row], sources: int, parts: int, key: tuple[str, ...]
) -> None:
    order = tuple(name for name in ROW.names if name not in key)
    table = pa.Table.from_pylist(given, ROW)
    shared = engine.table(table, sources).run(as_they_are, ROW).by_key(parts, key, order)
    found = shared.run(in_part, IN_PART).collect()
    assert as_counted(found, tuple(ROW.names)) == as_counted(given, tuple(ROW.names))
    by_part: dict[str, list[Row]] = {}
    for row in found:
        by_part.setdefault(row["part"], []).append(row)
    assert len(by_part) <= parts
    part_of: dict[tuple[Any, ...], str] = {}
    for part, there in by_part.items():
        assert there == sorted(there, key=lambda row: none_first(row, (*key, *order)))
        for row in there:
            assert part_of.setdefault(tuple(row[name] for name in key), part) == part


def check_extremes(engine: Engine, given: list[Row], key: tuple[str, ...]) -> None:
    table = pa.Table.from_pylist(given, ROW)
    made = engine.table(table, 3).run(as_they_are, ROW)
    greatest = [name for name in ROW.names if name not in key and name != "value"]
    found = made.extremes(key, greatest, ["value"]).collect()
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in given:
        groups.setdefault(tuple(row[name] for name in key), []).append(row)
    wanted = []
    for of, there in groups.items():
        row = dict(zip(key, of, strict=True))
        for name in greatest:
            row[name] = sorted(there, key=partial(none_first, names=(name,)))[-1][name]
        values = [r["value"] for r in there if r["value"] is not None]
        wanted.append({**row, "value": min(values, default=None)})
    names = (*key, *greatest, "value")
    assert as_counted(found, names) == as_counted(wanted, names)


SKEWED = [{"key": 1, "word": "a", "value": n} for n in range(30)] + [
    {"key": n, "word": None, "value": 0} for n in (0, 2, None)
]
KEYS = (("key",), ("key", "word"))


@pytest.mark.parametrize("key", KEYS)
def test_rows_by_key(engine: Engine, key: tuple[str, ...]) -> None:
    for given_rows in (SKEWED, SKEWED[:1], []):
        check_by_key(engine, given_rows, 3, 4, key)
        check_extremes(engine, given_rows, key)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows, st.integers(1, 5), st.integers(1, 9), st.sampled_from(KEYS))
@example(SKEWED, 2, 9, ("key",))
def test_any_rows_by_key(local: Engine, given_rows, sources: int, parts: int, key) -> None:
    check_by_key(local, given_rows, sources, parts, key)
    check_extremes(local, given_rows, key)


def test_numbers_and_tables_in_parts(engine: Engine) -> None:
    for numbers, parts in ((range(7), None), (range(2, 9), 3), (range(3), 20), (range(0), 4)):
        asked = engine.numbers(numbers, parts).run(Say(str), SAID)
        assert sorted(row["id"] for row in asked.collect()) == list(numbers)
    both = engine.numbers(range(3)).run(Say(str), SAID).also(
        engine.numbers(range(3, 5), 1).run(Say(hex), SAID)
    )  # fmt: skip
    assert {row["id"]: row["said"] for row in both.collect()} == {
        0: "0", 1: "1", 2: "2", 3: "0x3", 4: "0x4"
    }  # fmt: skip
    nothing = pa.Table.from_pylist([], ROW)
    assert engine.table(nothing, 3).run(as_they_are, ROW).collect() == []
    table = engine.table(pa.Table.from_pylist(SKEWED, ROW), 2)
    shared = table.by_key(3, ["key"], ["value"])
    assert len(shared.collect()) == len(SKEWED)
    assert as_counted(shared.extremes(["key"], ["value"]).collect(), ("key", "value")) == Counter(
        [(1, 29), (0, 0), (2, 0), (None, 0)]
    )
    assert engine.numbers(range(3, 6)).also(engine.numbers(range(1))).by_key(
        1, ["id"], []
    ).collect() == [{"id": n} for n in (0, 3, 4, 5)]


@pytest.mark.parametrize(("how", "kind", "text"), [
    ("store_error", StoreError, "a/b: offset 7: what it is"),
    ("damage", DamageFound, "a/b: offset 7: it's 'damaged', \u2013 so: 100%"),
    ("changed", StoreChanged, "a/b changed"),
    ("gone_and_named", StoreError, "a/b: names a file that is not there"),
    ("gone", StoreChanged, "a/b it's gone: is gone; it was there when the work began"),
])  # fmt: skip
def test_what_a_task_says_of_a_store_stays(engine, tmp_path, how: str, kind, text: str) -> None:
    with pytest.raises(kind) as raised:
        engine.numbers(range(5)).run(Say(Fail(how, str(tmp_path))), SAID).collect()
    assert (type(raised.value), str(raised.value)) == (kind, text)


def test_a_network_that_fails_once(engine: Engine, tmp_path: Path) -> None:
    if engine.cores < 2 or type(engine).__name__ == "SparkEngine":
        pytest.skip("a local session of Spark's has one attempt, unless its master says more")
    found = engine.numbers(range(3)).run(Say(Fail("once", str(tmp_path))), SAID).collect()
    assert len(found) == 3
    assert (tmp_path / "attempts").read_text() == "xx"
