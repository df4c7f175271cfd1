"""The webhooks of admission rules in Python, and the effect of any registered webhook while no server answers, as text.

Rules have configurations of their own, because they change while a server runs. Installers know only those of engines.
"""

import inspect
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from fleethook.admission.mismatch_and_pod_templates import list_targets
from fleethook.admission.rule_in_tests import Rule
from fleethook.admission.rule_scope_and_options import CONTROL_PLANE_TEXT, Declaration, list_named_namespaces
from fleethook.cluster.registration.paths import build_rule_path
from fleethook.cluster.registration.webhook_configurations import (
    MUTATING,
    VALIDATING,
    OwnWebhook,
    Reference,
    ServiceReference,
    build_configuration,
    exclude_namespaces,
)
from fleethook.model.formats.names_and_labels import NAMESPACE_LABEL
from fleethook.model.json import JSONObject, as_object, list_objects, list_texts
from fleethook.model.rule_matching import EVERY

SUFFIX: Final = ".rules.fleethook.io"
"""The end of the name of each webhook: kube-apiserver wants at least three labels."""
PROBE_ANNOTATION: Final = "fleethook.io/doctor"
"""In a dry run of `fleethook doctor`, the name of the rule on whose behalf the server refuses the object."""
PROBE_ANSWER: Final = "the server answers, as `fleethook doctor` asked"
"""The beginning of this refusal. Why the newest files do not load may follow."""
SERVER_ANNOTATION: Final = "fleethook.io/registered-by"
"""The namespace of the servers that maintain a configuration."""


def name_resources(declared: Declaration) -> tuple[str, ...]:
    """Return the resource with each subresource, as registrations name them."""
    return tuple(
        f"{declared.resource}/{subresource}" if subresource else declared.resource
        for subresource in declared.subresources
    )


def make_webhook(rule: Rule, *, exempt: Sequence[str] = ()) -> OwnWebhook:
    """Return the webhook of a rule; ``exempt`` are namespaces that it sees only if it names them."""
    one = rule.declaration
    _, *further = list_targets(one)
    unseen = [*dict.fromkeys((*exempt, *one.exempt))]
    if list_named_namespaces(one.namespace_selector):
        # A server without its Lease can neither lead nor repair its registration.
        unseen = [*exempt] if one.resource == "leases" else []
    return OwnWebhook(
        name=rule.name + SUFFIX,
        configuration=MUTATING if one.mutates else VALIDATING,
        path=build_rule_path(rule.name, mutates=one.mutates),
        group=one.group,
        version=one.version,
        resources=name_resources(one),
        object_selector=one.object_selector,
        conditions=tuple({"name": name, "expression": each.expression} for name, each in one.conditions.items()),
        scope=one.scope,
        failure_policy=one.failure_policy,
        side_effects=one.side_effects,
        operations=one.operations,
        engine="rules",
        namespace_selector=exclude_namespaces(one.namespace_selector, unseen),
        timeout=one.timeout,
        further=tuple(
            (*named, tuple(each.resource for each in same))
            for named, same in itertools.groupby(further, key=lambda each: (each.group, each.version))
        ),
    )


def build_rule_configurations(
    rules: Iterable[Rule], reference: Reference, *, name: str, server: str, exempt: Sequence[str]
) -> list[JSONObject]:
    """Return both configurations, without ``caBundle``; one without webhooks must not exist.

    Args:
        rules: The rules in their order.
        reference: The Service or URL of the server.
        name: The name of both configurations.
        server: The namespace of the servers.
        exempt: Namespaces whose objects are not sent to rules that do not name them.
    """
    webhooks = [make_webhook(rule, exempt=exempt) for rule in rules]
    found = [build_configuration(name, kind, webhooks, reference, exempt=()) for kind in (MUTATING, VALIDATING)]
    return [{**one, "metadata": {**one["metadata"], "annotations": {SERVER_ANNOTATION: server}}} for one in found]


DESCRIPTION_ANNOTATION: Final = "kubernetes.io/description"
EXPRESSION_ANNOTATION: Final = "fleethook.io/rule-expression"
"""The expression of a rule, for lint."""
_EXAMPLE: Final = ServiceReference("fleethook", "fleethook")


