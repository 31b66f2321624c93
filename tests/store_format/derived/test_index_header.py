"""The first 40 bytes of an index file, and which times it may hold."""

from reput.store_format.derived import index_header
from tests.memory_storage import MemoryStorage

# The first file's header on the page docs/formats/indexfile.md.
RAW = bytes.fromhex(
    "000001a1fd18abf6 000001a1fd18ac51 0000000000000000 00000000000079c9 00000060 00000190"
)
HEADER = index_header.IndexHeader(1795247614966, 1795247615057, 0, 31177, 96, 400)


def test_six_fields_in_their_order_and_what_overlaps_their_times() -> None:
    assert index_header.decode_header(RAW) == index_header.decode_header(RAW + b"slots") == HEADER
    assert index_header.encode_header(HEADER) == RAW
    assert index_header.encode_header(index_header.IndexHeader(-1, 0, 0, -1, 0, -1)).hex() == (
        "f" * 16 + "0" * 32 + "f" * 16 + "0" * 8 + "f" * 8
    )
    for length in [0, 1, 39]:
        assert index_header.decode_header(RAW[:length]) == index_header.NO_HEADER
        assert (
            index_header.read_header(MemoryStorage({"f": RAW[:length]}).open("f"))
            == index_header.NO_HEADER
        )
    assert index_header.read_header(MemoryStorage({"f": RAW + bytes(100)}).open("f")) == HEADER
    # IndexFile.isTimeMatched, for a file of 10 to 20.
    for begin, end, matches in [(0, 9, False), (0, 10, True), (10, 10, True), (15, 16, True),
        (20, 99, True), (21, 99, False), (0, 99, True), (9, 21, True), (9, 20, True),
        (10, 21, True)]:  # fmt: skip
        assert index_header.IndexHeader(10, 20, 0, 0, 0, 2).matches(begin, end) == matches
    for count, entries in [(400, 399), (2, 1), (1, 0), (0, 0), (-7, 0)]:
        assert HEADER._replace(next_entry=count).entries == entries
