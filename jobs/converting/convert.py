"""Write a store anew: measure, place and write its log, carry its configuration over, and derive
its files by the steps of a rebuild.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from reput.jobs.converting import new_log, ordered, report
from reput.jobs.converting.carried import (
    MEET_REFUSE,
    SCHEDULE,
    Config,
    batch_topics_in,
    carried_config,
    delivered_up_to,
    meet,
    merged_config,
    positions_of,
    refuse_unknown_topics,
)
from reput.jobs.converting.in_flight import Target, in_flight, moved, next_timer, with_check_points
from reput.jobs.deriving import kept
from reput.jobs.deriving.derive_set import ToDerive, derive_files
from reput.jobs.deriving.timers import service_files
from reput.jobs.engines.engine import Row
from reput.jobs.opening.plan import ROCKSDB, Plan, check_unchanged, kind_of_index, kind_of_queues
from reput.jobs.outputs.output import Output
from reput.jobs.outputs.publish import Temporary, begin_set, end_set, put_derived
from reput.jobs.outputs.report import OutputFile, counted, summary_of
from reput.jobs.pipeline.job import FoundStore, find_store
from reput.jobs.pipeline.link import link_all
from reput.jobs.pipeline.pipeline import Pipeline
from reput.jobs.salvaging.damage_map import lost_end
from reput.jobs.salvaging.judge_end import judge_end
from reput.store_format.discover.config import (
    configured_topics,
    consumer_offsets,
    subscription_groups,
)
from reput.store_format.discover.delay_levels import SETTING, OlderDelays, delay_text, waiting_from
from reput.store_format.discover.purpose import CONVERT
from reput.store_format.discover.store import StoreAt
from reput.store_format.dispatch.scan import ScanRules, rocksdb_rules, scan_rules
from reput.store_format.faults import REFUSE, DamageFound, StoreError
from reput.store_format.files.folder import Place
from reput.store_format.message.message import TIMER_TOPIC
from reput.store_format.names import COMMIT_LOG, COMPACTION, CONFIG, segment_name
from reput.store_format.notes import Notes
from reput.store_format.release.profiles import profile
from reput.store_format.release.setting_table import BY_NAME, SettingError, Status
from reput.store_format.release.settings import merge_layers, settings_from
from reput.store_format.rewrite.changes import Changes, Fate, Seen, misfits, retried_topics
from reput.udfs.convert.write import PlacedRecords
from reput.udfs.staging import Staging

# Path settings are not carried over: all files of the new store are below its root.
_PLACES = "storepath"
_DLEDGER = "enableDLegerCommitLog"  # the new log is a plain one
# Settings that say how a log is read, which the new one is not yet.
_OF_THE_OLD = ("dLegerSelfId", "readUnCommitted", "checkCRCOnRecover", "forceVerifyPropCRC")


class Kinds(NamedTuple):
    """Whether queues and index are in FILES or in ROCKSDB."""

    of_queues: str
    of_index: str


class Wanted(NamedTuple):
    """The wanted new store. settings: by RocketMQ's names, those of the old store included.
    meet: one of MEETS, for queues that several stores have.
    """

    release: str
    settings: dict[str, str]
    changes: Changes
    meet: str = MEET_REFUSE

    @property
    def segment_bytes(self) -> int:
        return settings_from(self.settings).mapped_file_size_commit_log


def wanted(
    found: FoundStore, release: str, settings: Mapping[str, str], changes: Changes
) -> Wanted:
    """The wanted store: given settings before those of the old store. Raises SettingError."""
    known = {
        name: value
        for name, value in found.plan.discovered.settings.items()
        if _PLACES not in name.lower() and name != _DLEDGER
    }
    for name in settings:
        _refuse_unobeyed(name)
    known = merge_layers(known | found.plan.index_zone.as_settings(), settings)
    settings_from(known, release=release)
    return Wanted(release, known, changes)


def _refuse_unobeyed(name: str) -> None:
    """Raise SettingError for a setting that changes nothing in the files of a new store."""
    known = BY_NAME.get(name)
    if known is None:
        return  # `merge_layers` names what is near
    if known.derive is not Status.OBEYED or known.name in _OF_THE_OLD or _PLACES in name.lower():
        raise SettingError(
            f"--to-set {name}: changes nothing in the files that convert writes; it belongs into "
            "the new broker's configuration"
        )


def look_at(stores: Sequence[FoundStore], to: Wanted) -> report.ConvertSummary:
    """The summary of what a conversion would do; only writes temporary files."""
    first = stores[0]
    with first.temporarily(Temporary.CONVERT, also=all_inputs(stores[1:])) as job:
        summary = _looked_at(_jobs(job, stores), to).summary
    summary.dry_run, summary.seconds = True, first.seconds()
    return summary


def convert_store(stores: Sequence[FoundStore], to: Wanted, place: Output) -> report.ConvertSummary:
    """Write the new store. place: the output, whose inputs are those of all stores.

    Raises StoreError (also DamageFound); a failed conversion leaves nothing in the output.
    """
    first = stores[0]
    for each in stores:
        if each.plan.in_use:
            raise StoreError(f"{each.plan.store}: a broker has it: stop the broker first")
    with first.publishing(place) as (job, cleaned):
        looked = _looked_at(_jobs(job, stores), to)
        summary = looked.summary
        summary.output, summary.cleaned = place.path, cleaned
        storage = place.storage
        kinds = Kinds(
            kind_of_queues(first.plan, None, place.path),
            kind_of_index(first.plan, None, place.path),
        )
        rules = replace(
            _rules(to, looked.config, kinds), older_delays=_older_delays(job, looked.log, to)
        )
        rows = new_log.write_log(job, looked.log, to.segment_bytes, rules)
        for each in stores:
            check_unchanged(each.plan)
        target = begin_set(job.staging, place)
        storage.make_folders(f"{target}/{COMMIT_LOG}")
        moves = []
        for row in rows:
            path = f"{COMMIT_LOG}/{segment_name(row['start'])}"
            moves.append((job.staging.path(row["name"]), f"{target}/{path}"))
            # no digest: it would take a seventh of the time, and records have CRCs
            summary.segments.append(OutputFile(path, row["length"], ""))
        storage.move_all(moves)
        made = StoreAt(storage, target, to.release, _unchecked(to))
        _write_config(made.folder, looked.config, summary)
        if not to.changes.selects:
            _carry_services(job, made.folder, looked, to.segment_bytes)
        if not to.changes.by_topic:
            plan = job.plan
            kept.StateCopy(plan.storage, plan.store, storage, target, summary).copy((COMPACTION,))
        _derive(first, made, job.staging, rows, looked, rules, kinds)
        kept.settle_copy(made, summary.warnings)
        end_set(job.staging, summary.manifest(), place)
    summary.seconds = first.seconds()
    return summary


def all_inputs(stores: Iterable[FoundStore]) -> tuple[Place, ...]:
    return tuple(each for store in stores for each in store.inputs)


def _jobs(job: Pipeline, stores: Sequence[FoundStore]) -> list[Pipeline]:
    """The jobs of all stores, all with the staging folder of `job`, the first store's."""
    return [job, *(each.job(job.staging) for each in stores[1:])]


