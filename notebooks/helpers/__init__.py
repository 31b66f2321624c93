"""What all notebooks need and no reader wants to read first: a store, a session, tables, pages."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))  # a clone need not be installed


class Notebook:
    """One run of a notebook. names: its globals, in which Databricks has `spark` and `displayHTML`.

    work: where it writes: what REPUT_NOTEBOOK_WORK says, or the widget `work` of Databricks; else a
    temporary folder, which only the driver sees.
    """

    def __init__(self, names: Mapping[str, Any]) -> None:
        folder = os.environ.get("REPUT_NOTEBOOK_WORK")
        if not folder and "dbutils" in names:
            widgets = names["dbutils"].widgets
            widgets.text("work", "", "A folder in a volume")
            folder = widgets.get("work")
        self._is_seen_by_all = bool(folder)
        self.work = Path(folder or tempfile.mkdtemp(prefix="reput-notebook-"))
        self._names = names
        self._at_exit = ExitStack()

    def bundled(self, archive: str, folder: str = "") -> Path:
        """The folder into which a store of tests/, written by a real broker, is unpacked."""
        to = self.work / folder
        to.mkdir(exist_ok=True)
        subprocess.run(["tar", "-xJf", str(ROOT / "tests" / archive), "-C", str(to)], check=True)
        return to

    def spark(self) -> Any:
        """Databricks' session, or elsewhere a local one. Raises ValueError where its workers may be
        on other machines, which do not see `work`.
        """
        if "spark" in self._names:
            from reput.jobs.engines.spark import setting_of

            spark = self._names["spark"]
            local = setting_of(spark, "spark.master").startswith("local[")
            if not (local or self._is_seen_by_all):
                raise ValueError(
                    "the workers of this session may be on other machines: give the widget `work` "
                    "a folder that all of them see, such as /Volumes/main/default/rocketmq/notebook"
                )
            return spark
        from reput.jobs.engines.session import local_session

        return self._at_exit.enter_context(local_session("local[2]"))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Show rows as a table."""
        shown = [[f"{x:,}" if isinstance(x, int) else str(x) for x in row] for row in rows]
        if "displayHTML" in self._names:
            lines = [f"<tr>{''.join(f'<td>{escape(x)}</td>' for x in row)}</tr>" for row in shown]
            head = "".join(f"<th>{escape(name)}</th>" for name in columns)
            self._names["displayHTML"](f"<table><tr>{head}</tr>{''.join(lines)}</table>")
            return
        wide = [max(map(len, cells)) for cells in zip(columns, *shown, strict=True)]
        sides = [">" if all(isinstance(x, int) for x in cells) else "<"
                 for cells in zip(*rows, strict=True)] or ["<"] * len(wide)  # fmt: skip
        for cells in (columns, ["-" * width for width in wide], *shown):
            line = (f"{x:{side}{w}}" for x, side, w in zip(cells, sides, wide, strict=True))
            print("  ".join(line).rstrip())

    def page(self, name: str) -> Path:
        """Where a page is to be written; an older one goes."""
        (self.work / name).unlink(missing_ok=True)
        return self.work / name

    def show(self, path: Path) -> None:
        """Show a page or a picture, or say where it is."""
        if "displayHTML" in self._names:
            self._names["displayHTML"](path.read_text("utf-8"))
        else:
            print(f"open {path}")

    def close(self) -> None:
        """End the session that was started here."""
        self._at_exit.close()
