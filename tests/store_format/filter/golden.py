# ruff: noqa: E501 - tables of cases
"""What RocketMQ's own filter classes say of random expressions, committed as `sql.json`.

`python -m tests.store_format.filter.golden` has RocketMQ answer anew (needs Maven once).
"""

import base64
import json
from pathlib import Path
from typing import Any

from reput.store_format.message.message import parse_properties
from tests.logs import encoder
from tests.store_format.filter.expressions import Expressions, properties

RELEASES = ("4.9.7", "5.3.3", "5.5.0")
FILE = Path(__file__).parent / "sql.json"
_RECORDS = 16
_EXPRESSIONS = 240
# What random expressions seldom hold.
CHOSEN = (
    "a = 1", "a = 5.0", "a > 5", "a > 5.5", "a <> 'x'", "NOT a", "a", "a IS NULL", "a IS NOT NULL",
    "a BETWEEN 1 AND 7", "a BETWEEN 7 AND 1", "a BETWEEN 5.5 AND 7", "a NOT BETWEEN 1 AND 7",
    "a BETWEEN -1 AND -7", "a IN ('1', '5')", "a NOT IN ('1', '5')", "a IN (1)", "5 IN ('5')",
    "a CONTAINS 'x'", "a NOT CONTAINS 'x'", "NOT (a CONTAINS 'x')", "a CONTAINS ''",
    "a NOT STARTSWITH ''", "a STARTSWITH 'x' AND b ENDSWITH 'x'", "'xx' CONTAINS 'x'",
    "a = 1 b = 2", "a = 1)", "a = 1 !", "a = 1 NOT", "a = 1 IS", "a = 1 -- end", "-- start\na = 1",
    "/* ** */a = 1", "/* a = 1", "a = 0.0", "a = -0", "a = -5", "a = - -5", "a = --5", "a = +5",
    "a = TRUE", "TRUE = a", "TRUE = 5", "5 = TRUE", "NULL = 1", "a = NULL", "NULL", "NOT NULL",
    "TRUE", "FALSE", "5", "'x'", "-5", "(5)", "(a)", "a = b", "a > b", "a > 'x'", "a > TRUE",
    "a > -(b > 5)", "a = -(b > 5)", "-(b > 5) = -(b > 5)", "-a IS NULL", "a > 5 > 6", "a = 1 = TRUE",
    "a > 5 OR b = 'x'", "b = 'x' OR a > 5", "a > 5 AND b = 'x'", "a = 9223372036854775808",
    "a = -9223372036854775808", "a = 2147483648", "a = 5l", "a = 0l", "a = 1e400", "a = 1e-400",
    "a = 'it''s'", "a = 'it's'", "A = 1", "a == 1", "a != 1", "a LIKE 'x'", "a < 'x", "", " ", "()",
    "a is not null and not b in ('x')", "a CONTAINS 'x' CONTAINS 'y'", "(a > 5) IS NULL",
)  # fmt: skip


def raw_properties() -> list[bytes]:
    """The properties of the records, as they stand in them."""
    good = [encoder.properties(*properties(n).items()) for n in range(_RECORDS - 3)]
    broken = b"a\x01\xff5\x02b\x01\xed\xa0\x80\x02price\x01\xef\xbf\xbd\x02"
    twice = b"a\x017\x02a\x015\x02b\x01x\x01y\x02TAGS\x02\x01\x02"
    return [*good, b"", broken, twice]


def records(raw: list[bytes]) -> list[str]:
    """Whole records with these properties, in base64."""
    made = [encoder.encode(encoder.Message(properties=one), 0) for one in raw]
    return [base64.b64encode(record).decode() for record in made]


def ours(parse: Any, raw: list[bytes], split: bool) -> str | None:
    """What our filter says of each record, as a text of 1 and 0; None where it does not parse.

    parse: gives the filter, or raises ValueError.
    """
    try:
        wanted = parse()
    except ValueError:
        return None
    return "".join("01"[wanted.matches(None, parse_properties(one, split), None)] for one in raw)


def main() -> None:
    from tests.rocketmq.driver import Driver

    source = Expressions(seed=16)
    expressions = [*CHOSEN, *(source.one() for _ in range(_EXPRESSIONS))]
    answers = []
    for release in RELEASES:
        with Driver(release) as driver:
            said = driver.ask(
                "filter.sql", expressions=expressions, records=records(raw_properties())
            )
        answers.append(said["answers"])
    lines = [json.dumps(list(row)) for row in zip(expressions, *answers, strict=True)]
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")


if __name__ == "__main__":
    main()