class _LookedAt(NamedTuple):
    """The plan of a conversion, before a log is written."""

    log: new_log.NewLog
    config: Config
    expired: dict[tuple[str, int], kept.LastEntry]  # queues without a message in the log
    ends: dict[tuple[str, int], int]  # of the first store's queues the next position
    summary: report.ConvertSummary


def _looked_at(jobs: Sequence[Pipeline], to: Wanted) -> _LookedAt:
    sources: list[ordered.Source] = []
    for job in jobs:
        sources.append(_source(job, to.changes, sources))
    there = {
        key.topic for source in sources
        for key, seen in source.measured.queues.items() if seen.records
    }  # fmt: skip
    configured = {topic for job in jobs for topic in _configured(job.plan)}
    refuse_unknown_topics(to.changes, there | configured)
    for source in sources:
        queues = source.measured.queues
        report.refuse_places_in_bodies(
            source.job.plan, {key.topic for key, seen in queues.items() if seen.taken}
        )
        _refuse_misfits(source, to)
    if to.changes.merges:
        _refuse_delays(sources, to)
    meet(sources, to.meet)
    ordered.complete_groups(sources)
    _with_digits(sources)
    notes = Notes()
    for source in sources:
        topics = {key.topic for key in source.measured.queues}
        source.pops = in_flight(source.job.plan, source.changes, topics, notes)
    for source in sources:
        source.marks = positions_of(source, [pop for each in sources for pop in each.pops])
    start = new_log.start_of((source.measured.start for source in sources), to.segment_bytes)
    if to.changes.selects:
        log = ordered.place_in_order(sources, to.segment_bytes, start)
    else:
        source = sources[0]
        log = new_log.place_records(jobs[0], source.measured, source.changes, to.segment_bytes)
    warnings = list(notes.lines)
    expired, popped = _expired(sources, warnings), moved(sources)
    if popped.points:
        last = expired.pop((TIMER_TOPIC, 0), None)
        at = max(next_timer(sources), last.position + 1 if last else 0)
        target = Target(to.release, to.settings, to.segment_bytes, to.changes.store_host)
        log = with_check_points(log, sources, popped.points, at, target)
    plans = [job.plan for job in jobs]
    summary = report.ConvertSummary(
        [plan.store for plan in plans], "", to.release, plans[0].profile.release, to.settings,
        [source.measured.start for source in sources], [source.measured.end for source in sources],
        log.segments[0].start, log.end,
        [sum(seen.shared for seen in source.measured.queues.values()) for source in sources],
        topics=[fate for source in sources for fate in report.topic_fates(source)],
        discovered=plans[0].discovered.as_json(), in_flight=popped.lines(),
    )  # fmt: skip
    for source in sources:
        plan = source.job.plan
        summary.warnings += [*plan.notes, *plan.warnings, *source.measured.warnings]
        lost = lost_end(plan, source.measured.end)
        summary.lacks += [f"{plan.store}: {text}" for text in (*plan.lacks, *lost)]
    _of_lives(sources, summary)
    summary.messages = sum(fate.taken for fate in summary.topics)
    configs = [carried_config(source, summary.warnings) for source in sources]
    config = configs[0] if len(configs) == 1 else merged_config(configs, summary.warnings)
    summary.warnings += warnings
    ends = {(*key,): seen.greatest + 1 for key, seen in sources[0].measured.queues.items()}
    return _LookedAt(log, config, expired, ends, summary)


