"""A store that RocketMQ opens and leaves as it is."""

from pathlib import Path

from reput.store_format.names import COMMIT_LOG
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import snapshot


def log(store: Path) -> dict[str, bytes]:
    """The segments that hold anything: a broker prepares further ones, and removes them."""
    contents = {path.name: path.read_bytes() for path in (store / COMMIT_LOG).iterdir()}
    return {name: content for name, content in contents.items() if any(content)}


def opens_without_a_change(version: str, store: Path, settings: dict[str, int | str]) -> None:
    before = snapshot(store), log(store)
    with Driver(version, log_level="INFO") as driver:
        answer = driver.open_check(store, settings)
        said = driver.log
    assert answer["dispatched"] == 0
    assert (snapshot(store), log(store)) == before
    for complaint in ("[BUG]", "delete it", "will be deleted"):
        assert complaint not in said
