"""``fleethook replay``: replay recorded reviews, and report changed decisions."""

import asyncio
import contextlib
import re
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import msgspec

from fleethook.app import Fleethook, find_followed
from fleethook.cli.exit_codes import CHECK_FAILED, INTERRUPTED, fail, raise_at_interrupt
from fleethook.cli.inputs.sources import ClusterOptions, Source, read_source
from fleethook.cli.load_settings import load_settings
from fleethook.cli.options import FilenameOption, HooksOption, InputOptions
from fleethook.cli.output.findings_output import report_input_errors
from fleethook.cli.output.text_output import show_files
from fleethook.cli.parameters import Argument, Option
from fleethook.cli.replay.replay_input import Selection, find_since, list_recordings, read_recordings
from fleethook.cli.replay.replay_output import Output, Printer, make_printer
from fleethook.cluster.kubernetes.resources import KCP, WatchedResource
from fleethook.cluster.registration.paths import (
    MUTATE_KARMADA,
    OBSERVE,
    VALIDATE_KARMADA,
    VALIDATE_MUTATING,
    VALIDATE_VALIDATING,
)
from fleethook.engine import EngineStartError
from fleethook.interpret.interpreter import LoadError
from fleethook.model.json import as_object
from fleethook.recordings.reader import Entry
from fleethook.recordings.replay.replay import OFFLINE, Replayed, Replayer, batch
from fleethook.recordings.replay.report import Report
from fleethook.server.engine_server import Replay
from fleethook.settings import Settings
from fleethook.work.garbage import settle_garbage_collector

# The answers of these routes depend on no stored object.
_DECIDED_ALONE: Final = (MUTATE_KARMADA, OBSERVE, VALIDATE_KARMADA, VALIDATE_MUTATING, VALIDATE_VALIDATING)


def list_resources(app: Fleethook, routes: Collection[str], *, kcp: bool) -> list[WatchedResource]:
    """Return the resources that the engines of routes decide with, each once.

    Without ``kcp``, the result lacks the resources of kcp, so that users do not need the right to read them.

    Args:
        app: The engines with their routes.
        routes: Templates of the routes; all routes if it is empty.
        kcp: Whether the cluster is a kcp.
    """
    of_routes = {app.engine_of_route[route] for route in routes if route not in _DECIDED_ALONE}
    settings = app.settings.model_copy(update={"kcp": kcp})
    followed = find_followed(settings, of_routes if routes else settings.engines)
    needed = dict.fromkeys(one for each in followed for one in each.needed)
    return [one for one in needed if kcp or one not in KCP]


_KEY: Final = re.compile(r"[0-9a-f]{16}")
_COMMENT: Final = "#"


class ExpectationError(ValueError):
    """A file of expected changes cannot be read."""


def read_expectations(text: bytes) -> list[str]:
    """Return the keys of expected changes.

    Args:
        text: The output of ``fleethook replay --output json``; or lines that begin with a key. Of such a line,
            everything after the key is a comment, and so are empty lines and lines that begin with ``#``.

    Raises:
        ExpectationError: The text is neither.
    """
    try:
        lines = text.decode()
    except UnicodeDecodeError as error:
        raise ExpectationError(f"the file is not UTF-8: {error}") from None
    return _read_output(text) if lines.lstrip().startswith("{") else _read_lines(lines)


def _read_output(text: bytes) -> list[str]:
    try:
        changes = as_object(msgspec.json.decode(text)).get("changes")
    except (msgspec.DecodeError, RecursionError) as error:
        raise ExpectationError(f"the file is not JSON: {error}") from None
    if not isinstance(changes, list):
        raise ExpectationError('the file has no list "changes": give the output of fleethook replay --output json')
    keys = [as_object(one).get("key") for one in changes]
    return [_check(key, f"/changes/{index}/key") for index, key in enumerate(keys)]


def _read_lines(lines: str) -> list[str]:
    numbered = ((number, line.split()) for number, line in enumerate(lines.splitlines(), 1))
    return [_check(words[0], f"line {number}") for number, words in numbered if words and words[0][0] != _COMMENT]


def _check(key: object, place: str) -> str:
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise ExpectationError(f"{place}: {str(key)[:40]!r} is no key of a change (16 hexadecimal digits)")
    return key


_RULES: Final = "/hooks/"
"""The beginning of the routes of rules in Python."""
_REVIEWS_AT_ONCE: Final = 64
_BYTES_AT_ONCE: Final = 8 * 1024 * 1024


