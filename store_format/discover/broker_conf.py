"""Finds a broker's configuration file: in a store, or beside it if the file names the store.

A broker keeps its settings in a file that it is started with, or in STORE/config/broker.properties
(BrokerPathConfigHelper.getBrokerConfigPath). That file is often copied with the store.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import InputStorage, listed
from reput.store_format.names import CONFIG
from reput.store_format.release.setting_table import BY_NAME, SettingError
from reput.store_format.release.settings import merge_layers, parse_properties

_BYTES_MAX = 1 << 20
_ROOT = "storePathRootDir"
_IN_STORE = ((CONFIG, "broker.properties"), ("", "broker.conf"), (CONFIG, "broker.conf"),
             ("conf", "broker.conf"))  # fmt: skip
_BESIDE = (("", "broker.conf"), ("conf", "broker.conf"))


class FoundConf(NamedTuple):
    """The known settings in a configuration file that was found, without paths."""

    path: str
    settings: dict[str, str]
    warnings: list[str]


def found_conf(storage: InputStorage, store: str) -> FoundConf | None:
    """The configuration file in or beside a store; None where there is none.

    A file beside the store counts only where its storePathRootDir is this store, so that no other
    broker's is taken. Its paths are ignored: they are those of the broker's machine. Raises
    SettingError, with the file's name, where it is not certain what RocketMQ reads.
    """
    for path in _candidates(storage, store):
        raw = parse_properties(storage.read_bytes(path).decode("latin-1"))
        root = raw.get(_ROOT, "").strip()
        mine = not root or os.path.realpath(root) == os.path.realpath(store)
        if not path.startswith(f"{store}/") and (not root or not mine):
            continue
        known = {name: text for name, text in raw.items() if name in BY_NAME}
        known = {name: text for name, text in known.items() if "storepath" not in name.lower()}
        warnings = []
        for name, text in list(known.items()):
            try:
                BY_NAME[name].value(text, name)
            except SettingError as error:
                warnings.append(f"{path}: {error}: it is not obeyed")
                del known[name]
        try:
            return FoundConf(path, merge_layers(known), warnings)
        except SettingError as error:
            raise SettingError(f"{path}: {error}") from None
    return None


def _candidates(storage: InputStorage, store: str) -> Iterator[str]:
    places = [(store, *each) for each in _IN_STORE]
    if isinstance(storage, LocalStorage):
        places += [(os.path.dirname(store), *each) for each in _BESIDE]
    for root, below, name in places:
        folder = f"{root}/{below}" if below else root
        try:
            names = listed(storage, folder)
        except PermissionError:
            if root == store:
                raise
            continue  # who may read a store need not be able to list its parent
        for there, state in names:
            if there == name and state is not None and state.size <= _BYTES_MAX:
                yield f"{folder}/{name}"
