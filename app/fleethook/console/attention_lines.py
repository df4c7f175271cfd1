"""The list "Needs attention" of the overview: its lines from the frame and the engines, the worst first."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

from fleethook.cluster.conditions_and_events import parse_time
from fleethook.cluster.leader_election import describe_lease
from fleethook.cluster.partial_and_stale_objects import PartState
from fleethook.cluster.registration.rule_webhooks_and_outage import describe_outage, read_server_namespace
from fleethook.cluster.registration.webhook_configurations import LABELS
from fleethook.console.reviews.review_index import ReviewSummary
from fleethook.model.json import JSONObject, as_object, list_objects

if TYPE_CHECKING:
    from fleethook.console.context import ConsoleContext

Severity = Literal["outage", "failing", "error", "waiting", "warning"]
"""``outage``: webhooks call a server that is gone. ``failing``: something fails now. ``error``: it cannot work as
written. ``waiting``: a workload differs from its plan or waits. ``warning``: a probable mistake."""
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
"""The severities, the worst first."""
MAX_LINES: Final = 100
"""Lines of the list. More mistakes usually have a common cause, and `lint` prints all."""
MAX_OBJECTS: Final = 5
"""Objects of a kind that have a line each for a warning with the same code."""
_NUMBER: Final = re.compile(r"\d+")
_MAX_OUTAGES: Final = 3
FAILED_VERDICTS: Final = ("failed", "refused")
"""The verdicts of reviews that had no decision."""


class AttentionLine(NamedTuple):
    """A line of the list.

    Attributes:
        severity: One of `SEVERITIES`.
        about: The object, by kind and name.
        reason: The reason in one sentence.
        address: The page that explains it.
        since: Since when, in UTC; ``""`` if no object says so.
    """

    severity: Severity
    about: str
    reason: str
    address: str
    since: str = ""


class FindingCount(NamedTuple):
    """The number of findings with a code about objects of a kind, and the address of their list."""

    level: str
    code: str
    kind: str
    total: int
    address: str


class Attention(NamedTuple):
    """The contribution of an engine.

    Attributes:
        lines: Its lines in any order.
        counts: Its findings of lint.
        is_current: Whether they are about the present objects; otherwise newer ones are being computed.
        problems: Why something could not be checked.
    """

    lines: Sequence[AttentionLine] = ()
    counts: Sequence[FindingCount] = ()
    is_current: bool = True
    problems: Sequence[str] = ()


class AttentionList(NamedTuple):
    """The list of a page: the first lines, the number of all, and the findings, errors first."""

    lines: Sequence[AttentionLine]
    total: int
    counts: Sequence[FindingCount]
    is_current: bool
    problems: Sequence[str]


def join_attention(parts: Iterable[Attention]) -> AttentionList:
    """Return the list of all parts, the worst lines first."""
    found = list(parts)
    lines = sorted(
        (line for one in found for line in one.lines),
        key=lambda line: (SEVERITIES.index(line.severity), line.about, line.reason),
    )
    return AttentionList(
        lines[:MAX_LINES],
        len(lines),
        sorted(count for one in found for count in one.counts),
        all(one.is_current for one in found),
        [text for one in found for text in one.problems],
    )


class FirstSeen:
    """The times at which the console first saw a line, for lines whose objects give no time."""

    def __init__(self) -> None:
        """Start without any line."""
        self._seen: dict[tuple[str, str, str], str] = {}

    def fill(self, lines: Sequence[AttentionLine], now: datetime) -> list[AttentionLine]:
        """Return the lines, each with a time. Former lines are forgotten."""
        keys: list[tuple[str, str, str]] = [_identify(line) for line in lines if not line.since]
        seen = self._seen = {key: self._seen.get(key) or f"first seen {format_time(now)}" for key in keys}
        return [line if line.since else line._replace(since=seen[_identify(line)]) for line in lines]


def _identify(line: AttentionLine) -> tuple[str, str, str]:
    """Return a key that does not depend on the numbers in the reason."""
    return line.severity, line.about, line.address


def format_time(time: datetime) -> str:
    """Return a time in UTC to the second, from which pages compute ages."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def read_since(text: Any) -> str:
    """Return the time of an object's condition in UTC, ``""`` if it cannot be read."""
    time = parse_time(text)
    return "" if time is None else format_time(time)


def list_source_lines(parts: Iterable[PartState]) -> list[AttentionLine]:
    """Return a line for each part of the source that cannot be read now: its objects are old or missing."""
    missing, old = "it was never read, so pages lack its objects", "it cannot be read, so pages show old objects"
    return [
        AttentionLine(
            "failing", f"Source {part.name}", f"{missing if part.age is None else old}: {part.detail}", "/#sources"
        )
        for part in parts
        if part.failing
    ]


def list_unread_lines(lease: str, metrics: str) -> list[AttentionLine]:
    """Return the lines about the state of a server that cannot be read.

    Args:
        lease: Why the Lease cannot be read, ``""`` if it can.
        metrics: The same of the metrics.
    """
    of_lease = AttentionLine("failing", "Lease of the leader", f"it cannot be read: {lease}", "/#leader-title")
    of_metrics = AttentionLine("failing", "Metrics of the server", f"they cannot be read: {metrics}", "/#rates-title")
    return [line for line, problem in ((of_lease, lease), (of_metrics, metrics)) if problem]


class StoppedServer(NamedTuple):
    """Servers that no longer answer, although webhooks call them.

    Attributes:
        namespace: Their namespace.
        reason: The state of their Lease.
        configurations: The configurations of the webhooks.
        workspaces: The number of workspaces of kcp that have such configurations, 0 outside of kcp.
    """

    namespace: str
    reason: str
    configurations: list[JSONObject]
    workspaces: int = 0


