"""How large an index file is, and how many entries it holds."""

from reput.store_format.layouts import INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES, INDEX_SLOT_BYTES


def capacity(max_index_num: int) -> int:
    """Entries that a file holds: entry 0 is never used."""
    return max_index_num - 1


def file_bytes(max_hash_slot_num: int, max_index_num: int) -> int:
    return (
        INDEX_HEADER_BYTES
        + max_hash_slot_num * INDEX_SLOT_BYTES
        + max_index_num * INDEX_ENTRY_BYTES
    )
