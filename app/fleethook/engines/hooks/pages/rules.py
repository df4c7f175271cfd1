"""The section ``/rules``: admission rules in Python with their registration, calls, failures and findings."""

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.cluster.registration.paths import HOOKS, find_rule_path
from fleethook.cluster.registration.rule_webhooks import DESCRIPTION_ANNOTATION, SERVER_ANNOTATION
from fleethook.cluster.store import ObjectKey, Store, key_of
from fleethook.console.attention import Attention, AttentionLine, Severity, read_since
from fleethook.console.context import ConsoleContext
from fleethook.console.pages.reviews import review_url
from fleethook.console.rendering import Context, find_context, render
from fleethook.console.reviews.review_index import Indexed
from fleethook.console.reviews.summary import ReviewSummary
from fleethook.console.sections import MUTATING, VALIDATING, ConsolePage, Hit, Section, find_address
from fleethook.console.server_watch import MAX_LABEL_CHARACTERS
from fleethook.console.shared_value import KeptValue, Watch
from fleethook.console.users.permissions import select_permitted, select_permitted_reviews
from fleethook.engine import list_linting, load_reference
from fleethook.model.gvk import DEFINITION
from fleethook.model.json import JSONObject, as_object

MAX_REVIEWS: Final = 10
"""The last reviews that the page of a rule shows."""
_CONFIGURATIONS: Final = (MUTATING, VALIDATING)


class RuleFinding(NamedTuple):
    """A finding of ``fleethook lint`` about a rule."""

    level: str
    code: str
    text: str


class Calls(NamedTuple):
    """The calls of a rule.

    Attributes:
        total: All calls.
        denied: Those that refused their object.
        failed: Those without a decision. The failure policy admits or refuses their object.
    """

    total: int = 0
    denied: int = 0
    failed: int = 0


class RuleView(NamedTuple):
    """A rule.

    Attributes:
        path: The path of its reviews, which identifies it.
        webhook: Its webhook as in a webhook configuration.
        text: Its documentation; ``""`` if only a registration is known.
        place: ``FILE:LINE`` of its function, ``""`` as above.
        registrations: The configurations of the cluster that call it.
        findings: The findings about its definition, errors first.
        counted: The calls since the start of the server, None without its metrics.
        reviews: The recorded reviews, the newest first.
    """

    path: str
    webhook: JSONObject
    text: str = ""
    place: str = ""
    registrations: Sequence[ObjectKey] = ()
    findings: Sequence[RuleFinding] = ()
    counted: Calls | None = None
    reviews: Sequence[ReviewSummary] = ()

    @property
    def name(self) -> str:
        """The name of the rule."""
        return self.path.rpartition("/")[2]

    @property
    def mutates(self) -> bool:
        """Whether the rule may change objects."""
        return self.path.startswith(f"{HOOKS}mutate/")

    @property
    def address(self) -> str:
        """The page of the rule."""
        return rule_url(self.path)

    @property
    def recorded(self) -> Calls:
        """The recorded calls."""
        failed = sum(bool(one.failure) for one in self.reviews)
        denied = sum(one.verdict == "denied" and not one.failure for one in self.reviews)
        return Calls(len(self.reviews), denied, failed)

    @property
    def calls(self) -> Calls:
        """The calls by the metrics, by the recordings without metrics."""
        return self.recorded if self.counted is None else self.counted

    @property
    def last_failure(self) -> ReviewSummary | None:
        """The newest recorded review without a decision."""
        return next((one for one in self.reviews if one.failure), None)

    @property
    def kinds(self) -> str:
        """The resources with their group and version."""
        return ", ".join(_describe_resources(as_object(one)) for one in self.webhook.get("rules") or ())

    @property
    def operations(self) -> str:
        """The operations."""
        rules = [as_object(one) for one in self.webhook.get("rules") or ()]
        return ", ".join(dict.fromkeys(str(name) for one in rules for name in one.get("operations") or ()))