def group_by_server(configurations: Iterable[Any]) -> dict[str, list[JSONObject]]:
    """Return the webhook configurations of fleethook by the namespace of the server, as far as they name it."""
    found: dict[str, list[JSONObject]] = {}
    for configuration in configurations:
        if (
            not isinstance(configuration, dict)
            or not LABELS.items() <= as_object(configuration["metadata"].get("labels")).items()
        ):
            continue
        services = (
            as_object(each.get("clientConfig")).get("service") for each in list_objects(configuration.get("webhooks"))
        )
        named = (str(as_object(service)["namespace"]) for service in services if service)
        if namespace := read_server_namespace(configuration) or next(named, ""):
            found.setdefault(namespace, []).append(configuration)
    return found


async def find_stopped(context: "ConsoleContext") -> list[StoppedServer]:
    """Return the servers that webhook configurations name, and whose Lease no leader holds."""
    if context.lease is None:
        return []
    servers = []
    for namespace, configurations in sorted(group_by_server(context.list_configurations()).items()):
        state = await context.lease.watch(namespace).find()
        leader = describe_lease(state.lease, now=datetime.now(UTC))
        # A server without a leader has no Lease. Only a leader registers rules.
        is_unled = leader.state == "absent" and not any(map(read_server_namespace, configurations))
        if state.is_read and not state.problem and leader.state != "leads" and not is_unled:
            reason = leader.explain_end(namespace)
            servers.append(StoppedServer(namespace, reason, configurations, len(context.list_covered())))
    return servers


def list_outage_lines(stopped: Iterable[StoppedServer]) -> list[AttentionLine]:
    """Return a line for each stopped server, with the writes that it no longer decides about."""
    found = []
    for one in stopped:
        lines = describe_outage(each for document in one.configurations for each in document.get("webhooks") or ())
        more = f"; and {len(lines) - _MAX_OUTAGES} more" if len(lines) > _MAX_OUTAGES else ""
        where = f", in all {one.workspaces} workspaces" if one.workspaces else ""
        reason = f"{one.reason}{where}: {'; '.join(lines[:_MAX_OUTAGES])}{more} (remedy: fleethook doctor)"
        found.append(AttentionLine("outage", f"Server in {one.namespace}", reason, "/#leader-title"))
    return found


def list_review_lines(reviews: Iterable[ReviewSummary]) -> list[AttentionLine]:
    """Return a line for each route and verdict of recorded reviews without a decision."""
    found: dict[tuple[str, str], list[ReviewSummary]] = {}
    for review in reviews:
        if review.verdict in FAILED_VERDICTS:
            found.setdefault((review.route, review.verdict), []).append(review)
    return [_make_review_line(*key, members) for key, members in sorted(found.items())]


def _make_review_line(route: str, verdict: str, members: Sequence[ReviewSummary]) -> AttentionLine:
    last = max(members, key=lambda one: one.time)
    number = f"{len(members)} recorded review{'s' if len(members) > 1 else ''}"
    reason = f"{number} {verdict}; the last one was {last.operation or 'a request'} of {last.kind or 'an object'}"
    return AttentionLine(
        "failing",
        f"Reviews of {route}",
        f"{reason} {last.name}".rstrip(),
        f"/reviews?verdict={verdict}",
        read_since(min(member.time for member in members)),
    )


class LintFinding(NamedTuple):
    """A finding of lint.

    Attributes:
        level: ``error`` or ``warning``.
        code: Its code.
        kind: The kind of its object.
        about: The object, by kind and name.
        text: Its text.
        address: The page that explains it.
    """

    level: str
    code: str
    kind: str
    about: str
    text: str
    address: str


def list_object_lines(findings: Iterable[LintFinding]) -> list[AttentionLine]:
    """Return a line for each object with findings, with the worst finding.

    A warning that more than `MAX_OBJECTS` objects of a kind have is one line for all of them, even if numbers in its
    text differ.
    """
    by_object: dict[str, list[LintFinding]] = {}
    repeated: dict[tuple[str, str, str], list[LintFinding]] = {}
    for finding in findings:
        if finding.level == "error":
            by_object.setdefault(finding.about, []).append(finding)
        else:
            repeated.setdefault((finding.code, finding.kind, _NUMBER.sub("", finding.text)), []).append(finding)
    lines: list[AttentionLine] = []
    for (_, kind, _), found in repeated.items():
        objects = len({one.about for one in found})
        if objects > MAX_OBJECTS:
            reason = f"{found[0].text} (and {len(found) - 1} more warnings like it)"
            lines.append(AttentionLine("warning", f"{objects} {kind}s", reason, found[0].address))
            continue
        for one in found:
            by_object.setdefault(one.about, []).append(one)
    return [*(_sum_up(about, found) for about, found in by_object.items()), *lines]


def _sum_up(about: str, found: Sequence[LintFinding]) -> AttentionLine:
    """Return the line of an object; its errors come first in `found`."""
    errors = sum(one.level == "error" for one in found)
    rest = [
        f"{number} {text}{'s' if number > 1 else ''}"
        for number, text in (
            (max(0, errors - 1), "more error"),
            (len(found) - errors if errors else len(found) - 1, "warning" if errors else "more warning"),
        )
        if number
    ]
    reason = f"{found[0].text} (and {', '.join(rest)})" if rest else found[0].text
    return AttentionLine("error" if errors else "warning", about, reason, found[0].address)
