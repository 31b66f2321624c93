"""What the commands that judge a store say of it; of a healthy one nothing."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import reput
from reput.jobs.check import check
from reput.jobs.in_place.recover import Recovered
from reput.jobs.judging.report import CheckReport, Report
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.recover import recover
from reput.jobs.verify import verify
from tests.in_process import Session, as_text

CUT = Cut(100_000, 3, 3)  # more splits than one a segment, and an index in ranges


def _run(
    job: Callable[..., Any], store: Path, version: str | None, settings: Any, **more: Any
) -> Any:
    return job(Session(), str(store), rocketmq=version, settings=as_text(settings), cut=CUT, **more)


def run_check(store: Path, version: str | None, settings: Mapping[str, Any]) -> CheckReport:
    return cast(CheckReport, _run(check, store, version, settings))


def run_verify(store: Path, version: str | None, settings: Mapping[str, Any]) -> Report:
    return cast(Report, _run(verify, store, version, settings))


def run_recover(
    store: Path, version: str | None, settings: Mapping[str, Any], dry_run: bool = True
) -> Recovered:
    return cast(Recovered, _run(recover, store, version, settings, dry_run=dry_run))


def said(store: Path, version: str | None, settings: Mapping[str, Any]) -> list[str]:
    """All that is said of a store and should not be, one line each.

    A store that was not stopped cleanly needs recovery, and that is all that may be said of it:
    nothing is cut, nothing removed.
    """
    checked, verified = (run(store, version, settings) for run in (run_check, run_verify))
    lines = [f"check: {each.path}: {each.reason}" for each in checked.findings]
    lines += [f"check: {each}" for each in checked.damage["ranges"]]
    lines += [f"check: {each.text()}" for each in checked.differences]
    lines += [f"check: warning: {each}" for each in checked.warnings]
    lines += [f"verify: {each.text()}" for each in verified.differences]
    lines += [f"verify: warning: {each}" for each in verified.warnings]
    if checked.undamaged != (not lines) or verified.same != (not verified.differences):
        lines.append("the reports contradict themselves")
    if checked.crashed != (store / "abort").exists():
        lines.append("check: does not know whether the store was stopped")
    lines += _fates(store)
    about = run_recover(store, version, settings)
    lines += [f"recover: warning: {each}" for each in about.warnings]
    lines += [f"recover: would remove {each}" for each in about.removed]
    if about.cut_bytes:
        lines.append(f"recover: would cut {about.cut_bytes} bytes")
    behind = {each.path.removeprefix(f"{store}/") for each in checked.behind}
    index = [path for path in about.written if path.startswith("index/")]
    lines += [
        f"recover: would write {path}"
        for path in about.written
        if path not in behind and not (index and path.startswith("index/") and about.crashed)
    ]
    if about.crashed != (store / "abort").exists() or (about.needed and not about.crashed):
        lines.append(f"recover: {about.text()}")
    return lines


def _fates(store: Path) -> list[str]:
    """What a broker that lost nothing has none of: deliveries and transactions gone past."""
    with reput.open_store(str(store)) as opened:
        lines = [f"delayed: {row}" for row in opened.delayed() if row.state == "never delivered"]
        lines += [
            f"transaction: {row}" for row in opened.transactions() if row.state == "abandoned"
        ]
    return lines