def _expired(
    sources: Sequence[ordered.Source], warnings: list[str]
) -> dict[tuple[str, int], kept.LastEntry]:
    """The last entries of queues without a live message, by new topic and queue id."""
    live = {
        source.new_queue(key) for source in sources
        for key, seen in source.measured.queues.items() if seen.counted
    }  # fmt: skip
    found: dict[tuple[str, int], kept.LastEntry] = {}
    for source in sources:
        own = {(*key,) for key, seen in source.measured.queues.items() if seen.positions}
        for queue, last in kept.expired_queues(source.job.plan, own.copy, warnings).items():
            new = source.new_queue(new_log.QueueKey(*queue))
            left_out = source.changes.of_queue(*queue).fate == Fate.LEFT_OUT
            if left_out or new in live:
                continue
            if new not in found or found[new].position < last.position:
                found[new] = last
    return found


def _source(job: Pipeline, changes: Changes, earlier: Sequence[ordered.Source]) -> ordered.Source:
    if changes.merges:
        # delivered messages are left out: a merged queue would mix them with those that wait
        starts = delivered_up_to(job.plan).items()
        changes = replace(changes, starts=tuple((SCHEDULE, queue, at) for queue, at in starts))
    logs = ordered.earlier_logs(earlier)
    changes = _with_retries(job.plan, changes, set())
    measured = new_log.measure(job, changes, changes.selects, (), logs)
    begins = _lives(job, measured)
    known = _with_retries(job.plan, changes, {key.topic for key in measured.queues})
    if begins or known != changes:
        changes = replace(known, begins=begins)
        measured = new_log.measure(job, changes, changes.selects, (), logs)
    waits = report.waiting(job.plan, changes, {key.topic for key in measured.queues})
    if waits:
        measured = new_log.measure(job, changes, True, waits, logs)
    return ordered.Source(job, changes, measured, waits)


