"""`--redact`: its words, and what is done where a redacted value stands elsewhere too."""

from collections import Counter

import pytest

from reput.jobs.exporting.files import looked_through, redaction
from reput.store_format.release.settings import SettingError
from reput.udfs.table.redaction import Redaction

WORDS = "expected body, body:hash or property:NAME"


@pytest.mark.parametrize(
    ("words", "body", "names"),
    [
        (["body"], "body", set()),
        (["body", "body"], "body", set()),
        (["body:hash", "property:A"], "body:hash", {"A"}),
        (["property:A", "property:A", "property:b:c", "property: "], None, {"A", "b:c", " "}),
    ],
)
def test_bodies_or_properties_by_name(words: list[str], body: str | None, names: set[str]) -> None:
    made = redaction(words)
    assert made is not None
    assert (made.body, set(made.properties)) == (body, names)


def test_without_words_nothing_is_taken_out() -> None:
    assert redaction([]) is None


@pytest.mark.parametrize(
    "words", [["body", "body:hash"], ["body:hash", "body"], ["property:"], ["Body"], ["body:md5"],
              [""]],
)  # fmt: skip
def test_other_words_are_refused(words: list[str]) -> None:
    with pytest.raises(SettingError, match=f"^--redact {words[-1]}: {WORDS}$"):
        redaction(words)


class Log:
    """What a log's messages have. values: of redacted properties; left: where else they stand."""

    def __init__(self, values: dict[bytes, int], left: dict[bytes, int] | None = None) -> None:
        self.values, self.left = Counter(values), Counter(left or {})
        self.looks = 0

    def __call__(self, redacted: Redaction) -> Counter[bytes]:
        self.looks += 1
        return self.left if redacted.repeats.texts else self.values


PHONE = Redaction(None, frozenset({"phone"}))


def test_of_bodies_alone_no_value_is_looked_for() -> None:
    log, warnings = Log({b"+49 170 123": 1}), list[str]()
    only_body = Redaction("body")
    assert looked_through(only_body, log, {"the options": "x"}, False, warnings) is only_body
    assert (log.looks, warnings) == (0, [])


def test_values_of_fewer_than_four_bytes_are_counted_and_not_looked_for() -> None:
    log, warnings = Log({b"123": 7, b"": 1, b"1234": 1}), list[str]()
    found = looked_through(PHONE, log, {}, False, warnings)
    assert found.repeats.texts == {b"1234"}
    assert warnings == ["2 redacted values have fewer than 4 bytes: not looked for"]
    log, warnings = Log({b"123": 7}, {b"topic": 3}), []
    assert not looked_through(PHONE, log, {"the options": "123"}, False, warnings).repeats.texts
    assert (log.looks, len(warnings)) == (1, 1)


@pytest.mark.parametrize(
    ("left", "texts", "said"),
    [
        ({b"topic": 1234}, {}, "topic (1,234 messages) too: --keep-repeats leaves all of it"),
        (
            {b"storeHost": 1, b"body": 2}, {},
            "body (2 messages), storeHost (1 message) too: "
            "--redact body removes bodies, --keep-repeats leaves all of it",
        ),
        (
            {}, {"config/topics.json": "nothing", "the options": "T || 12345678"},
            "the options too: --keep-repeats leaves all of it",
        ),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_taken_out_is_refused_or_kept_with_a_warning(
    left: dict[bytes, int], texts: dict[str, str], said: str
) -> None:
    log, warnings = Log({b"12345678": 1}, left), list[str]()
    with pytest.raises(SettingError) as refused:
        looked_through(PHONE, log, texts, False, warnings)
    assert str(refused.value) == f"--redact: what is redacted stands in {said}"
    assert looked_through(PHONE, log, texts, True, warnings).repeats.texts == {b"12345678"}
    begin = str(refused.value).partition(" too: ")[0]
    assert warnings == [f"{begin} too, and stays"]


def test_where_no_value_is_repeated_nothing_is_said() -> None:
    warnings: list[str] = []
    texts = {"the options": "x12345678", "topics": ""}  # a part of another word is no repeat
    found = looked_through(PHONE, Log({b"12345678": 1}), texts, False, warnings)
    assert (found.body, found.properties) == (PHONE.body, PHONE.properties)
    assert (list(found.repeats.texts), warnings) == ([b"12345678"], [])
