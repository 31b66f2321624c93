"""A message's properties as text, as the broker writes and reads it (MessageDecoder)."""

from collections.abc import Mapping
from functools import lru_cache

from store_format.javatext import decode
from store_format.writer.java_map import hash_map_order
from store_format.writer.message import NAME_END, VALUE_END, check_property


def parse_properties(raw: bytes) -> dict[str, str]:
    """MessageDecoder.string2messageProperties, from 4.9.1: what a broker reads of them."""
    pairs = (part.partition(NAME_END) for part in decode(raw).split(VALUE_END))
    return {name: value for name, _, value in pairs if name and value}


@lru_cache(maxsize=4096)
def _template(names: tuple[str, ...], capacity: int) -> tuple[tuple[int, ...], str]:
    """In which order the values go into the text, and the text with `%s` for each."""
    order = hash_map_order(names, capacity)
    named = [names[i].replace("%", "%%") for i in order]
    return order, "".join([f"{name}{NAME_END}%s{VALUE_END}" for name in named])


def encode_properties(properties: Mapping[str, str], capacity: int) -> bytes:
    """messageProperties2String of a HashMap of that initial capacity, as UTF-8.

    Raises SeparatorInProperty, PropertyBlank.
    """
    values = list(properties.values())
    order, template = _template(tuple(properties), capacity)
    text = template % tuple([values[i] for i in order])
    many = len(values)
    if text.count(NAME_END) != many or text.count(VALUE_END) != many or "\0" in text:
        for name, value in properties.items():
            check_property(name, value)
    # Java writes a lone surrogate as `?`, and so does this
    return text.encode("utf-8", "replace")