def _with_digits(sources: Sequence[ordered.Source]) -> None:
    """Measure again where numbers in properties change, now that their greatest is known."""
    digits = ordered.digits_wanted(sources)
    for n, source in enumerate(sources if digits else ()):
        source.changes = replace(source.changes, digits=digits)
        source.measured = new_log.measure(
            source.job, source.changes, True, source.waits, ordered.earlier_logs(sources[:n])
        )


def _with_retries(plan: Plan, changes: Changes, topics: set[str]) -> Changes:
    """The changes with the topics of pop's retries. topics: known besides those in config/."""
    if not changes.by_topic:
        return changes
    notes = Notes()
    consumed = consumer_offsets(plan.folder, notes)
    topics = topics.union(_configured(plan), (topic for _, topic in consumed))
    groups = subscription_groups(plan.folder, notes) or {}
    return replace(changes, retries=retried_topics(topics, topics, groups, consumed))


def _lives(job: Pipeline, measured: new_log.MeasuredLog) -> tuple[tuple[str, int, int], ...]:
    """Changes.begins: where queues begin whose topics were deleted and made again."""
    found = []
    for key, seen in measured.queues.items():
        if not seen.begins_again:
            continue
        queue = {**key._asdict(), "batch": key.topic in job.plan.batch_topics}
        zeros = sorted({seen.first_zero, seen.last_zero} - {seen.first})
        begins = job.lives.begins(queue, zeros)
        if begins is not None:
            found.append((*key, begins))
    return tuple(found)


def _of_lives(sources: Iterable[ordered.Source], summary: report.ConvertSummary) -> None:
    """Say of each queue with several lives what becomes of them."""
    for source in sources:
        begun = {(topic, queue_id): at for topic, queue_id, at in source.changes.begins}
        for key, seen in source.measured.queues.items():
            name = f"topic {key.topic!r}, queue {key.queue_id}"
            if key in begun:
                summary.warnings.append(
                    f"{name}: begins at physical offset {begun[key]}: its messages before that, "
                    "sent before the topic was deleted and made again, are left out"
                )
            elif seen.begins_again and seen.counted:
                summary.left_out.append(
                    f"{name}: the topic was deleted and made again, the last time before the "
                    f"record at physical offset {seen.last_zero}, and no queue file shows its "
                    "last life: all its messages are taken (--remade last: from that record on)"
                )


def _configured(plan: Plan) -> Iterable[str]:
    return configured_topics(plan.folder, Notes()) or {}


def _refuse_misfits(source: ordered.Source, to: Wanted) -> None:
    """Raise StoreError if the new store's release cannot read some of the taken records."""
    plan = source.job.plan
    if to.release == plan.profile.release and not to.changes.store_host:
        return  # a release reads what it has written
    seen = [
        Seen(to.changes.renamed(key.topic), queue.sys_flags, bool(queue.long),
             key.topic in plan.batch_topics)
        for key, queue in source.measured.queues.items() if queue.taken
    ]  # fmt: skip
    lines = list(dict.fromkeys(misfits(seen, to.changes.store_host, profile(to.release))))
    if lines:
        more = f"; and {len(lines) - 1} more topics" if len(lines) > 1 else ""
        raise StoreError(
            f"{plan.store}: not for RocketMQ {to.release}: {lines[0]}{more}; "
            "--drop TOPIC leaves a topic out"
        )


def _write_config(target: Place, config: Config, summary: report.ConvertSummary) -> None:
    target.storage.make_folders(f"{target}/{CONFIG}")
    for name, content in config.items():
        output = target.storage.create(f"{target}/{CONFIG}/{name}")
        output.write(content)
        output.finish(len(content))
        summary.copied.append(f"{CONFIG}/{name}")


def _carry_services(job: Pipeline, target: Place, looked: _LookedAt, segment_bytes: int) -> None:
    """Write timerlog and timercheck, and a delayOffset.json that is lost, of a log taken whole."""
    summary, old = looked.summary, looked.log.olds[0]
    records = PlacedRecords(job.staging, old, segment_bytes)
    rows, summary.waits = service_files(
        job, old.end, lambda: looked.ends, False, summary.warnings, records.found
    )
    for folder in {row["path"].rpartition("/")[0] for row in rows}:
        target.storage.make_folders(f"{target}/{folder}")
    moves = [(job.staging.path(row["name"]), f"{target}/{row['path']}") for row in rows]
    target.storage.move_all(moves)
    summary.copied += [row["path"] for row in rows]


