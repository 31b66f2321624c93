"""The program for a list of tags, run on single messages."""

import pytest

from reput.store_format.filter.evaluate import evaluate, matches
from reput.store_format.filter.program import FALSE, NULL, TRUE, Value, ValueKind, tags_program


@pytest.mark.parametrize(
    ("tags", "has", "found"),
    [
        (["a"], "a", True),
        (["a"], "A", False),
        (["a"], "aa", False),
        (["a", "b"], "b", True),
        (["a", "b"], "a||b", False),  # a message's TAGS are one text, and not split
        ([""], "", True),
        ([], "a", False),
    ],
)
def test_the_whole_text_of_tags_is_one_of_the_list(tags: list[str], has: str, found: bool) -> None:
    assert matches(tags_program(tags), {"TAGS": has}) == found


def test_a_message_without_tags_never_matches() -> None:
    assert evaluate(tags_program(["a", ""]), {"KEYS": "a"}) == NULL
    assert not matches(tags_program([]), {})


def test_a_program_keeps_its_tags_when_the_list_changes() -> None:
    tags = ["a"]
    program = tags_program(tags)
    tags[0] = "b"
    assert matches(program, {"TAGS": "a"})
    assert hash(program) == hash(tags_program(["a"]))


def test_java_keeps_apart_what_python_takes_for_equal() -> None:
    """A Boolean, an Integer, a Long and a Double of one value are four values."""
    kinds = (ValueKind.BOOLEAN, ValueKind.INTEGER, ValueKind.LONG, ValueKind.DOUBLE)
    ones = [Value(kind, 1) for kind in kinds]
    assert len(set(ones)) == 4
    assert ones[0] == TRUE
    assert FALSE not in ones
    assert NULL not in ones
