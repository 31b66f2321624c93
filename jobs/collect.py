"""Run a query and get its few rows; what a task raised about a store comes out as it was."""

import re
from typing import TYPE_CHECKING, Any

from store_format import faults

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RAISED = re.compile(r"store_format\.faults\.(\w+): (.*)")


def collect(frame: "DataFrame") -> list[dict[str, Any]]:
    """All rows of a frame. Raises StoreError as the task did, else PySparkException."""
    from pyspark.errors import PySparkException

    try:
        return list(frame.toArrow().to_pylist())
    except PySparkException as error:
        raised = _RAISED.search(str(error))
        kind = getattr(faults, raised[1], None) if raised else None
        if raised is None or kind is None:
            raise
        raise kind(raised[2]) from None
