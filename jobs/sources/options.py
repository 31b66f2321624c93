"""The options of the Spark sources, and the schema of a source."""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from inspect import isgeneratorfunction
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow as pa

from reput.store_format.faults import IS_GONE, StoreChanged, StoreError
from reput.store_format.release.setting_table import BY_NAME, SettingError
from reput.udfs.table.columns import EVERYTHING, Choice, whole_matches
from reput.udfs.table.log_parts import FAIL, ON_DAMAGE

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from reput.udfs.table.columns import MessageColumn

# ---
# The options of the Spark sources, with the names of Kafka's source where it has such options.

EARLIEST, LATEST = -2, -1  # as Kafka writes them in JSON
_PLACES = {"earliest": EARLIEST, "latest": LATEST}
_YES_NO = {"true": True, "false": False}

PATH, ROCKETMQ, COLUMNS = "path", "rocketmq", "columns"
TOPICS, PATTERN = "subscribe", "subscribePattern"
START, END = "startingOffsets", "endingOffsets"
SINCE, UNTIL = "startingTimestamp", "endingTimestamp"
MOST, DATA_LOSS, PARTS = "maxOffsetsPerTrigger", "failOnDataLoss", "minPartitions"
DAMAGE, CHECK = "onDamage", "checkBodyCRC"
QUEUES = "useConsumeQueue"
NAMES = (
    PATH, ROCKETMQ, COLUMNS, TOPICS, PATTERN, START, END, SINCE, UNTIL, MOST, DATA_LOSS, PARTS,
    DAMAGE, CHECK, QUEUES,
)  # fmt: skip
_BY_LOWER = {name.lower(): name for name in (*NAMES, *BY_NAME)}  # Spark lowers the case of names

T = TypeVar("T")


class OptionError(SettingError):
    """An option of a source is unknown or malformed; the message has the possible values."""


@dataclass(frozen=True)
class SourceOptions:
    """The parsed options of a source. Offsets are physical; None: not given."""

    path: str
    rocketmq: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    choice: Choice = EVERYTHING
    start: int = EARLIEST
    end: int = LATEST
    on_damage: str = FAIL
    check_body: bool | None = None
    most_rows: int | None = None
    may_miss: bool = False
    parts: int | None = None
    by_queues: bool = False


def given_options(given: Mapping[str, str]) -> list[str]:
    """The names of the given options, without settings and unknown names."""
    names = (_BY_LOWER.get(lower.lower(), "") for lower in given)
    return [name for name in names if name in NAMES]


def source_options(given: Mapping[str, str], known_columns: tuple[str, ...]) -> SourceOptions:
    """Parse given options, whose names may have any case. Raises OptionError."""
    named: dict[str, str] = {}
    settings: dict[str, str] = {}
    for lower, value in given.items():
        name = _BY_LOWER.get(lower.lower())
        if name is None:
            near = difflib.get_close_matches(lower.lower(), _BY_LOWER, 1, 0.6)
            hint = f"did you mean {_BY_LOWER[near[0]]}?" if near else f"known: {', '.join(NAMES)}"
            raise OptionError(f"option {lower}={value!r}: no such option; {hint}")
        (named if name in NAMES else settings)[name] = value
    if not named.get(PATH):
        raise OptionError(f"option {PATH}: give the store's root, as load(PATH) does")
    if TOPICS in named and PATTERN in named:
        raise OptionError(f"options {TOPICS} and {PATTERN}: give one of them")

    def said(name: str, read: Callable[[str], T], wanted: str, default: Any = None) -> T | Any:
        if name not in named:
            return default
        try:
            return read(named[name].strip())
        except (ValueError, KeyError, pa.ArrowInvalid):
            raise OptionError(f"option {name}={named[name]!r}: expected {wanted}") from None

    columns = said(
        COLUMNS, lambda text: _columns(text, known_columns),
        f"names of columns with commas between, of {', '.join(known_columns)},",
    )  # fmt: skip
    place = "earliest, latest or a physical offset of 0 or more"
    choice = Choice(
        said(TOPICS, _words, "topics with commas between"),
        said(PATTERN, _pattern, "a regular expression as RE2 has them"),
        said(SINCE, int, "milliseconds since 1970"),
        said(UNTIL, int, "milliseconds since 1970"),
    )
    return SourceOptions(
        path=named[PATH],
        rocketmq=named.get(ROCKETMQ),
        settings=settings,
        columns=columns,
        choice=choice,
        start=said(START, _place, place, EARLIEST),
        end=said(END, _place, place, LATEST),
        on_damage=said(DAMAGE, _one_of(ON_DAMAGE), f"one of {', '.join(ON_DAMAGE)}", FAIL),
        check_body=said(CHECK, _yes_no, "true or false"),
        most_rows=said(MOST, _positive, "a number of 1 or more"),
        may_miss=not said(DATA_LOSS, _yes_no, "true or false", True),
        parts=said(PARTS, _positive, "a number of 1 or more"),
        by_queues=said(QUEUES, _yes_no, "true or false", False),
    )


