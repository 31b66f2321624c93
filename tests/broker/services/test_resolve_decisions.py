"""A file that decides transactions: one name and one word a line."""

import pytest

from reput.broker.services import resolve
from reput.broker.services.resolve import Outcome, read_decisions
from reput.store_format.faults import StoreError

KEY = "7F0000010001000000000A1B2C3D0000"
COMMIT, ROLLBACK = Outcome.COMMIT, Outcome.ROLLBACK


def test_a_line_names_a_transaction_by_its_key_or_by_its_place() -> None:
    text = f"\n# all of Monday's\n  {KEY}\tcommit \r\n#x y z\n1024 ROLLBACK\n"
    found = read_decisions("f", text)
    assert found.named == {KEY: COMMIT, 1024: ROLLBACK}
    assert found.default is None
    assert read_decisions("f", "").named == {}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("0", 0), ("007", 7), ("9" * 20, int("9" * 20)), ("9" * 21, "9" * 21), ("-1", "-1"),
        ("1.0", "1.0"), ("\u0661", "\u0661"), ("\u00b2", "\u00b2"), ("1a", "1a"),
    ],
)  # fmt: skip
def test_at_most_20_decimal_digits_are_a_place(name: str, key: str | int) -> None:
    assert read_decisions("f", f"{name} commit").named == {key: COMMIT}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a", "f: line 1: 1 words"), ("\n\na commit now", "f: line 3: 3 words"),
        ("a keep", "f: line 1: decision 'keep'"), ("a commit\nb " + "x" * 99, "'" + "x" * 60 + "'"),
        ("a commit\na rollback", "f: line 2: 'a' was decided otherwise"),
        ("7 commit\n007 rollback", "f: line 2: '007' was decided otherwise"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_its_line(text: str, told: str) -> None:
    with pytest.raises(StoreError) as wrong:
        read_decisions("f", text)
    assert told in str(wrong.value)


def test_the_same_decision_twice_is_one() -> None:
    assert read_decisions("f", "a commit\na COMMIT\n7 rollback\n07 rollback").named == {
        "a": COMMIT, 7: ROLLBACK,
    }  # fmt: skip


def test_a_file_has_so_many_lines_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "_LINES_MOST", 2)
    assert len(read_decisions("f", "a commit\nb commit\n\n# c").named) == 2
    with pytest.raises(StoreError, match="line 3: more than 2 lines"):
        read_decisions("f", "a commit\nb commit\nc commit")