def _describe_resources(rule: Mapping[str, Any]) -> str:
    groups, versions = rule.get("apiGroups") or [""], rule.get("apiVersions") or ["*"]
    where = "/".join(filter(None, (",".join(map(str, groups)), ",".join(map(str, versions)))))
    return f"{', '.join(map(str, rule.get('resources') or ()))} ({where})"


def rule_url(path: str) -> str:
    """Return the address of the page of a rule."""
    return f"/rules/rule?{urlencode({'path': path})}"


def list_rules(
    definitions: Iterable[Document], registered: Iterable[JSONObject], findings: Mapping[str, Sequence[RuleFinding]]
) -> list[RuleView]:
    """Return the rules of files and of webhook configurations, by path.

    Args:
        definitions: The configurations of rules in files, with their places.
        registered: All webhook configurations.
        findings: The findings by place.
    """
    found: dict[str, RuleView] = {}
    for document in definitions:
        annotations = as_object(as_object(document.object.get("metadata")).get("annotations"))
        for path, webhook in _list_webhooks(document.object):
            text = str(annotations.get(DESCRIPTION_ANNOTATION) or "")
            of_rule = sorted(findings.get(document.place, ()))
            found[path] = RuleView(path, webhook, text, document.place, findings=of_rule)
    for configuration in registered:
        for path, webhook in _list_webhooks(configuration):
            one = found.setdefault(path, RuleView(path, webhook))
            found[path] = one._replace(registrations=[*one.registrations, key_of(configuration)])
    return [found[path] for path in sorted(found, key=lambda path: (path.rpartition("/")[2], path))]


def _list_webhooks(configuration: JSONObject) -> Iterator[tuple[str, JSONObject]]:
    webhooks = configuration.get("webhooks")
    for one in webhooks if isinstance(webhooks, list) else ():
        webhook = dict(as_object(one))
        if path := find_rule_path(webhook):
            yield path, webhook


def count_calls(reviews: Mapping[tuple[str, str, str], float], path: str) -> Calls:
    """Return the calls of a rule in the metrics of a server, by route, operation and outcome."""
    counts: Counter[str] = Counter()
    for (route, _, outcome), total in reviews.items():
        if route == path[:MAX_LABEL_CHARACTERS]:
            counts[outcome] += int(total)
    return Calls(counts.total(), counts["denied"], counts["errored"])


def _list_definitions(context: ConsoleContext) -> list[Document]:
    """Return the rules of ``--hooks``, and those of files among the manifests."""
    files = [] if context.rules is None else context.rules.documents()
    read = [] if context.manifests is None else context.manifests.documents()
    return [*files, *(one for one in read if one.source.endswith(".py"))]


def _lint(documents: Sequence[Document], places: frozenset[str]) -> dict[str, list[RuleFinding]]:
    """Return the findings about some of the documents, by their place."""
    engines = list_linting()
    store = Store(index for one in engines for index in load_reference(one.indexes))
    for document in documents:
        store.put(document.object)
    found: dict[str, list[RuleFinding]] = {}
    for row in (row for one in engines for row in load_reference(one.lint)(documents, store, None)):
        if row.place in places:
            field = f"{row.field}: " if row.field else ""
            found.setdefault(row.place, []).append(RuleFinding(row.level, row.code, field + row.text))
    return found


def _watch_findings(context: ConsoleContext) -> Watch[dict[str, list[RuleFinding]]]:
    def prepare() -> Any:
        rules = _list_definitions(context)
        # Rules decide about custom resources, too. Registrations of the same rules would look like second ones.
        objects = context.store.each("", DEFINITION)
        kinds = [Document(one, "cluster", 0) for one in objects if isinstance(one, dict)]
        return partial(_lint, [*kinds, *rules], frozenset(one.place for one in rules))

    return Watch(context.store, prepare, *([] if context.rules is None else [context.rules.store]))


