"""Lints the webhook configurations and the APIBindings of a fleet, each alone and all of a cluster together."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple, cast

from fleethook.cluster.registration.rule_webhooks import EXPRESSION_ANNOTATION
from fleethook.cluster.store import ObjectKey, Store
from fleethook.engines.dispatch.lint.configuration_validation import (
    CODES,
    Issue,
    WebhookFinding,
    configuration_problems,
    configuration_warnings,
)
from fleethook.engines.dispatch.lint.rule_checks import rule_findings
from fleethook.engines.dispatch.lint.webhook_checks import call_findings, condition_errors
from fleethook.engines.dispatch.schema_owner import (
    BINDINGS_BY_RESOURCE,
    UNBOUND_BINDINGS,
    Ownership,
    OwnerStatus,
    find_owner,
)
from fleethook.engines.dispatch.webhooks.webhook import PHASES, Phase, Webhook, compile_webhooks, set_defaults
from fleethook.engines.dispatch.webhooks.webhook_index import explain_excess
from fleethook.model.json import JSON, JSONObject, as_object, as_text, list_objects
from fleethook.model.kcp import API_BINDING, is_system


class LintedHook(NamedTuple):
    """A compiled webhook with its source."""

    hook: Webhook
    webhook: Mapping[str, JSON]
    """The webhook in its configuration, with defaults."""
    key: ObjectKey
    """The key of its configuration."""
    rule_expression: str = ""
    """The expression of an admission rule in Python, ``""`` for other webhooks."""


_ACTIONS: Final = {
    OwnerStatus.AMBIGUOUS: "",
    OwnerStatus.NAMELESS: ": wait until kcp sets it, or recreate the APIBinding",
    OwnerStatus.UNKNOWN: ": add the objects of that cluster",
    OwnerStatus.DANGLING: ": restore the APIExport, or remove the APIBinding",
}


def binding_findings(store: Store) -> Iterator[tuple[ObjectKey, Issue]]:
    """Yield the issues of the APIBindings of all clusters, with the functions of dispatch."""
    reported = set[tuple[str, str, str]]()
    for key in sorted(store.keys(API_BINDING)):
        binding = as_object(store.get(*key))
        if UNBOUND_BINDINGS.keys(key.cluster, binding):
            phase = as_object(binding.get("status")).get("phase") or "no phase"
            text = f"nothing is bound yet ({phase}): requests for its resources are refused until they are bound"
            yield key, Issue("binding-incomplete", text)
        for group, resource in cast("Iterable[tuple[str, str]]", BINDINGS_BY_RESOURCE.keys(key.cluster, binding)):
            bound = (key.cluster, group, resource)
            owner = find_owner(store, cluster=key.cluster, group=group, resource=resource)
            if owner.status in _ACTIONS and (owner.status is not OwnerStatus.AMBIGUOUS or bound not in reported):
                reported.add(bound)
                code = "binding-incomplete" if owner.status is OwnerStatus.DANGLING else "binding-owner"
                yield key, Issue(code, _format_text(owner))


def _format_text(owner: Ownership) -> str:
    trace = "; ".join(step for step in owner.trace if step != owner.problem)
    return f"{owner.problem}{_ACTIONS[owner.status]}{f' ({trace})' if trace else ''}"


_NOWHERE: Final[Mapping[ObjectKey, str]] = {}


def lint(
    store: Store, *, places: Mapping[ObjectKey, str] = _NOWHERE, now: datetime | None = None
) -> list[WebhookFinding]:
    """Return all findings, sorted by cluster, kind and name of the object.

    Args:
        store: Indexed by `fleethook.engines.dispatch.schema_owner.INDEXES`.
        places: File and line of objects.
        now: The time that decides about expired certificates, by default the current one.
    """
    found: list[tuple[ObjectKey, str, Issue]] = []
    now = now or datetime.now(UTC)
    for phase in PHASES:
        for cluster in sorted({key.cluster for key in store.keys(PHASES[phase])}):
            found += _lint_cluster(store, cluster, phase, now=now)
    found += ((key, "", one) for key, one in binding_findings(store))
    found.sort(key=lambda one: one[0])
    return [
        WebhookFinding(
            level=CODES[code],
            code=code,
            cluster=key.cluster,
            kind=key.group_kind.kind,
            configuration=key.name,
            webhook=webhook,
            text=text,
            place=places.get(key, ""),
        )
        for key, webhook, (code, text) in found
    ]


def _lint_cluster(store: Store, cluster: str, phase: Phase, *, now: datetime) -> Iterator[tuple[ObjectKey, str, Issue]]:
    keys = [key for key in store.keys(PHASES[phase]) if key.cluster == cluster]
    chain: list[LintedHook] = []
    for key in sorted(keys, key=lambda key: key.name.encode()):
        configuration = set_defaults(dict(as_object(store.get(*key))))
        yield from ((key, "", one) for one in _lint_configuration(key, configuration))
        chain += _compile(phase, key, configuration)
    for one in chain:
        hook, webhook, key, rule_expression = one
        each = (
            rule_findings(hook, store),
            condition_errors(hook, rule_expression),
            call_findings(hook, webhook, store, now=now),
        )
        yield from ((key, hook.name, finding) for findings in each for finding in findings)
    if chain and (text := explain_excess([one.hook for one in chain])):
        yield chain[-1].key, "", Issue("too-many-webhooks", f"its cluster has too many {phase} webhooks: {text}")


def _compile(phase: Phase, key: ObjectKey, configuration: JSONObject) -> Iterator[LintedHook]:
    webhooks = configuration.get("webhooks")
    annotations = as_object(as_object(configuration.get("metadata")).get("annotations"))
    expression = as_text(annotations.get(EXPRESSION_ANNOTATION))
    written = list_objects(webhooks)
    for hook, webhook in zip(compile_webhooks(phase, key.cluster, configuration), written, strict=True):
        yield LintedHook(hook, webhook, key, expression)


def _lint_configuration(key: ObjectKey, configuration: JSONObject) -> Iterator[Issue]:
    """Yield the issues of a configuration, and the errors and warnings of an apiserver."""
    if is_system(key.cluster):
        yield Issue("never-called", f"kcp ignores the webhooks of {key.cluster}: register them in another cluster")
    problems = list(configuration_problems(key.group_kind.kind, configuration))
    yield from (Issue("invalid", f"{one.field}: {one.text}") for one in problems)
    # An apiserver warns about objects that it accepts.
    refused = tuple(f"{one.field}: " for one in problems)
    yield from (
        Issue("suspicious", text) for text in configuration_warnings(configuration) if not text.startswith(refused)
    )
