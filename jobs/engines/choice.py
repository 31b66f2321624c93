"""Chooses the engine of a job: the given engine, or by options and environment."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from reput.jobs.engines.engine import Engine, EngineFailed
from reput.jobs.engines.java import session_given

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL, SPARK = "local", "spark"
ENGINES = (LOCAL, SPARK)

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class OnEngine(Protocol[P, R]):
    """A job that takes an engine or a SparkSession as an optional first argument."""

    @overload
    def __call__(
        self, engine: "Engine | SparkSession | None", /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R: ...


def on_engine(job: Callable[Concatenate[Engine, P], R]) -> OnEngine[P, R]:
    """Let a job be called with an engine, a SparkSession, or neither (this machine's engine)."""

    @wraps(job)
    def run(*args: Any, **kwargs: Any) -> R:
        given, rest = (args[0], args[1:]) if args and not isinstance(args[0], str) else (None, args)
        if given is not None:
            return job(engine_of(given), *rest, **kwargs)
        from reput.jobs.engines.local import local_engine

        with local_engine() as engine:
            return job(engine, *rest, **kwargs)

    return run


def engine_of(given: "Engine | SparkSession") -> Engine:
    """The given engine, or an engine on the given session."""
    if isinstance(given, Engine):
        return given
    from reput.jobs.engines.spark import SparkEngine

    return SparkEngine(given)


def chosen(engine: str | None, master: str | None) -> str:
    """The engine of a command: the named one; Spark if a master is named, or if spark-submit or
    Databricks runs the command; else this machine's processes.
    """
    if engine is not None:
        return engine
    return SPARK if master or session_given() else LOCAL


def start_early(words: Sequence[str]) -> None:
    """Start this machine's worker processes if a command, by its words, is likely to need them.
    `command_engine`, or the end of this process, ends them.
    """
    spark = ("--engine", "--master", "-h", "--help")
    if session_given() or any(word.startswith(spark) for word in words):
        return
    from reput.jobs.engines.workers import prepare

    with suppress(EngineFailed):  # a command that needs the workers raises it again
        prepare()


def _nothing() -> None:
    """The default of `meanwhile`."""


@contextmanager
def command_engine(
    engine: str | None,
    master: str | None,
    meanwhile: Callable[[], None] = _nothing,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Engine]:
    """Yield the engine of a command, and stop it afterwards.

    meanwhile: called while Spark starts; if it raises, nothing waits for Spark.
    settings: further settings of a local Spark session.
    """
    if chosen(engine, master) == LOCAL:
        from reput.jobs.engines.workers import let_go, prepare

        try:
            prepare()
            from reput.jobs.engines.engine import arrow_alone
            from reput.jobs.engines.local import local_engine

            arrow_alone()
            with local_engine() as here:
                yield here
        finally:
            let_go()
        return
    from reput.jobs.engines.session import command_session
    from reput.jobs.engines.spark import SparkEngine

    with command_session(master, meanwhile=meanwhile, settings=settings) as spark:
        yield SparkEngine(spark)
