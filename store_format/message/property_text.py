"""A message's properties as text, as the broker writes and reads it (MessageDecoder)."""

from collections.abc import Mapping
from functools import lru_cache

from reput.store_format.java import decode, hash_map_order
from reput.store_format.message.message import NAME_END, VALUE_END, check_separators


def parse_properties(raw: bytes, split: bool = False) -> dict[str, str]:
    """MessageDecoder.string2messageProperties: the properties as a broker reads them.

    split: a pair is split by Java's `split`, and counts if that yields two parts, as up to 4.9.0
    (Profile.split_properties); from 4.9.1 on it is split at its first 01.
    """
    found = {}
    for pair in decode(raw).split(VALUE_END):
        if split:
            parts = pair.rstrip(NAME_END).split(NAME_END)
            if len(parts) == 2:
                found[parts[0]] = parts[1]
        else:
            name, _, value = pair.partition(NAME_END)
            if name and value:
                found[name] = value
    return found


@lru_cache(maxsize=4096)
def _template(names: tuple[str, ...], capacity: int, ended: bool) -> tuple[tuple[int, ...], str]:
    """(the order of the values in the text, the text with `%s` for each value)."""
    order = hash_map_order(names, capacity)
    pairs = [names[i].replace("%", "%%") + NAME_END + "%s" for i in order]
    return order, VALUE_END.join(pairs) + (VALUE_END if pairs and ended else "")


def encode_properties(
    properties: Mapping[str, str], capacity: int, ended: bool, checked: bool = True
) -> bytes:
    """messageProperties2String of a HashMap of that initial capacity, as UTF-8.

    ended: an 02 follows the last property too (Profile.property_text_ends).
    checked: raises SeparatorInProperty. Blank texts are written: as in RocketMQ, only who puts a
    property checks for them (check_property).
    """
    values = list(properties.values())
    order, template = _template(tuple(properties), capacity, ended)
    text = template % tuple([values[i] for i in order])
    many = len(values)
    ends = many if ended or not many else many - 1
    wrong = text.count(NAME_END) != many or text.count(VALUE_END) != ends or "\0" in text
    if checked and wrong:
        for name, value in properties.items():
            check_separators(name, value)
    # like Java, this writes a lone surrogate as `?`
    return text.encode("utf-8", "replace")