def replay(
    files: Annotated[list[Path], Argument(help="Recordings or directories of recordings; '-' for standard input.")],
    filename: FilenameOption = None,
    live: ClusterOptions = ClusterOptions(),
    reading: InputOptions = InputOptions(),
    route: Annotated[
        list[str] | None,
        Option("--route", help="Route to replay, such as /explore; may be repeated (default: all)."),
    ] = None,
    since: Annotated[
        str | None,
        Option(help="Replay records from this time on (RFC 3339), or the last ones (1h30m before the newest)."),
    ] = None,
    call: Annotated[
        bool, Option("--call", help="Call webhooks, as dry runs, in place of their recorded answers.")
    ] = False,
    expect: Annotated[
        Path | None, Option(help="Expected changes: JSON output of a former replay, or a list of keys.")
    ] = None,
    hooks: HooksOption = None,
    config: Annotated[Path | None, Option(help="YAML file of the server's settings; FLEETHOOK_* overrides it.")] = None,
    output: Annotated[Output, Option("--output", "-o", help="Output format.")] = Output.TEXT,
) -> None:
    """Replay recorded reviews, and report changed decisions.

    The command answers with this version of fleethook, the objects of -f or of a cluster, and --change and --without.
    With --hooks, it answers only the reviews of rules in Python, by the rules of these files.
    It compares verdict, code, message, warnings, and the object after the patch. Webhooks answer as recorded. A review
    that needs an answer which was not recorded is undecidable, and counts as changed.

    Exit codes: 0 no changes, or exactly those of --expect; 1 changes; 2 invalid arguments, or nothing to
    replay; 130 interrupted, with the results so far.
    """
    recordings = list_recordings(files)
    report = Report(() if expect is None else _read_expected(expect))
    settings = load_settings(OFFLINE | ({} if hooks is None else {"hooks": hooks}), config)
    app = _build_app(settings, call=call)
    routes = _check_routes(route or (), app)
    # With files of rules, the user asks about these rules only, so the command needs no other reviews and objects.
    prefix = _RULES if hooks and not route else ""
    deciding = [one for one in app.reviews if one.startswith(prefix)] if prefix else routes
    resources = list_resources(app, deciding, kcp=live.kcp)
    with report_input_errors(output):
        if resources or filename or live != ClusterOptions():
            source = read_source(live.beside(filename, reading=reading), resources)
        else:
            source = Source([], [], frozenset())
    for document in source.documents:
        app.store.put(document.object)
    settle_garbage_collector()
    selection = Selection(routes, find_since(since, recordings), prefix)
    printer = make_printer(output)
    raise_at_interrupt()
    try:
        # JSON is written while the recordings are read, so at the same terminal a bar would be within it.
        hidden = output is Output.JSON and sys.stdout.isatty()
        with show_files(recordings, partial(_describe_progress, report), hidden=hidden) as progress:
            entries = read_recordings(recordings, report.add_problem, progress=progress)
            replay_all(app, filter(selection.selects, entries), _make_taker(report, printer), call=call)
        report.is_complete = True
    except KeyboardInterrupt:
        printer.end(report)
        raise SystemExit(INTERRUPTED) from None
    printer.end(report)
    _exit(report, selection)


def _describe_progress(report: Report) -> str:
    return f"Replaying: {report.reviews:,} reviews, {report.changed + report.undecidable:,} changed"


def _read_expected(path: Path) -> list[str]:
    try:
        return read_expectations(path.read_bytes())
    except (ExpectationError, OSError) as error:
        fail(f"--expect: {path}: {error}")


def _build_app(settings: Settings, *, call: bool) -> Fleethook:
    """Return the server's app without a source, whose webhooks answer as recorded unless they are to be called."""
    try:
        return Fleethook(settings, log=None, replay=Replay.CALLING if call else Replay.RECORDED)
    except (LoadError, EngineStartError) as error:
        fail(str(error))


def _check_routes(routes: Sequence[str], app: Fleethook) -> frozenset[str]:
    unknown = [one for one in routes if one not in app.reviews]
    if unknown:
        fail(f"--route: there is no route {unknown[0]}; give one of {', '.join(sorted(app.reviews))}")
    return frozenset(routes)


def _make_taker(report: Report, printer: Printer) -> Callable[[Replayed], None]:
    def take(one: Replayed) -> None:
        is_expected = report.add(one)
        if one.change is not None:
            printer.add(one.change, is_expected=is_expected)

    return take


def replay_all(app: Fleethook, entries: Iterator[Entry], take: Callable[[Replayed], None], *, call: bool) -> None:
    """Replay reviews. Records are read outside the event loop, where Ctrl-C interrupts a wait for standard input."""
    replayer = Replayer(app.find_endpoint, calls_webhooks=call)
    with _remember_interrupt() as interrupted, asyncio.Runner() as runner:
        try:
            for portion in batch(entries, count=_REVIEWS_AT_ONCE, size=_BYTES_AT_ONCE):
                runner.run(replayer.replay(portion, take))
                if interrupted:
                    raise KeyboardInterrupt
        finally:
            runner.run(app.close())


@contextlib.contextmanager
def _remember_interrupt() -> Iterator[list[int]]:
    """Collect the signals of Ctrl-C in a list, besides the KeyboardInterrupt.

    asyncio turns the first signal into a cancellation of the running task. A review that answers in spite of it would
    lose the signal, and the next read would wait for standard input.
    """
    interrupted: list[int] = []
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupted
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupted.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(report: Report, selection: Selection) -> None:
    """Exit with the code of a complete replay."""
    if not report.reviews and not report.problem_count:
        is_filtered = selection != Selection()
        reason = "no record matches --route and --since" if is_filtered else "the recordings hold no review"
        fail(f"nothing to replay: {reason}")
    if not report.reviews:
        fail("nothing to replay: no record can be read")
    if not report.passes:
        raise SystemExit(CHECK_FAILED)
