"""Which Spark a command is run by or is to find, asked before Spark is imported."""

import os
import re
import socket

from reput.jobs.spark.failures import SparkFailed

_SECONDS = 10.0  # for all hosts of a master
_CONNECT_PORT = 15002  # of sc:// URLs without one


def check_reachable(master: str) -> None:
    """Raise SparkFailed if no host of a spark:// or sc:// master accepts a connection: Spark's own
    attempts take a minute.

    Other masters (yarn, k8s://) are Spark's to find.
    """
    places = hosts(master)
    reasons = []
    for host, port in places:
        try:
            with socket.create_connection((host, port), _SECONDS / len(places)):
                return
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
    if reasons:
        raise SparkFailed(f"--master {master}: nobody answers: {'; '.join(reasons)}")


def hosts(master: str) -> list[tuple[str, int]]:
    """(host, port) of each master that a URL names; none where it is of another kind."""
    found = re.fullmatch(r"(spark|sc)://([^/;]+)(?:[/;].*)?", master)
    if not found:
        return []
    places = []
    for place in found[2].split(","):
        host, _, port = place.rpartition(":") if re.search(r":\d+$", place) else (place, "", "")
        if port or found[1] == "sc":
            places.append((host.strip("[]"), int(port or _CONNECT_PORT)))
    return places


def session_given() -> bool:
    """Whether spark-submit or a Databricks job runs this command, with a session for it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or on_databricks()


def on_databricks() -> bool:
    """Whether this is a task of a Databricks job, whose runtime has a session for it."""
    return "DATABRICKS_RUNTIME_VERSION" in os.environ
