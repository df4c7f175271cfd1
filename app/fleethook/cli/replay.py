"""``fleethook replay``: replay recorded reviews, and report changed decisions."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

from fleethook.app import Fleethook, find_followed
from fleethook.cli.command_line import CHECK_FAILED, Argument, Option, fail
from fleethook.cli.inputs.objects_with_changes import InputObjects, SourceOptions, read_source
from fleethook.cli.options import FilenameOption, InputOptions, Output, RulesOption, TextOutputOption, load_settings
from fleethook.cli.output.text_output import styled, write_error, write_json, write_styled
from fleethook.cluster.kubernetes.watched_resources import KCP, WatchedResource
from fleethook.cluster.manifests.manifest_files import STANDARD_INPUT, name_source
from fleethook.engine import EngineStartError
from fleethook.interpret.interpreter import LoadError
from fleethook.model.formats.text import counted
from fleethook.model.json import JSONObject
from fleethook.recordings.recording_format import (
    FILE_SUFFIX,
    Record,
    RecordEntry,
    RecordProblem,
    find_recordings,
    read_entries,
)
from fleethook.recordings.replay.decision_changes import ChangedDecision, describe_change, describe_patch
from fleethook.recordings.replay.review_replay import OFFLINE, ChangeGroup, Replayed, Report, batch, replay_reviews
from fleethook.settings import Settings
from fleethook.work.threads_and_gc import settle_garbage_collector

TakeProblem = Callable[[RecordProblem], None]
"""Takes a problem of the input."""


def list_recordings(paths: Sequence[Path]) -> list[Path]:
    """Return files, and the recordings of directories by name, which is by time for each server.

    Exits with a message if a path does not exist, or if a directory has no recording.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += find_recordings(path) or fail(f"{path} has no recording (*{FILE_SUFFIX} or *.jsonl)")
        elif path != STANDARD_INPUT and not path.exists():
            fail(f"{path} does not exist")
        else:
            found.append(path)
    return found


def read_recordings(files: Sequence[Path], report: TakeProblem) -> Iterator[RecordEntry]:
    """Yield the records of files; problems go to ``report``."""
    for file in files:
        with contextlib.ExitStack() as stack:
            try:
                stream = sys.stdin.buffer if file == STANDARD_INPUT else stack.enter_context(file.open("rb"))
            except OSError as error:
                report(RecordProblem(str(file), 1, f"the file cannot be read: {error.strerror}"))
                continue
            for entry in read_entries(stream, name_source(file)):
                if isinstance(entry, RecordProblem):
                    report(entry)
                else:
                    yield entry


def list_resources(app: Fleethook, routes: Collection[str], *, kcp: bool) -> list[WatchedResource]:
    """Return the resources that the engines of routes decide with, each once.

    Without ``kcp``, the result lacks the resources of kcp, so that users do not need the right to read them.

    Args:
        app: The engines with their routes.
        routes: Templates of the routes; all routes if it is empty.
        kcp: Whether the cluster is a kcp.
    """
    of_routes = {app.engine_of_route[route] for route in routes}
    settings = app.settings.model_copy(update={"kcp": kcp})
    followed = find_followed(settings, of_routes if routes else settings.engines)
    needed = dict.fromkeys(resource for each in followed for resource in each.needed)
    return [resource for resource in needed if kcp or resource not in KCP]


_RULES: Final = "/rules/"
"""The beginning of the routes of rules in Python."""
_REVIEWS_AT_ONCE: Final = 64
_BYTES_AT_ONCE: Final = 8 * 1024 * 1024


def replay(
    files: Annotated[list[Path], Argument(help="Recordings or directories of recordings; '-' for standard input.")],
    filename: FilenameOption = None,
    live: SourceOptions = SourceOptions(),
    reading: InputOptions = InputOptions(),
    route: Annotated[list[str] | None, Option(help="Route to replay, such as /explore; repeatable.")] = None,
    rules: RulesOption = None,
    config: Annotated[Path | None, Option(help="YAML file of the server's settings; FLEETHOOK_* overrides it.")] = None,
    output: TextOutputOption = Output.TEXT,
) -> None:
    """Replay recorded reviews, and report changed decisions.

    The command answers with this version of fleethook, the objects of -f or of a cluster, and --change.
    With --rules, it answers only the reviews of rules in Python, by the rules of these files.
    It compares verdict, code, message, warnings, and the object after the patch. Webhooks answer as recorded. A review
    that needs an answer which was not recorded is undecidable, and counts as changed.

    Exit codes: 0 no changes; 1 changes; 2 invalid arguments, or nothing to replay.
    """
    recordings = list_recordings(files)
    report, changes = Report(), list[ChangedDecision]()

    def take(replayed: Replayed) -> None:
        report.add(replayed)
        if replayed.change is not None:
            changes.append(replayed.change)

    settings = load_settings(OFFLINE | ({} if rules is None else {"rules": rules}), config)
    app = _build_app(settings)
    routes = _check_routes(route or (), app)
    # With files of rules, the user asks about these rules only, so the command needs no other reviews and objects.
    prefix = _RULES if rules and not route else ""
    deciding = [review for review in app.reviews if review.startswith(prefix)] if prefix else routes
    resources = list_resources(app, deciding, kcp=live.kcp)
    if resources or filename or live != SourceOptions():
        source = read_source(live.beside(filename, reading=reading), resources)
    else:
        source = InputObjects([], [], frozenset())
    for document in source.documents:
        app.store.put(document.object)
    settle_garbage_collector()
    entries = read_recordings(recordings, report.add_problem)
    selected = (entry for entry in entries if _is_selected(entry.record, routes, prefix))
    asyncio.run(replay_all(app, selected, take))
    print_report(report, changes, output)
    _exit(report, is_filtered=bool(route or prefix))