FINDINGS: Final = KeptValue(_watch_findings)


async def find_rules(request: Request, findings: Mapping[str, Sequence[RuleFinding]]) -> list[RuleView]:
    """Return the rules with their calls, as far as the user may see them."""
    context = find_context(request)
    definitions = _list_definitions(context)
    described = {key_of(one.object) for one in definitions}
    registered = [
        dict(configuration)
        for kind in _CONFIGURATIONS
        for configuration in context.store.each("", kind)
        if isinstance(configuration, dict) and (_is_registered(configuration) or key_of(configuration) not in described)
    ]
    rules = list_rules(definitions, registered, findings)
    reviews: Mapping[str, Sequence[ReviewSummary]] = {}
    if context.reviews is not None and rules:
        permitted = await select_permitted_reviews(request, await context.reviews.find())
        reviews = await context.worker.run("", group_reviews, permitted)
    counted = None if context.sampler is None else context.sampler.find()
    has_counts = counted is not None and counted.sampled_at is not None
    return [
        one._replace(
            reviews=reviews.get(one.path, ()),
            counted=count_calls(counted.reviews, one.path) if counted is not None and has_counts else None,
        )
        for one in rules
    ]


def group_reviews(reviews: Iterable[ReviewSummary]) -> dict[str, list[ReviewSummary]]:
    """Return the reviews of rules by their route, the newest first."""
    found: dict[str, list[ReviewSummary]] = {}
    for one in reviews:
        if one.route.startswith(HOOKS):
            found.setdefault(one.route, []).append(one)
    for of_rule in found.values():
        of_rule.sort(key=lambda one: (one.time, one.line), reverse=True)
    return found


def _is_registered(configuration: JSONObject) -> bool:
    return SERVER_ANNOTATION in as_object(as_object(configuration.get("metadata")).get("annotations"))


def list_rule_lines(rules: Iterable[RuleView], *, has_cluster: bool) -> list[AttentionLine]:
    """Return a line for each rule that fails, is never called, or has findings.

    Args:
        rules: The rules.
        has_cluster: Whether the registrations of a cluster are known.
    """
    return [line for one in rules for line in _judge(one, has_cluster=has_cluster)]


def _judge(one: RuleView, *, has_cluster: bool) -> Iterator[AttentionLine]:
    about, last = f"Rule {one.name}", one.last_failure
    if last is not None:
        failed = one.recorded.failed
        reason = f"it failed in {failed} recorded review{'s' if failed > 1 else ''}, the last time at {last.failure}"
        yield AttentionLine("failing", about, reason, one.address, read_since(last.time))
    elif one.calls.failed:
        reason = f"it failed in {one.calls.failed} of {one.calls.total} reviews since the server started"
        yield AttentionLine("failing", about, reason, one.address)
    if one.findings:
        first, rest = one.findings[0], len(one.findings) - 1
        severity: Severity = "error" if first.level == "error" else "warning"
        more = f" (and {rest} more finding{'s' if rest > 1 else ''})" if rest else ""
        yield AttentionLine(severity, about, first.text + more, one.address)
    if has_cluster and one.place and not one.registrations:
        yield AttentionLine("warning", about, "it never fires: no webhook configuration calls it", one.address)
    elif one.registrations and one.counted is not None and not one.counted.total:
        yield AttentionLine("warning", about, "it has not fired since the server started", one.address)


async def find_attention(request: Request) -> Attention:
    """Return the lines about rules, if the user may get webhook configurations."""
    context = find_context(request)
    if await select_permitted(request, _CONFIGURATIONS) != set(_CONFIGURATIONS):
        return Attention()
    lines = [
        AttentionLine("failing", f"Rules of {file}", _describe_broken(text), "/rules")
        for file, text in _list_errors(context).items()
    ]
    if not _list_definitions(context) and not context.store.has(MUTATING) and not context.store.has(VALIDATING):
        return Attention(lines)
    # Findings about files among the manifests are those of webhook configurations in the section Dispatch.
    found = FINDINGS.find(request).find() if context.rules is not None else None
    rules = await find_rules(request, (found.value if found else None) or {})
    lines += list_rule_lines(rules, has_cluster=context.cluster is not None)
    if found is None:
        return Attention(lines)
    return Attention(lines, (), found.is_current, (found.problem,) if found.problem else ())


