"""Chooses the engine of a job: the given engine, or by options and environment."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import wraps
from inspect import cleandoc, signature
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, cast, overload

from reput.jobs.engines.engine import Engine, NoPandas
from reput.jobs.engines.folders import session_given

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL, SPARK = "local", "spark"
ENGINES = (LOCAL, SPARK)

P = ParamSpec("P")
Given = TypeVar("Given")
Options = TypeVar("Options", contravariant=True)
R = TypeVar("R", covariant=True)


class OnEngine(Protocol[P, Options, R]):
    """A job that takes an engine or a SparkSession as an optional first argument, then keywords, or
    these as one object.
    """

    @overload
    def __call__(
        self, engine: "Engine | SparkSession | None", /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __call__(self, engine: Engine | None, asked: Options, /) -> R: ...


class Alone(Protocol[P, Options, R]):
    """A job without an engine, that takes keywords, or these as one object."""

    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __call__(self, asked: Options, /) -> R: ...


def on_engine(
    options: Callable[P, Given],
) -> Callable[[Callable[[Engine, Given], R]], OnEngine[P, Given, R]]:
    """Make a public function of a job on its options (console/declared.py). It is called with an
    engine, a SparkSession, or neither (this machine's engine).
    """

    def made(job: Callable[[Engine, Given], R]) -> OnEngine[P, Given, R]:
        def run(*args: Any, **kwargs: Any) -> R:
            begins = not args or isinstance(args[0], (str, cast(type, options)))
            given, rest = (None, args) if begins else (args[0], args[1:])
            asked = _asked(options, rest, kwargs)
            if given is not None:
                return job(engine_of(given), asked)
            from reput.jobs.engines.local import local_engine

            with local_engine() as engine:
                return job(engine, asked)

        public: OnEngine[P, Given, R] = _public(run, job, options)
        return public

    return made


def alone(options: Callable[P, Given]) -> Callable[[Callable[[Given], R]], Alone[P, Given, R]]:
    """Make a public function of a job on its options that needs no engine."""

    def made(job: Callable[[Given], R]) -> Alone[P, Given, R]:
        def run(*args: Any, **kwargs: Any) -> R:
            return job(_asked(options, args, kwargs))

        public: Alone[P, Given, R] = _public(run, job, options)
        return public

    return made


def _asked(options: Callable[..., Given], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Given:
    one: Any = args[0] if len(args) == 1 and not kwargs else None
    return one if isinstance(one, cast(type[Given], options)) else options(*args, **kwargs)


def _public(run: Any, job: Callable[..., Any], options: Callable[..., Any]) -> Any:
    """A function with a job's name, and the parameters of its options with their help."""
    run = wraps(job)(run)
    del run.__wrapped__
    run.__signature__ = signature(options).replace(
        return_annotation=job.__annotations__.get("return")
    )
    shown = (each for each in fields(cast(Any, options)) if each.metadata)
    meant = (
        f"{each.name}: {'False: ' if each.default is True else ''}{each.metadata['help']}"
        for each in shown
    )
    about = (cleandoc(each.__doc__ or "") for each in (job, *cast(type, options).__mro__[:-1]))
    run.__doc__ = "\n\n".join([*about, *meant])
    return run


def engine_of(given: "Engine | SparkSession") -> Engine:
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


@contextmanager
def command_engine(
    engine: str | None,
    master: str | None,
    meanwhile: Callable[[], None] = lambda: None,
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
            import pyarrow.acero  # noqa: F401 (0.02 s while the forkserver loads, none later)

            from reput.jobs.engines.local import local_engine

            with local_engine() as here:
                yield here
        finally:
            let_go()
        return
    NoPandas.end()
    from reput.jobs.engines.session import command_session
    from reput.jobs.engines.spark import SparkEngine

    with command_session(master, meanwhile=meanwhile, settings=settings) as spark:
        yield SparkEngine(spark)
