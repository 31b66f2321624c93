"""The options of the Spark sources, and the schema of a source."""

import difflib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from inspect import isgeneratorfunction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import pyarrow as pa

from reput.store_format.faults import IS_GONE, StoreChanged, StoreError
from reput.store_format.release.setting_table import BY_NAME, SettingError
from reput.udfs.table.columns import BY_NAME as COLUMNS_BY_NAME
from reput.udfs.table.columns import EVERYTHING, KAFKA_BY_NAME, Choice, QueueRange, whole_matches
from reput.udfs.table.log_parts import FAIL, ON_DAMAGE, Stretches

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
ASSIGNED, SINCE_OF, UNTIL_OF = "assign", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"
SHAPE = "schema"
JUDGED, MOST_JUDGED = "judged", "maxBytesToJudge"
NAMES = (
    PATH, ROCKETMQ, COLUMNS, TOPICS, PATTERN, START, END, SINCE, UNTIL, MOST, DATA_LOSS, PARTS,
    DAMAGE, CHECK, QUEUES, ASSIGNED, SINCE_OF, UNTIL_OF, SHAPE, JUDGED,
    MOST_JUDGED,
)  # fmt: skip
SHAPES = {"native": COLUMNS_BY_NAME, "kafka": KAFKA_BY_NAME}
_BY_LOWER = {name.lower(): name for name in (*NAMES, *BY_NAME)}  # Spark lowers the case of names

T = TypeVar("T")


class OptionError(SettingError):
    """An option of a source is unknown or malformed; the message has the possible values."""


class Judgement(NamedTuple):
    """Which records of a log up to `end` are live, as `LogParts` has it. crc: of what is before."""

    end: int
    crc: int | None
    live: dict[int, Stretches]

    def as_text(self) -> str:
        return json.dumps([self.end, self.crc, list(self.live.items())])


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
    judged: Judgement | None = None
    most_judged: int = 16 << 30
    known: Mapping[str, "MessageColumn"] = field(default_factory=dict)


def given_options(given: Mapping[str, str]) -> list[str]:
    """The names of the given options, without settings and unknown names."""
    names = (_BY_LOWER.get(lower.lower(), "") for lower in given)
    return [name for name in names if name in NAMES]


