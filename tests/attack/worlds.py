"""Stores that outputs are tried on: a log in three places, and what is refused of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from reput.store_format.faults import StoreError
from tests.in_process import Session
from tests.logs.encoder import build_log
from tests.logs.small import SEGMENT, messages
from tests.logs.small import SETTINGS as LOG_SETTINGS
from tests.trees import held

SETTINGS = {**LOG_SETTINGS, "mappedFileSizeConsumeQueue": "400"}
LOGS = "storePathCommitLog"


def everything(root: Path) -> dict[str, tuple[object, ...]]:
    """All below a folder: kind and mode, and a file's bytes or a link's goal."""
    return {path: (mode, holds) for path, (mode, _, holds) in held(root).items()}


class World:
    """A store whose log is in three places, with links into it from all around."""

    def __init__(self, root: Path) -> None:
        self.root, self.store = root, root / "data" / "store"
        log = build_log(messages(), SEGMENT)
        self.folders = [self.store / "commitlog", root / "disk2" / "log",
                        root / "disk3" / "deep" / "log"]  # fmt: skip
        for folder, (base, content) in zip(self.folders, log.items(), strict=True):
            folder.mkdir(parents=True)
            (folder / f"{base:020d}").write_bytes(content)
        (self.store / "config").mkdir()
        (self.store / "config" / "topics.json").write_text('{"topicConfigTable": {}}')
        (root / "other" / "index").mkdir(parents=True)
        (self.store / "index").symlink_to(root / "other" / "index")
        (self.store / "thesis.doc").write_text("years of work")
        (self.store / "run").mkdir(mode=0o750)
        (root / "to_store").symlink_to(self.store)
        (root / "to_log").symlink_to(self.folders[1])
        (root / "to_link").symlink_to("to_store")
        (root / "to_nothing").symlink_to(self.store / "not" / "there")
        (root / "work").mkdir()
        self.settings = {**SETTINGS, LOGS: ", ".join(str(folder) + "/" for folder in self.folders),
                         "storePathIndex": str(root / "disk4" / "index")}  # fmt: skip

    def outputs(self) -> dict[str, str]:
        """Every place that must be refused, by what it is."""
        r, s = str(self.root), str(self.store)
        return {
            "the store": s, "with a slash": f"{s}/", "with slashes": f"{r}//data///store",
            "with dots": f"{s}/./commitlog/..", "by its parent": f"{s}/../store",
            "a URL": f"file://{s}", "a URL of a host": f"file://localhost{s}",
            "a short URL": f"file:{s}", "a URL in capitals": f"FILE:{s}",
            "by the current folder": "/proc/self/cwd", "relative": ".", "relative, above": "..",
            "a link": f"{r}/to_store", "a link with a slash": f"{r}/to_store/",
            "a link to a link": f"{r}/to_link", "below a link": f"{r}/to_store/new",
            "a link to what is not there": f"{r}/to_nothing",
            "far below a link": f"{r}/to_link/a/b/c", "its parent": f"{r}/data", "the top": r,
            "the root": "/", "its log": f"{s}/commitlog", "inside its log": f"{s}/commitlog/new/er",
            "its config": f"{s}/config", "a new folder in it": f"{s}/rebuilt",
            "its queues": f"{s}/consumequeue", "a segment": f"{s}/commitlog/{0:020d}",
            "another folder of the log": f"{r}/disk2/log",
            "what holds another folder of the log": f"{r}/disk3",
            "a link to another folder of the log": f"{r}/to_log/x",
            "inside the last folder of the log": f"{r}/disk3/deep/log/set",
            "where its index is linked to": f"{r}/other/index", "what holds that": f"{r}/other",
            "where a setting has its index": f"{r}/disk4/index/x",
            "what will hold that": f"{r}/disk4"}  # fmt: skip


def refused(world: World, work: Callable[[str], object]) -> None:
    """Each output is refused, and all is as it was; each is tried, so that one run names all."""
    before = everything(world.root)
    wrong = {}
    for name, output in world.outputs().items():
        try:
            work(output)
            wrong[name] = "was done"
        except StoreError as error:
            if "--replace" in str(error):
                wrong[name] = f"recommends: {error}"
        after = everything(world.root)
        if after != before:
            wrong[name] = f"changed {sorted(set(before.items()) ^ set(after.items()))[:3]}"
            before = after
    assert wrong == {}
    assert len(world.outputs()) > 20


def in_process(job: Callable[..., Any], *words: str, **more: Any) -> Any:
    return job(Session(), *words, rocketmq="5.3.3", **more)


def put(path: Path, content: str = "years of work") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