def _words(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words:
        raise ValueError
    return words


def _columns(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    words = _words(text)
    if len(set(words)) < len(words) or not set(words) <= set(known):
        raise ValueError
    return words


def _pattern(text: str) -> str:
    whole_matches(pa.array([""]), text)  # raises if it is no regular expression
    return text


def _place(text: str) -> int:
    return _PLACES[text.lower()] if text.lower() in _PLACES else _positive(text, 0)


def _yes_no(text: str) -> bool:
    return _YES_NO[text.lower()]


def _positive(text: str, least: int = 1) -> int:
    number = int(text)
    if number < least:
        raise ValueError
    return number


def _one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    return lambda text: words[words.index(text.lower())]


# ---
# What a user reads of an error: Spark shows the text of Python's traceback, in which the cause
# comes first. So an error gets a cause that is its sentence alone.

F = TypeVar("F", bound=Callable[..., Any])


def said_first(method: F) -> F:
    """Let a method (or a generator) raise its errors so that their sentence is read first."""

    @wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        with _sentence_first():
            return method(*args, **kwargs)

    @wraps(method)
    def run_through(*args: Any, **kwargs: Any) -> Any:
        with _sentence_first():
            yield from method(*args, **kwargs)

    return cast(F, run_through if isgeneratorfunction(method) else run)


@contextmanager
def _sentence_first() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        if error.filename is None:
            raise
        raise _shown(StoreChanged(f"{error.filename}{IS_GONE}"), StoreChanged) from None
    except StoreChanged as error:
        again = f"{error}; load the DataFrame again to read what is there now"
        raise _shown(StoreChanged(again), StoreChanged) from None
    except StoreError as error:
        raise _shown(error, StoreError) from None
    except SettingError as error:
        raise _shown(error, SettingError) from None


class _Shown(Exception):
    """Mixed into an error that keeps its sentence as its cause: pyspark.util's
    handle_worker_exception sets `__cause__` to None before it shows the error.
    """

    sentence: Exception

    @property
    def __cause__(self) -> BaseException | None:
        return self.sentence

    @__cause__.setter
    def __cause__(self, cause: BaseException | None) -> None:
        pass


def _shown(error: Exception, known: type[Exception]) -> Exception:
    """The error, shown with its sentence first, which is that of a `known` error."""
    if isinstance(error, _Shown):
        return error
    kind = type(error)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    shown: Any = Exception.__new__(type(kind.__name__, (_Shown, kind), names), *error.args)
    shown.__dict__.update(error.__dict__, sentence=known(str(error)))
    return cast(Exception, shown.with_traceback(error.__traceback__))


# ---
# The schema of a Spark source: all its columns, the chosen columns, or the user's schema.


def spark_schema(
    columns: Mapping[str, "MessageColumn"], chosen: Sequence[str] | None
) -> "StructType":
    """The Spark schema of the columns, with comments; chosen: only these columns, in order."""
    from pyspark.sql.types import StructField, StructType

    fields = []
    for name in columns if chosen is None else chosen:
        field, comment = columns[name]
        about = {"comment": comment}
        fields.append(StructField(name, _type(field.type), field.nullable, about))
    return StructType(fields)


def _type(kind: pa.DataType) -> "DataType":
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import ArrayType, MapType

    if pa.types.is_map(kind):
        return MapType(_type(kind.key_type), _type(kind.item_type), kind.item_field.nullable)
    if pa.types.is_list(kind):
        return ArrayType(_type(kind.value_type), kind.value_field.nullable)
    return from_arrow_type(kind)


def arrow_schema(schema: "StructType", columns: Mapping[str, "MessageColumn"]) -> pa.Schema:
    """The Arrow schema of batches for a Spark schema, perhaps the user's. Raises OptionError."""
    from pyspark.sql.pandas.types import to_arrow_schema

    for each in schema.fields:
        if each.name not in columns:
            raise OptionError(f"schema: no column {each.name!r}; there are {', '.join(columns)}")
        known = columns[each.name].field
        wanted = _type(known.type).simpleString()
        if each.dataType.simpleString() != wanted:
            raise OptionError(
                f"schema: column {each.name} is {wanted}, not {each.dataType.simpleString()}"
            )
        if known.nullable and not each.nullable:
            raise OptionError(f"schema: column {each.name} may be null")
    return to_arrow_schema(schema, timezone="UTC")
