"""The section ``/rules``: admission rules in Python with their registration, calls and failures."""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.cluster.registration.consumer_bindings_and_webhooks import is_ours, judge_bindings
from fleethook.cluster.registration.paths import RULES, find_rule_path
from fleethook.cluster.registration.rule_webhooks_and_outage import DESCRIPTION_ANNOTATION, describe_requests
from fleethook.cluster.store import ObjectKey, key_of
from fleethook.console.attention_lines import Attention, AttentionLine, find_stopped
from fleethook.console.context import MUTATING, VALIDATING, ConsoleContext, ConsolePage, Hit, Section, find_address
from fleethook.console.page_frame import Context, find_context, render
from fleethook.model.json import JSONObject, as_object, list_objects
from fleethook.model.kcp import API_BINDING


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
        calls: The calls since the start of the server, None without its metrics.
        outage: Why no server answers; ``""`` if one may do so.
    """

    path: str
    webhook: JSONObject
    text: str = ""
    place: str = ""
    registrations: Sequence[ObjectKey] = ()
    calls: Calls | None = None
    outage: str = ""

    @property
    def name(self) -> str:
        """The name of the rule."""
        return self.path.rpartition("/")[2]

    @property
    def mutates(self) -> bool:
        """Whether the rule may change objects."""
        return self.path.startswith(f"{RULES}mutate/")

    @property
    def address(self) -> str:
        """The page of the rule."""
        return f"/rules/rule?{urlencode({'path': self.path})}"

    @property
    def requests(self) -> str:
        """The requests that it decides about."""
        return describe_requests(self.webhook)


def list_rules(definitions: Iterable[Document], registered: Iterable[JSONObject]) -> list[RuleView]:
    """Return the rules of the configurations of files, and of webhook configurations, by path."""
    found: dict[str, RuleView] = {}
    for document in definitions:
        annotations = as_object(as_object(document.object.get("metadata")).get("annotations"))
        for path, webhook in _list_webhooks(document.object):
            text = str(annotations.get(DESCRIPTION_ANNOTATION) or "")
            found[path] = RuleView(path, webhook, text, document.place)
    for configuration in registered:
        for path, webhook in _list_webhooks(configuration):
            one = found.setdefault(path, RuleView(path, webhook))
            found[path] = one._replace(registrations=[*one.registrations, key_of(configuration)])
    return [found[path] for path in sorted(found, key=lambda path: (path.rpartition("/")[2], path))]


def _list_webhooks(configuration: JSONObject) -> Iterator[tuple[str, JSONObject]]:
    for webhook in list_objects(configuration.get("webhooks")):
        if path := find_rule_path(webhook):
            yield path, webhook


def count_calls(reviews: Mapping[tuple[str, str, str], float], path: str) -> Calls:
    """Return the calls of a rule in the metrics of a server, by route, operation and outcome."""
    counts: Counter[str] = Counter()
    for (route, _, outcome), total in reviews.items():
        if route == path:
            counts[outcome] += int(total)
    return Calls(counts.total(), counts["denied"], counts["errored"])


def _list_definitions(context: ConsoleContext) -> list[Document]:
    """Return the rules of ``--rules``, and those of files among the manifests."""
    files = [] if context.rules is None else context.rules.documents()
    read = [] if context.manifests is None else context.manifests.documents()
    return [*files, *(document for document in read if document.source.endswith(".py"))]


async def find_rules(request: Request) -> list[RuleView]:
    """Return the rules with their calls, as far as the user may see them."""
    context = find_context(request)
    definitions = _list_definitions(context)
    described = {key_of(definition.object) for definition in definitions}
    registered = [
        configuration
        for configuration in context.list_configurations()
        if is_ours(configuration) or key_of(configuration) not in described
    ]
    stopped = {key_of(each): server.reason for server in await find_stopped(context) for each in server.configurations}
    rules = [
        rule._replace(outage=next((stopped[key] for key in rule.registrations if key in stopped), ""))
        for rule in list_rules(definitions, registered)
    ]
    counted = None if context.sampler is None else context.sampler.find()
    if counted is None or counted.sampled_at is None:
        return rules
    return [rule._replace(calls=count_calls(counted.reviews, rule.path)) for rule in rules]


def _is_used(context: ConsoleContext) -> bool:
    """Return whether the files have rules, or the cluster calls some."""
    if context.rules is not None or context.settings.kcp_export is not None or _list_definitions(context):
        return True
    return any(map(is_ours, context.list_configurations()))


def list_rule_lines(rules: Iterable[RuleView], *, has_cluster: bool) -> Iterator[AttentionLine]:
    """Yield a line for each rule that fails or is never called; ``has_cluster`` if registrations are known."""
    for one in rules:
        about = f"Rule {one.name}"
        if one.calls is not None and one.calls.failed:
            reason = f"it failed in {one.calls.failed} of {one.calls.total} reviews since the server started"
            yield AttentionLine("failing", about, reason, one.address)
        if has_cluster and one.place and not one.registrations:
            yield AttentionLine("warning", about, "it never fires: no webhook configuration calls it", one.address)


async def find_attention(request: Request) -> Attention:
    """Return the lines about rules."""
    context = find_context(request)
    lines = [
        AttentionLine("failing", f"Rules of {file}", _describe_broken(text), "/rules")
        for file, text in _list_errors(context).items()
    ]
    consumers = {key.cluster for key in context.store.keys(API_BINDING)} if context.settings.kcp_export else ()
    bindings = [dict(one) for each in consumers for one in context.store.each(each, API_BINDING)]
    lines += [
        AttentionLine("failing", f"Workspace {one.name}", f"rules do not cover it: {problem}", "/rules")
        for one, problem in judge_bindings(bindings, context.list_covered())
        if problem
    ]
    if not _list_definitions(context) and not context.store.has(MUTATING) and not context.store.has(VALIDATING):
        return Attention(lines)
    lines += list_rule_lines(await find_rules(request), has_cluster=context.cluster is not None)
    return Attention(lines)


def _list_errors(context: ConsoleContext) -> Mapping[str, str]:
    return {} if context.rules is None else context.rules.errors


def _describe_broken(text: str) -> str:
    return f"the file cannot be used, and its former rules stay: {text}"


async def list_names(request: Request) -> Iterator[Hit]:
    """Return the rules."""
    return (Hit(one.name, "", one.address) for one in await find_rules(request))


router: Final = APIRouter(prefix="/rules")
PAGE: Final = ConsolePage(
    Section("/rules", "Rules", is_used=_is_used),
    router,
    attention=find_attention,
    names={"Rule": list_names},
)


@router.get("")
async def show_list(request: Request, context: Context) -> HTMLResponse:
    """List the rules."""
    rules = await find_rules(request)
    return render(
        request,
        "rules/list.html",
        command=_make_command(context),
        command_title="The rules and their findings on the command line",
        rules=rules,
        errors=[_describe_broken(text) for text in _list_errors(context).values()],
        has_files=bool(_list_definitions(context)),
        has_cluster=context.cluster is not None,
        has_counts=any(rule.calls is not None for rule in rules),
        rules_command=f"fleethook console {context.command_source} --rules rules.py".replace("  ", " "),
    )


@router.get("/rule")
async def show_rule(request: Request, context: Context, path: str = "") -> HTMLResponse:
    """Show one rule with its documentation, webhook and calls."""
    one = next((one for one in await find_rules(request) if one.path == path), None)
    if one is None:
        raise HTTPException(404, "there is no such rule now: the section Rules lists all")
    return render(
        request,
        "rules/rule.html",
        command=_make_command(context),
        command_title="All rules and their findings on the command line",
        rule=one,
        has_cluster=context.cluster is not None,
        conditions=[as_object(each) for each in one.webhook.get("matchConditions") or ()],
        reviews_url=f"/reviews?{urlencode({'route': one.path})}" if context.reviews is not None else "",
        configuration_url=partial(find_address, context.store),
    )


def _make_command(context: ConsoleContext) -> str:
    """Return the command that checks the files, ``""`` without files."""
    files = [*map(str, context.rule_files)] or sorted({definition.source for definition in _list_definitions(context)})
    return shlex.join(["fleethook", "rules", "check", *files]) if files else ""