def _build_app(settings: Settings) -> Fleethook:
    """Return the server's app without a source, whose webhooks answer as recorded."""
    try:
        return Fleethook(settings, log=None, is_replay=True)
    except (LoadError, EngineStartError) as error:
        fail(str(error))


def _check_routes(routes: Sequence[str], app: Fleethook) -> frozenset[str]:
    unknown = [route for route in routes if route not in app.reviews]
    if unknown:
        fail(f"--route: there is no route {unknown[0]}; give one of {', '.join(sorted(app.reviews))}")
    return frozenset(routes)


async def replay_all(app: Fleethook, entries: Iterator[RecordEntry], take: Callable[[Replayed], None]) -> None:
    """Replay reviews, with few of them in memory."""
    try:
        for portion in batch(entries, count=_REVIEWS_AT_ONCE, size=_BYTES_AT_ONCE):
            await replay_reviews(portion, app.find_endpoint, take)
    finally:
        await app.close()


def _is_selected(record: Record, routes: frozenset[str], prefix: str) -> bool:
    return (not routes or record.route in routes) and record.route.startswith(prefix)


def _exit(report: Report, *, is_filtered: bool) -> None:
    """Exit with the code of a complete replay."""
    if not report.reviews:
        reason = "no record matches --route or --rules" if is_filtered else "the recordings hold no review"
        fail(f"nothing to replay: {'no record can be read' if report.problem_count else reason}")
    if not report.passes:
        raise SystemExit(CHECK_FAILED)


_STYLES: Final = {"-": "red", "+": "green", " ": "cyan"}


def print_report(report: Report, changes: Sequence[ChangedDecision], output: Output) -> None:
    """Write a report to standard output, and the problems of the input to standard error."""
    if output is Output.JSON:
        _print_json(report, changes)
    else:
        _print_text(report)
    write_error(*(f"{problem.place}: {problem.reason}" for problem in report.problems))
    if more := report.problem_count - len(report.problems):
        write_error(f"{counted(more, 'further problem')} of the input")


def _list_groups(report: Report) -> list[ChangeGroup]:
    """Return the groups of changes, the largest first."""
    return sorted(report.groups.values(), key=lambda group: (-group.count, group.name))


def _print_text(report: Report) -> None:
    """Write a summary for people, coloured on a terminal: groups, notes and numbers."""
    for group in _list_groups(report):
        kinds, route, cluster, about = group.name
        title = f"{', '.join(kinds)}: {about or 'no object'}, {route}{f' in {cluster}' if cluster else ''}"
        write_styled(styled(f"{title}: {counted(group.count, 'review')}", "bold"))
        write_styled(styled(f"  for example {_describe_example(group.example)}"))
        for sign, text in describe_change(group.example):
            write_styled(styled(f"    {text}" if sign == " " else f"      {sign} {text}", _STYLES[sign]))
    for name, number in sorted(report.unasked.items()):
        write_styled(styled(f"not asked any more: {name} (in {counted(number, 'review')})", "yellow"))
    for reason, number in sorted(report.skipped.items()):
        write_styled(styled(f"not compared: {counted(number, 'review')}, because {reason}", "yellow"))
    write_styled(styled(_summarize(report)))


def _summarize(report: Report) -> str:
    """Return the numbers of a report in one line."""
    parts = [f"{report.same:,} with the same outcome", f"{report.changed:,} changed"]
    parts += [f"{report.undecidable:,} undecidable"] if report.undecidable else []
    parts += [f"{report.skipped.total():,} not compared"] if report.skipped else []
    return f"{counted(report.reviews, 'review')}: {', '.join(parts)}"


def _describe_example(change: ChangedDecision) -> str:
    """Return the object of an example and its place."""
    redacted = ", redacted" if change.redacted else ""
    subject = f"{change.subject} ({change.subject.operation})" if change.subject.operation else str(change.subject)
    return f"{subject or 'a body that is no review'}, {change.file}:{change.line}{redacted}"


def _print_json(report: Report, changes: Sequence[ChangedDecision]) -> None:
    write_json(
        {
            "changes": [_list_members(change) for change in changes],
            "groups": [{**group.name._asdict(), "reviews": group.count} for group in _list_groups(report)],
            "notAsked": [{**name._asdict(), "reviews": number} for name, number in sorted(report.unasked.items())],
            "problems": [problem._asdict() for problem in report.problems],
            "summary": {
                "reviews": report.reviews, "same": report.same, "changed": report.changed,
                "undecidable": report.undecidable, "skipped": report.skipped, "problems": report.problem_count,
            },
        }
    )  # fmt: skip


def _list_members(change: ChangedDecision) -> JSONObject:
    differences = [
        {"aspect": difference.aspect, "patch": describe_patch(difference)}
        if difference.aspect == "object"
        else difference._asdict()
        for difference in change.differences
    ]
    missing = [{"call": call, "reason": reason} for call, reason in change.missing]
    return {**change._asdict(), "subject": change.subject._asdict(), "differences": differences, "missing": missing}