def _unchecked(to: Wanted) -> dict[str, str]:
    """The new store's settings without the check of body CRCs, which were checked in reading."""
    return {**to.settings, "checkCRCOnRecover": "false"}


def _rules(to: Wanted, config: Config, kinds: Kinds) -> ScanRules:
    """The rules by which the new log's records are dispatched."""
    rules, settings = profile(to.release), settings_from(_unchecked(to), release=to.release)
    found = scan_rules(rules, settings, batch_topics_in(config))
    return rocksdb_rules(found, rules, settings) if kinds.of_queues == ROCKSDB else found


def _older_delays(job: Pipeline, log: new_log.NewLog, to: Wanted) -> OlderDelays:
    """By places of the new log, the delays that gave its records their times of delivery: a broker
    keeps those of what waits, whatever it is set to later. Stores that are merged have one set.
    """
    old, now = log.olds[0], settings_from(to.settings).delays
    if to.changes.merges:
        return ()
    records = PlacedRecords(job.staging, old, to.segment_bytes)
    ends = [(records.from_on(end) or log.end, each) for end, each in old.rules.older_delays]
    return (*ends, *([(log.end, old.rules.delays)] if old.rules.delays != now else []))


def _refuse_delays(sources: Iterable[ordered.Source], to: Wanted) -> None:
    """Raise StoreError if messages wait by another delay than their level has in a merged store."""
    now = dict(enumerate(settings_from(to.settings).delays, 1))
    for source in sources:
        rules, plan = source.job.rules, source.job.plan
        begins = waiting_from(plan.folder, delivered_up_to(plan))
        eras = [*rules.older_delays, (source.measured.end, rules.delays)]
        for level in range(1, len(rules.delays) + 1):
            seen = source.measured.queues.get(new_log.QueueKey(SCHEDULE, level - 1))
            begin = begins.get(level - 1, -1)
            known = {each[level - 1] for end, each in eras if end > begin and len(each) >= level}
            if seen and seen.counted and known != {now.get(level)}:
                waits = counted(seen.counted, "message")
                texts = " or ".join(sorted(map(delay_text, known)))
                wanted = delay_text(now[level]) if level in now else "no such level"
                raise StoreError(
                    f"{plan.store}: {waits} of level {level} may wait {texts}, and the "
                    f"merged store has {wanted}: give --to-set {SETTING}=... if all stores have "
                    f"the same, merge after their delivery, or leave them out by --drop {SCHEDULE}"
                )


def _derive(
    found: FoundStore,
    at: StoreAt,
    staging: Staging,
    rows: list[Row],
    looked: _LookedAt,
    rules: ScanRules,
    kinds: Kinds,
) -> None:
    """Derive the new log's files into the set. rows: SEGMENT_WRITTEN rows."""
    cut = replace(found.cut, split_bytes=rows[0]["length"])  # a segment is a split
    made = find_store(found.engine, at, CONVERT, cut=cut, progress=found.progress)
    job, summary = made.job(staging), looked.summary
    if kinds.of_queues == ROCKSDB:
        job.keep_times()
    job.rules = replace(job.rules, older_delays=rules.older_delays)  # no queue shows them yet
    assert job.rules == rules, f"{job.rules} instead of {rules}"
    linked = link_all(made.plan.splits, lambda scanned, *_: scanned.update(enumerate(rows)))
    built = summary_of(made.plan, at.path, linked.end, "")
    try:
        _, warnings = judge_end(job, linked, REFUSE)
    except DamageFound as error:
        what = error.plain.partition(";")[0]
        raise StoreError(
            f"{found.plan.store}: a broker would not take all of its new log, nothing was "
            f"published: {what}; `reput check` shows what is wrong with the old one"
        ) from None
    to_derive = ToDerive(queues=kinds.of_queues, index=kinds.of_index, expired=looked.expired)
    named, _ = derive_files(job, linked, built, to_derive)
    checkpoint = kept.new_checkpoint(made.plan, linked, named)
    summary.derived = put_derived(staging, named, checkpoint, at.path)
    summary.warnings += [*built.warnings, *warnings]
    summary.left_out += [*built.left_out, *built.in_no_queue]
