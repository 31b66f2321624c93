"""Which hosts a master's URL names, and who has given this command a session."""

import socket

import pytest

from reput.jobs.engines.engine import SparkFailed
from reput.jobs.engines.folders import on_databricks, session_given
from reput.jobs.engines.java import check_reachable, hosts

GATEWAY, DATABRICKS = "PYSPARK_GATEWAY_PORT", "DATABRICKS_RUNTIME_VERSION"


@pytest.mark.parametrize(
    ("master", "places"),
    [
        ("spark://a:7077", [("a", 7077)]),
        ("spark://a:7077,b:7078", [("a", 7077), ("b", 7078)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("spark://a", []),  # Spark says itself that a port is missing
        ("sc://a", [("a", 15002)]),
        ("sc://a:15003/;token=t:1;user_id=u", [("a", 15003)]),
        ("sc://a;token=t", [("a", 15002)]),
        ("sc://[::1]", [("::1", 15002)]),
        ("local[4]", []),
        ("yarn", []),
        ("k8s://https://a:443", []),
        ("SPARK://a:7077", []),
        ("", []),
    ],
)
def test_only_a_spark_or_connect_url_names_hosts(
    master: str, places: list[tuple[str, int]]
) -> None:
    assert hosts(master) == places


def test_one_host_that_answers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # it does not listen
        closed, port = nobody.getsockname()[1], server.getsockname()[1]
        check_reachable(f"spark://127.0.0.1:{closed},127.0.0.1:{port}")
        with pytest.raises(SparkFailed) as error:
            check_reachable(f"sc://127.0.0.1:{closed}/;token=secret")
    assert f"nobody answers: 127.0.0.1:{closed}: Connection refused" in str(error.value)


@pytest.mark.parametrize("master", ["yarn", "local[2]", "k8s://https://192.0.2.1:443"])
def test_other_masters_are_sparks_to_find(master: str) -> None:
    check_reachable(master)


@pytest.mark.parametrize(
    ("names", "given", "databricks"),
    [((), False, False), ((GATEWAY,), True, False), ((DATABRICKS,), True, True)],
)
def test_a_session_is_given_by_spark_submit_or_databricks(
    names: tuple[str, ...], given: bool, databricks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (GATEWAY, DATABRICKS):
        monkeypatch.delenv(name, raising=False)
    for name in names:
        monkeypatch.setenv(name, "1")
    assert (session_given(), on_databricks()) == (given, databricks)
