# ruff: noqa: E501 - a line of source is quoted whole
"""Bugs in filters, bodies and allocation, and the tests that must turn red (tests/mutants.py)."""

from tests.planting import Bug

_EVALUATE, _ROWS = "store_format/filter/evaluate.py", "store_format/filter/rows.py"
_EXPRESSIONS, _VALUES = "store_format/filter/expressions.py", "store_format/filter/java_values.py"
_PARSER, _GREP = "store_format/filter/parser.py", "store_format/filter/grep.py"
_ROW_VALUES = "store_format/filter/row_values.py"
_FILTERS, _BODIES = "store_format/filter/filters.py", "store_format/message/bodies.py"
_ALLOCATION = "broker/allocation.py"
_SAYS = ("tests/store_format/filter/test_sql.py", "-k", "test_what_rocketmq_says")
_AT_ONCE = (
    "tests/store_format/filter/test_sql.py",
    "-k",
    "at_once or any_bytes or last_counts or rounded or between",
)
_TAGS, _GREPPED = (
    ("tests/store_format/filter/test_filters.py",),
    ("tests/store_format/filter/test_grep.py",),
)
_BODY, _SHARE = (
    ("tests/store_format/message/test_bodies.py",),
    ("tests/broker/test_allocation.py",),
)

BUGS = (
    # SQL92, one message
    Bug("what throws does not match", _EVALUATE + "::matches", "    except Thrown:\n        return False",
        "    except Thrown:\n        return True", _SAYS),
    Bug("AND is decided before what would throw", _EXPRESSIONS + "::Expressions.both",
        "as_boolean(right), Op.AND, Op.JUMP_IF_FALSE)", "as_boolean(right), Op.AND, None)", _SAYS),
    Bug("a BETWEEN's second bound is not looked at where the first decides", _EXPRESSIONS + "::_between",
        "value.code += [(rest, len(second)), *second]", "value.code += [(rest, 0), *second]", _SAYS),
    Bug("a bare property is FALSE", _EVALUATE + "::_cast", "return value if value == NULL else FALSE",
        "return value if value == NULL else TRUE", _SAYS),
    Bug("a missing property is neither IN nor NOT IN", _EVALUATE + "::_in",
        "return value if value == NULL else _truth(value.of in texts)",
        "return _truth(value.of in texts)", _SAYS),
    Bug("NOT CONTAINS of a missing property is FALSE", _EVALUATE + "::_text_test",
        "_truth(value.kind == ValueKind.TEXT and test(value.of, text) == wanted)",
        "_truth((value.kind == ValueKind.TEXT and test(value.of, text)) == wanted)", _SAYS),
    Bug("an empty text is contained in nothing", _EXPRESSIONS + "::_text_test", "    if not text:  # FALSE",
        "    if False:  # FALSE", _SAYS),
    Bug("a literal tells by its size whether it is an Integer", _EXPRESSIONS + "::Expressions.decimal",
        "ValueKind.INTEGER if number <= _INT_MOST else ValueKind.LONG", "ValueKind.LONG", _SAYS),
    Bug("0.0 is refused", _EXPRESSIONS + "::Expressions.floating", "        if number == 0:", "        if number < 0:", _SAYS),
    Bug("TRUE = a throws", _VALUES + "::compare", "            raise Thrown  # RocketMQ casts the wrong side",
        "            one, other = other, one", _SAYS),
    Bug("two texts are ordered as doubles", _VALUES + "::compare_ordered",
        "        return _order_of_doubles(parse_double(left.of), parse_double(right.of))",
        "        return _order(left.of, right.of)", _SAYS),
    Bug("decimal digits of all scripts are digits", "store_format/java/text.py::parse_integer",
        "unicodedata.decimal(c, -1) if ord(c) < 0x10000", "unicodedata.decimal(c, -1) if ord(c) < 0x80", _SAYS),
    Bug("the rest after a complete expression is ignored", _PARSER + "::_parse",
        'if "$END" not in steps.accepts():', "if True:", _SAYS),
    Bug("a bound of a BETWEEN is refused where the first is greater", _EXPRESSIONS + "::_check_bounds",
        "if compare(high.constant, low.constant) >= 0:", "if True:", _SAYS),
    Bug("CONTAINS is a word from 5.1.3 on", "store_format/release/profiles.py::profile",
        'sql_text_words=since("5.1.3")', "sql_text_words=True", ("tests/store_format/filter/test_sql.py", "-k", "words")),
    Bug("an expression has a greatest depth", _PARSER + "::_STACK_MOST", "_STACK_MOST = 2000", "_STACK_MOST = 10**7",
        ("tests/store_format/filter/test_sql.py", "-k", "errors")),
    # SQL92, a window at once
    Bug("at once: the last of two properties of a name counts", "store_format/log/properties.py::find_named",
        "                    if pair.name_end - at == length and same_bytes(",
        "                    if spans[number, 0] < 0 and pair.name_end - at == length and same_bytes(", _AT_ONCE),
    Bug("at once: many digits are left to the slow way", _ROW_VALUES + "::_DIGITS_MOST", "_DIGITS_MOST = 15",
        "_DIGITS_MOST = 18", _AT_ONCE),
    Bug("at once: -0 is left to the slow way", _ROW_VALUES + "::_parse_double", "if digits == 0 or (negative and number == 0):",
        "if digits == 0:", _AT_ONCE),
    Bug("at once: texts that are not UTF-8 are left to the slow way", _ROW_VALUES + "::_compare_texts",
        "if from_window and other_from_window and not _ascii(", "if False and not _ascii(", _AT_ONCE),
    Bug("at once: a BETWEEN's first result may be null", _ROWS + "::_run",
        "                stack[top, 0] = kind\n                stack[top, 1] = number\n                top += 1",
        "                stack[top, 0] = BOOLEAN\n                stack[top, 1] = number\n                top += 1", _AT_ONCE),
    Bug("of several filters all must want a message", _FILTERS + "::AllOf.judge",
        "(verdicts != Match.NO) & (found != Match.NO)", "(found != Match.NO)",
        ("tests/store_format/filter/test_sql.py", "-k", "several")),
    # tags
    Bug("the client compares the tags' texts", _FILTERS + "::ProgramFilter.matches", "        return matches(self.program, properties)",
        "        return matches(self.program, properties) or properties.get('TAGS') == 'BB'", _TAGS),
    Bug("a tagsCode counts by its lower 32 bits", _FILTERS + "::TagFilter.may_match",
        "((tags_code + (1 << 31)) & 0xFFFFFFFF) - (1 << 31) in self.codes", "tags_code in self._codes", _TAGS),
    Bug("Java's trim leaves a blank beyond ASCII", _FILTERS + "::tag_filter", "part.strip(_BLANKS)", "part.strip()", _TAGS),
    # regular expressions
    Bug("a compressed body is searched decompressed", _GREP + "::GrepFilter._searched", "return decompressed(body, record.sys_flag, self.cap)",
        "return body", _GREPPED),
    Bug("a window's compressed bodies are asked one by one", _GREP + "::_find_texts",
        "if row.sysFlag & SYS_COMPRESSED or row.bodyElided:", "if row.bodyElided:", _GREPPED),
    # bodies
    Bug("without a type a body is zlib", _BODIES + "::_CODECS", "_CODECS = {0: _ZLIB,", "_CODECS = {0: _LZ4,", _BODY),
    Bug("a zlib body that is cut short is reported", _BODIES + "::_inflated", "if len(out) <= cap and not inflater.eof:",
        "if False:", _BODY),
    Bug("nothing past the cap comes out", _BODIES + "::_inflated", "inflater.decompress(body, cap + 1)",
        "inflater.decompress(body)", _BODY),
    Bug("an inner message may not reach past its batch", _BODIES + "::inner_messages",
        "if length < 0 or end + PROPERTIES_LENGTH > len(body):", "if length < 0:", _BODY),
    # allocation
    Bug("the first clients get one queue more", _ALLOCATION + "::averagely", "start = index * each + min(index, more)",
        "start = index * each + more", _SHARE),
    Bug("Java's split drops empty parts at the end", _ALLOCATION + "::_room", 'broker_name.rstrip("@").split("@")',
        'broker_name.split("@")', _SHARE),
    Bug("a queue belongs to the place at or after its own", _ALLOCATION + "::_place_on", "bisect_left(places, _hash(text)) %",
        "(bisect_left(places, _hash(text)) - 1) %", _SHARE),
    Bug("a client listed twice has more places", _ALLOCATION + "::_ring",
        "list(ring.values()).count(client) if client in clients[:number] else 0", "0", _SHARE),
    Bug("texts are sorted by UTF-16 units", _ALLOCATION + "::_units", 'text.encode("utf-16-be", "surrogatepass")',
        'text.encode("utf-8", "surrogatepass")', _SHARE),
)  # fmt: skip
