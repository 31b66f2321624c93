"""What storages share that read another storage's files in a way of their own."""

from reput.store_format.storage.protocol import InputStorage, Listed, is_back_to_back


class ReadBy:
    """Another storage, which is only listed and read. How a file is opened is the subclass's."""

    def __init__(self, storage: InputStorage) -> None:
        self.storage = storage
        self.window_bytes, self.reads_ahead = storage.window_bytes, 0
        self.back_to_back = is_back_to_back(storage)

    def list(self, folder: str) -> list[Listed]:
        return self.storage.list(folder)

    def read_bytes(self, path: str) -> bytes:
        return self.storage.read_bytes(path)
