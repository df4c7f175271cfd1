"""The checks of `fleethook lint` about admission rules in Python."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fleethook.cli.inputs.objects_with_changes import SourceOptions
from fleethook.cli.output.findings_output import FindingRow
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.cluster.registration.paths import find_rule_path
from fleethook.cluster.store import Store, key_of
from fleethook.model.formats.names_and_labels import NAMESPACE_LABEL, compile_selector
from fleethook.model.formats.text import list_names
from fleethook.model.json import JSONObject, as_object
from fleethook.model.rule_matching import EVERY, RuleWithOperations, read_rules

CODES: Final[Mapping[str, str]] = {
    "immutable-members": "A mutating rule gets updates of a kind whose stored objects have immutable members.",
    "stops-controllers": "A rule with `failurePolicy: Fail` has a wildcard for groups or resources, or gets Leases.",
    "system-pods": "A rule with `failurePolicy: Fail` gets the Pods of kube-system. Without an answer, none can start.",
}
"""The codes of warnings about rules, with their meanings."""
_SYSTEM: Final = "kube-system"
_STARTS: Final = (("pods", ""), ("pods", "binding"), ("pods", "status"), ("serviceaccounts", "token"))
"""Resources with the subresource whose writes a Pod needs before it is ready."""
_LEASES: Final = frozenset({"coordination.k8s.io", "leases"})
# k8s.io/kubernetes v1.36, ValidateUpdate of the strategies: an UPDATE may change little or nothing of these objects,
# except their metadata.
_IMMUTABLE: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset({"persistentvolumeclaims", "persistentvolumes", "pods"}),
    "apps": frozenset({"controllerrevisions", "statefulsets"}),
    "batch": frozenset({"jobs"}),
    "certificates.k8s.io": frozenset({"certificatesigningrequests"}),
    "networking.k8s.io": frozenset({"ingressclasses"}),
    "rbac.authorization.k8s.io": frozenset({"clusterrolebindings", "rolebindings"}),
    "resource.k8s.io": frozenset({"resourceclaims"}),
    "scheduling.k8s.io": frozenset({"priorityclasses"}),
    "storage.k8s.io": frozenset({"storageclasses", "volumeattachments"}),
}


def lint_rules(documents: Sequence[Document], _store: Store, _options: SourceOptions | None) -> list[FindingRow]:
    """Return the findings about the rules among documents, as `fleethook.engine.Engine` describes."""
    return [
        FindingRow(
            "warning",
            code,
            "",
            document.object["kind"],
            "",
            key_of(document.object).name,
            webhook=str(webhook.get("name")),
            field="",
            text=text,
            place=document.place,
        )
        for document in documents
        if document.source.endswith(".py")
        for webhook in map(as_object, document.object.get("webhooks") or ())
        if find_rule_path(dict(webhook))
        for code, text in _find_risks(dict(webhook), mutates=document.object["kind"].startswith("Mutating"))
    ]


def _find_risks(webhook: JSONObject, *, mutates: bool) -> Iterator[tuple[str, str]]:
    for rule in read_rules(webhook):
        plurals = {resource for resource, subresource in rule.resources if not subresource}
        groups = _IMMUTABLE if EVERY in rule.groups else rule.groups
        known = frozenset[str]().union(*(_IMMUTABLE.get(group, ()) for group in groups))
        fixed = known if EVERY in plurals else known & plurals
        if mutates and "UPDATE" in rule.operations and fixed:
            text = (
                f"it changes {list_names(sorted(fixed))} on UPDATE, too, and many of their members are immutable: "
                "kube-apiserver then refuses updates of objects that are older than the rule: remove UPDATE, or change "
                "metadata only"
            )
            yield "immutable-members", text
        closed = webhook.get("failurePolicy") == "Fail"
        if closed and (broad := _describe_breadth(webhook, rule)):
            text = (
                f"it gets {broad}, and failurePolicy is Fail: while no replica answers, controllers stop: "
                "name the resources and namespaces that it needs, or set failure_policy='Ignore'"
            )
            yield "stops-controllers", text
        starts = any(
            one in (name, EVERY) and part in (subresource, EVERY)
            for one, part in rule.resources
            for name, subresource in _STARTS
        )
        if closed and rule.groups & {"", EVERY} and starts and _selects(webhook, _SYSTEM):
            text = (
                f"it gets writes that Pods of {_SYSTEM} need to start, and failurePolicy is Fail: while no replica "
                "answers, those of network and DNS do not start, so the server may not come back: name other "
                "namespaces, set failure_policy='Ignore', or run several replicas"
            )
            yield "system-pods", text


def _describe_breadth(webhook: JSONObject, rule: RuleWithOperations) -> str:
    """Return the writes of controllers that a rule gets; those of a control plane are `stops-control-plane`."""
    plurals = {resource for resource, _ in rule.resources}
    if EVERY in plurals and not rule.groups & {"", EVERY}:
        return f"every resource of {', '.join(sorted(rule.groups))}"
    if EVERY in rule.groups and EVERY not in plurals:
        return f"{', '.join(sorted(plurals))} of every API group"
    if {*rule.groups, *plurals} >= _LEASES and not _selects(webhook, _SYSTEM) and _selects(webhook, "default"):
        return "Leases, by which they elect their leaders"
    return ""


def _selects(webhook: JSONObject, namespace: str) -> bool:
    return compile_selector(webhook.get("namespaceSelector") or {})({NAMESPACE_LABEL: namespace})
