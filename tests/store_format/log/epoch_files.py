"""Epoch files as RocketMQ's CheckpointFile writes them."""

import zlib


def file_of(*entries: str) -> bytes:
    text = "".join(f"{entry}\n" for entry in entries)
    return f"{len(entries)}\n{zlib.crc32(text.encode()) & 0x7FFFFFFF}\n{text}".encode()