def source_options(
    given: Mapping[str, str], known_columns: Mapping[str, "MessageColumn"] | None = None
) -> SourceOptions:
    """Parse given options, whose names may have any case. known_columns: None: as option `schema`
    says. Raises OptionError.
    """
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
    topic_options = [name for name in (TOPICS, PATTERN, ASSIGNED) if name in named]
    if len(topic_options) > 1:
        raise OptionError(f"options {' and '.join(topic_options)}: give one of them")

    def said(name: str, read: Callable[[str], T], wanted: str, default: Any = None) -> T | Any:
        if name not in named:
            return default
        try:
            return read(named[name].strip())
        except (ValueError, KeyError, pa.ArrowInvalid):
            raise OptionError(f"option {name}={named[name]!r}: expected {wanted}") from None

    known = said(SHAPE, lambda text: SHAPES[text.lower()], " or ".join(SHAPES), COLUMNS_BY_NAME)
    known = known if known_columns is None else known_columns
    columns = said(
        COLUMNS, lambda text: _columns(text, tuple(known)),
        f"names of columns with commas between, of {', '.join(known)},",
    )  # fmt: skip
    place = "earliest, latest, a physical offset of 0 or more, or {}"
    begin = said(START, _place, place.format(_EXAMPLE), EARLIEST)
    end = said(END, _place, place.format(_EXAMPLE), LATEST)
    assigned = said(ASSIGNED, _assigned, '{"Topic": [0, 1]}', {})
    queues = _ranges(
        assigned,
        start=begin if isinstance(begin, dict) else {},
        end=end if isinstance(end, dict) else {},
        since=said(SINCE_OF, _by_queue, _EXAMPLE, {}),
        until=said(UNTIL_OF, _by_queue, _EXAMPLE, {}),
    )
    topics = said(TOPICS, _words, "topics with commas between")
    if ASSIGNED in named:
        topics = tuple(dict.fromkeys(topic for topic, _ in assigned))
    unasked = [topic for topic, _ in queues if topics is not None and topic not in topics]
    if unasked:
        raise OptionError(f"{unasked[0]!r} has offsets or times, but {topic_options[0]} lacks it")
    choice = Choice(
        topics,
        said(PATTERN, _pattern, "a regular expression as RE2 has them"),
        said(SINCE, int, "milliseconds since 1970"),
        said(UNTIL, int, "milliseconds since 1970"),
        queues,
        ASSIGNED in named,
    )
    return SourceOptions(
        path=named[PATH],
        rocketmq=named.get(ROCKETMQ),
        settings=settings,
        columns=columns,
        choice=choice,
        start=EARLIEST if isinstance(begin, dict) else begin,
        end=LATEST if isinstance(end, dict) else end,
        on_damage=said(DAMAGE, _one_of(ON_DAMAGE), f"one of {', '.join(ON_DAMAGE)}", FAIL),
        check_body=said(CHECK, _yes_no, "true or false"),
        most_rows=said(MOST, _positive, "a number of 1 or more"),
        may_miss=not said(DATA_LOSS, _yes_no, "true or false", True),
        parts=said(PARTS, _positive, "a number of 1 or more"),
        by_queues=said(QUEUES, _yes_no, "true or false", False),
        judged=said(JUDGED, _judgement, "what reput.judged(spark, path) returns"),
        most_judged=said(
            MOST_JUDGED,
            lambda text: _positive(text, 0),
            "a number of bytes",
            SourceOptions.most_judged,
        ),
        known=known,
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


def _place(text: str) -> int | dict[tuple[str, int], int]:
    if text.startswith("{"):
        return _by_queue(text)
    return _PLACES[text.lower()] if text.lower() in _PLACES else _positive(text, 0)


_EXAMPLE = '{"Topic": {"0": 23}}'
_LIMITS = {"start": START, "end": END, "since": SINCE_OF, "until": UNTIL_OF}
_NO_PLACE = {"start": EARLIEST, "end": LATEST}  # what stands for no limit


def _by_queue(text: str) -> dict[tuple[str, int], int]:
    """A number for each queue, as Kafka's source takes it in JSON."""
    found = json.loads(text)
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise ValueError
    numbers = {(topic, int(queue)): number for topic, queues in found.items()
               for queue, number in queues.items()}  # fmt: skip
    if any(type(n) is not int or abs(n) >= 1 << 63 for n in numbers.values()):
        raise ValueError
    return numbers


def _assigned(text: str) -> dict[tuple[str, int], None]:
    found = json.loads(text)
    if not isinstance(found, dict) or not all(isinstance(each, list) for each in found.values()):
        raise ValueError
    if any(type(queue) is not int for queues in found.values() for queue in queues):
        raise ValueError
    return {(topic, queue): None for topic, queues in found.items() for queue in queues}


def _ranges(
    assigned: Mapping[tuple[str, int], None], **limits: dict[tuple[str, int], int]
) -> dict[tuple[str, int], QueueRange]:
    """What is wanted of each queue that an option names. Raises OptionError."""
    ranges = dict.fromkeys(assigned, QueueRange())
    for name, numbers in limits.items():
        for queue, number in numbers.items():
            if number == _NO_PLACE.get(name):
                continue
            if number < 0:
                raise OptionError(
                    f"option {_LIMITS[name]}: {number} of {queue[0]}, queue {queue[1]}: expected a "
                    "number of 0 or more; `earliest` and `latest` alone hold for all queues"
                )
            if assigned and queue not in assigned:
                raise OptionError(f"{queue[0]!r}, queue {queue[1]}: {ASSIGNED} lacks it")
            ranges[queue] = ranges.get(queue, QueueRange())._replace(**{name: number})
    return ranges


def _judgement(text: str) -> Judgement:
    try:
        end, crc, live = json.loads(text)
        found = {int(start): tuple((int(a), int(b)) for a, b in each) for start, each in live}
        return Judgement(int(end), None if crc is None else int(crc), found)
    except TypeError:
        raise ValueError from None


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