def _list_errors(context: ConsoleContext) -> Mapping[str, str]:
    return {} if context.rules is None else context.rules.errors


def _describe_broken(text: str) -> str:
    return f"the file cannot be used, and its former rules stay: {text}"


async def list_names(request: Request) -> Iterator[Hit]:
    """Return the rules that the user may see."""
    if await select_permitted(request, _CONFIGURATIONS) != set(_CONFIGURATIONS):
        return iter(())
    return (Hit(one.name, "", one.address) for one in await find_rules(request, {}))


router: Final = APIRouter(prefix="/rules")
PAGE: Final = ConsolePage(
    Section("/rules", "Rules", _CONFIGURATIONS),
    router,
    attention=find_attention,
    names={"Rule": list_names},
)


@router.get("")
async def show_list(request: Request, context: Context) -> HTMLResponse:
    """List the rules."""
    found = await FINDINGS.find(request).get()
    rules = await find_rules(request, found.value or {})
    return await render(
        request,
        "rules/list.html",
        command=_make_command(context),
        command_title="The rules and their findings on the command line",
        rules=rules,
        errors=[_describe_broken(text) for text in _list_errors(context).values()],
        problem=found.problem,
        has_files=bool(_list_definitions(context)),
        has_cluster=context.cluster is not None,
        source=_name_source(context, rules),
        hooks_command=f"fleethook console {context.command_source} --hooks rules.py".replace("  ", " "),
    )


@router.get("/rule")
async def show_rule(request: Request, context: Context, path: str = "") -> HTMLResponse:
    """Show one rule with its documentation, webhook, findings and last reviews."""
    found = await FINDINGS.find(request).get()
    rules = await find_rules(request, found.value or {})
    one = next((one for one in rules if one.path == path), None)
    if one is None:
        raise HTTPException(404, "there is no such rule now: the section Rules lists all")
    indexed = await context.reviews.find() if context.reviews is not None else Indexed()
    return await render(
        request,
        "rules/rule.html",
        command=_make_command(context),
        command_title="All rules and their findings on the command line",
        rule=one,
        has_cluster=context.cluster is not None,
        has_records=context.reviews is not None,
        source=_name_source(context, [one]),
        selectors=[(name, json.dumps(one.webhook.get(name))) for name in _SELECTORS if one.webhook.get(name)],
        conditions=[as_object(each) for each in one.webhook.get("matchConditions") or ()],
        shown=[(each, review_url(indexed, each)) for each in one.reviews[:MAX_REVIEWS]],
        reviews_url=f"/reviews?{urlencode({'route': one.path})}",
        configuration_url=partial(find_address, context.store),
        failure_url=review_url(indexed, one.last_failure) if one.last_failure else "",
        record_command="fleethook serve --hooks rules.py --record DIRECTORY",
    )


_SELECTORS: Final = ("namespaceSelector", "objectSelector")


def _name_source(context: ConsoleContext, rules: Sequence[RuleView]) -> str:
    """Return where the numbers of calls come from, ``""`` if nothing counts them."""
    if any(one.counted is not None for one in rules):
        return "since the server started"
    return "" if context.reviews is None else "in the recordings"


def _make_command(context: ConsoleContext) -> str:
    """Return the command that checks the files, ``""`` without files."""
    files = [*map(str, context.rule_files)] or sorted({one.source for one in _list_definitions(context)})
    return shlex.join(["fleethook", "hooks", "check", *files]) if files else ""