def describe_rule(rule: Rule) -> JSONObject:
    """Return a configuration with the webhook and the documentation of one rule, for commands and the console.

    The Service is that of the chart.
    """
    webhook = make_webhook(rule, exempt=[_EXAMPLE.namespace])
    configuration = build_configuration(rule.name, webhook.configuration, [webhook], _EXAMPLE, exempt=())
    texts = {
        DESCRIPTION_ANNOTATION: inspect.cleandoc(rule.__doc__ or ""),
        EXPRESSION_ANNOTATION: "" if rule.expression is None else rule.expression.expression,
    }
    configuration["metadata"]["annotations"] = {name: text for name, text in texts.items() if text}
    return configuration


def read_webhook(kind: str, webhook: JSONObject) -> OwnWebhook:
    """Return a registered webhook of a rule as `make_webhook` has built it.

    Args:
        kind: The kind of its configuration.
        webhook: The webhook in the configuration.
    """
    rules = webhook.get("rules") or [{}]
    one: dict[str, Any] = dict(as_object(rules[0]))
    return OwnWebhook(
        name=str(webhook.get("name")),
        configuration=MUTATING if kind == MUTATING else VALIDATING,
        path="",
        group=next(iter(one.get("apiGroups") or ()), "*"),
        version=next(iter(one.get("apiVersions") or ()), "*"),
        resources=tuple(one.get("resources") or ()),
        object_selector={},
        conditions=(),
        scope=one.get("scope") or "*",
        failure_policy=webhook.get("failurePolicy") or "Fail",
        operations=tuple(one.get("operations") or ()),
        engine="rules",
    )


def read_server_namespace(configuration: JSONObject) -> str:
    """Return the namespace of the servers that maintain a configuration, ``""`` if it does not name them."""
    return str(as_object(as_object(configuration.get("metadata")).get("annotations")).get(SERVER_ANNOTATION) or "")


def describe_outage(webhooks: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each webhook that gets requests: the refused writes first, then those that pass unchecked."""
    lines = [
        (webhook.get("failurePolicy") == "Ignore", f"{describe_requests(webhook)} ({webhook.get('name')})")
        for webhook in webhooks
        if list_objects(webhook.get("rules"))
    ]
    return [f"{'unchecked' if opens else 'refused'}: {text}" for opens, text in sorted(lines)]


def describe_requests(webhook: Mapping[str, Any]) -> str:
    """Return the requests that a webhook gets, such as ``CREATE of deployments.apps, except in kube-system``."""
    return "".join([", ".join(map(_describe_rule, list_objects(webhook.get("rules")))), *_describe_selectors(webhook)])


def _describe_rule(rule: Mapping[str, Any]) -> str:
    operations, resources = list_texts(rule.get("operations")), list_texts(rule.get("resources"))
    groups = [text for text in list_texts(rule.get("apiGroups")) if text]
    named = [f"{resource}.{group}".rstrip(".") for group in groups or [""] for resource in resources]
    named = ["every resource" if one == f"{EVERY}.{EVERY}" else one for one in named]
    return f"{'every request' if EVERY in operations else ', '.join(operations)} of {', '.join(named)}"


def _describe_selectors(webhook: Mapping[str, Any]) -> Iterator[str]:
    """Yield the limits of the namespaces and objects; other match conditions are left out."""
    if any(one.get("name") == "not-control-plane" for one in list_objects(webhook.get("matchConditions"))):
        yield f" except {CONTROL_PLANE_TEXT}"
    selector = as_object(webhook.get("namespaceSelector"))
    labels = _list_requirements(selector, without=NAMESPACE_LABEL)
    if labels:
        yield f", in namespaces with {', '.join(labels)}"
    for expression in list_objects(selector.get("matchExpressions")):
        if expression.get("key") == NAMESPACE_LABEL and (values := list_texts(expression.get("values"))):
            yield f", {'in' if expression.get('operator') == 'In' else 'except objects in'} {', '.join(values)}"
    if labels := _list_requirements(as_object(webhook.get("objectSelector"))):
        yield f", with {', '.join(labels)}"


def _list_requirements(selector: Mapping[str, Any], *, without: str = "") -> list[str]:
    """Return the requirements of a label selector as kubectl writes them."""
    found = [f"{name}={value}" for name, value in as_object(selector.get("matchLabels")).items()]
    for expression in list_objects(selector.get("matchExpressions")):
        key, operator = expression.get("key"), str(expression.get("operator"))
        if key != without:
            values = ",".join(list_texts(expression.get("values")))
            known = {"Exists": f"{key}", "DoesNotExist": f"!{key}", "In": f"{key} in ({values})"}
            found.append(known.get(operator, f"{key} notin ({values})"))
    return found
