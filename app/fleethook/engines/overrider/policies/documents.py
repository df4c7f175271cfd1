"""The objects of compiled policies, as kube-apiserver reads them."""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from fleethook.engines.overrider.policies.cel_expressions import (
    DIGEST_COLUMN,
    FORM_COLUMN,
    ROW,
    escape,
    find_member,
    join,
    patch,
    quote,
)
from fleethook.engines.overrider.policies.form import OLD_EXPRESSION, Form
from fleethook.engines.overrider.policies.mode import (
    COMPILED_LABEL,
    DIGEST_ANNOTATION,
    OVERRIDER_ANNOTATION,
    PLACES_ANNOTATION,
)
from fleethook.model.json import JSONObject, as_object
from fleethook.model.openyurt import POOL_NAME_LABEL, RENDERED_ANNOTATION, SUBJECT_KINDS
from fleethook.model.webhook_rules import write_rule

API_VERSION: Final = "admissionregistration.k8s.io/v1"
_RESOURCES: Final = {"Deployment": "deployments", "StatefulSet": "statefulsets"}
_NAME_BYTES: Final = 10
_CONTENT_DIGITS: Final = 10
_VARIABLES_OF_PLACE: Final = 20
"""kube-apiserver keeps 0.5 MiB for a policy and some 60 KiB for a variable with its expression."""
_SHARD_CHARACTERS: Final = 90_000
"""The values of the pools in one policy. kube-apiserver reads expressions of 100,000 characters at most."""
_NO_CHANGE: Final = patch("test", quote("/kind"), quote(""))
"""An operation that fails, so that kube-apiserver keeps the workload. It would decode the result of an empty patch.

Most policies run twice for a write, and change nothing the second time (k8s.io/apiserver, jsonPatcher.Patch).
"""
_POOL: Final = f'object.metadata.?labels[?"{POOL_NAME_LABEL}"].orValue("")'


class FailurePolicy(StrEnum):
    """The answer of kube-apiserver to a write whose policy fails."""

    IGNORE = "Ignore"
    FAIL = "Fail"


class Target(NamedTuple):
    """The workloads of a policy."""

    overrider: JSONObject
    subject: JSONObject
    kind: str
    """Deployment or StatefulSet."""
    labels: Mapping[str, str] = MappingProxyType({})
    """Labels that each of these workloads has from its template.

    kube-apiserver compares them, with the stored workload, too, before it converts the workload for an expression. The
    policy acts on an update that changes such a label, and restores it. Otherwise the next update would escape it.
    """
    marks: Mapping[str, str] = MappingProxyType({})
    """Labels that each of these workloads has from OpenYurt's controllers; the policy leaves them alone."""
    failure_policy: FailurePolicy = FailurePolicy.IGNORE

    @property
    def selected(self) -> Mapping[str, str]:
        """The labels by which kube-apiserver selects the workloads; empty if no label is common to all of them."""
        return {**self.labels, **self.marks}

    @property
    def namespace(self) -> str:
        """The namespace of the overrider and of the workloads."""
        namespace: str = self.overrider["metadata"].get("namespace") or "default"
        return namespace

    @property
    def uid(self) -> str:
        """The uid of the overrider; for files, a hash of its name."""
        metadata = self.overrider["metadata"]
        return metadata.get("uid") or _hash(f"{self.namespace}/{metadata['name']}")

    @property
    def name(self) -> str:
        """The beginning of the names of all objects of the policy."""
        identity = f"{self.namespace}/{self.overrider['metadata']['name']}/{self.kind}"
        return f"fleethook-{_hash(identity)}-{self.kind.lower()}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[: 2 * _NAME_BYTES]


Rows = Mapping[str, Sequence[str]]
"""The values of each pool, see `fleethook.engines.overrider.policies.cel_expressions.ROW`."""


def build_objects(target: Target, forms: Sequence[Form], rows: Rows) -> list[JSONObject]:
    """Return the policies and then their bindings, without their digest.

    The name of a policy has a hash of its content, and a binding names the policy. So an edit takes effect by one write
    for each binding. The values of pools are in the policies: kube-apiserver 1.36 may not find a parameter object if
    the last policy with parameters of its kind was deleted shortly before.

    Args:
        target: The workloads.
        forms: The shared plans.
        rows: The values of the pools.
    """
    shards = split_rows(rows)
    policies = [_build_policy(target, forms, shard) for shard in shards]
    bindings = [_build_binding(target, policy, str(number)) for number, policy in enumerate(policies)]
    return [*policies, *bindings]


def split_rows(rows: Rows) -> list[Rows]:
    """Return the rows in groups of some hundred pools, because the length of an expression is limited.

    The hash of its name puts a pool into a group, so that a new pool moves no other one.
    """
    count = 1
    while True:
        shards: list[dict[str, Sequence[str]]] = [{} for _ in range(count)]
        for pool, row in rows.items():
            shards[zlib.crc32(pool.encode()) % count][pool] = row
        if count >= len(rows) or max(len(_find_row(shard)) for shard in shards) <= _SHARD_CHARACTERS:
            return [shard for shard in shards if shard]
        count *= 2


def _build_policy(target: Target, forms: Sequence[Form], rows: Rows) -> JSONObject:
    spec: JSONObject = {
        "failurePolicy": target.failure_policy.value,
        # A later webhook may add a container or replace a value. The operations change nothing a second time.
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": _constrain(target),
        "matchConditions": [{"name": "workload", "expression": _match_workload(target, forms, rows)}],
        "variables": [
            {"name": "row", "expression": _find_row(rows)},
            {"name": "old", "expression": OLD_EXPRESSION},
            *(variable for form in forms for variable in form.variables),
            *(_name_forms(forms) if len(forms) > 1 else []),
        ],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": _mutate(target, forms)}}],
    }
    name = f"{target.name}-{_hash_content(spec)}"
    metadata = _describe(target, name)
    metadata["annotations"][PLACES_ANNOTATION] = str(1 + len(spec["variables"]) // _VARIABLES_OF_PLACE)
    return {"apiVersion": API_VERSION, "kind": "MutatingAdmissionPolicy", "metadata": metadata, "spec": spec}


def _build_binding(target: Target, policy: JSONObject, shard: str) -> JSONObject:
    return {
        "apiVersion": API_VERSION,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": _describe(target, f"{target.name}-{shard}"),
        "spec": {"policyName": policy["metadata"]["name"], **_restrict(target)},
    }


def _restrict(target: Target) -> JSONObject:
    """Return the namespace of a binding.

    If labels select the workloads of a subject, kube-apiserver compares the namespace only for these: it reads a
    binding after its policy has matched.
    """
    return {"matchResources": _select_namespace(target)} if target.selected else {}


def _describe(target: Target, name: str) -> JSONObject:
    overrider = f"{target.namespace}/{target.overrider['metadata']['name']}"
    labels = {COMPILED_LABEL: target.uid, "app.kubernetes.io/managed-by": "fleethook"}
    return {"name": name, "labels": labels, "annotations": {OVERRIDER_ANNOTATION: overrider}}


def _hash_content(content: JSONObject) -> str:
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:_CONTENT_DIGITS]


def _constrain(target: Target) -> JSONObject:
    """Return the constraints that kube-apiserver checks before any expression."""
    # kube-apiserver parses and validates each selector of each policy anew for each request. So the pools are in an
    # expression, and a selector without a label only spares other workloads the expression.
    pooled = {"matchExpressions": [{"key": POOL_NAME_LABEL, "operator": "Exists"}]}
    rule = write_rule("apps", "v1", [_RESOURCES[target.kind]], ["CREATE", "UPDATE"], "Namespaced")
    return {
        "matchPolicy": "Equivalent",
        **({} if target.selected else _select_namespace(target)),
        "objectSelector": {"matchLabels": target.selected} if target.selected else pooled,
        "resourceRules": [rule],
    }


def _select_namespace(target: Target) -> JSONObject:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": target.namespace}}}


def _match_workload(target: Target, forms: Sequence[Form], rows: Rows) -> str:
    """Return the condition of the workloads that a policy changes.

    One expression, with its cheapest part first: kube-apiserver evaluates all match conditions, even if one is false.
    """
    pool = f"{_POOL} in [{', '.join(map(quote, rows))}]"
    done = f"oldObject != null && {_match_done(forms, rows)}"
    return f"{pool} && !has(object.metadata.deletionTimestamp) && !({done}) && {_match_owner(target.subject)}"


def _match_done(forms: Sequence[Form], rows: Rows) -> str:
    """Return the condition that the policy has acted on the stored workload, and that the update changes nothing there.

    The operations are a function of these members. They would change nothing, but kube-apiserver would encode and
    decode the workload twice, and call all mutating webhooks a second time.
    """
    always = {("metadata", name) for name in ("annotations", "labels", "ownerReferences")}
    rendered = f'oldObject.metadata.?annotations[?"{RENDERED_ANNOTATION}"]'
    digests = f"{{{', '.join(f'{quote(pool)}: {quote(row[DIGEST_COLUMN])}' for pool, row in rows.items())}}}"
    kept = [
        f"{find_member(f'object.{part}', name)} == {find_member(f'oldObject.{part}', name)}"
        for part, name in sorted(always.union(*(form.reads for form in forms)))
    ]
    return " && ".join([f"{rendered} == {digests}[?{_POOL}]", *kept])


def _match_owner(subject: JSONObject) -> str:
    """Return the condition that `fleethook.engines.overrider.subject.owner_index.find_owner` finds the subject."""
    metadata, kind = subject["metadata"], subject["kind"]
    kinds = ", ".join(quote(one.kind) for one in sorted(SUBJECT_KINDS))
    group = subject["apiVersion"].partition("/")[0]
    named = [
        f"r.apiVersion == {quote(subject['apiVersion'])}",
        f"r.kind == {quote(kind)}",
        f"r.name == {quote(metadata['name'])}",
    ]
    if metadata.get("uid"):
        named.append(f"r.uid == {quote(metadata['uid'])}")
    other = f"r.controller == true && r.kind in [{kinds}] && r.apiVersion.startsWith({quote(group + '/')})"
    controls = "has(r.controller) && "
    references = "object.metadata.ownerReferences"
    is_named = " && ".join(named)
    return (
        f"has({references}) && ({references}.exists(r, {controls}r.controller == true && {is_named}) || "
        f"(!{references}.exists(r, {controls}{other}) && "
        f"{references}.filter(r, r.kind in [{kinds}] && r.apiVersion.startsWith({quote(group + '/')}))"
        f".map(r, {is_named})[?0].orValue(false)))"
    )


def _find_row(rows: Rows) -> str:
    members = (f"{quote(name)}: [{', '.join(map(quote, row))}]" for name, row in rows.items())
    return f"{{{', '.join(members)}}}[{_POOL}]"


def _mutate(target: Target, forms: Sequence[Form]) -> str:
    """Return the operations of a workload, which restore the labels of `Target.labels` first."""
    # The map of labels exists: it has the pool's name.
    restored = [
        f"({find_member('object.metadata.labels', name)} == optional.of({quote(value)}) ? [] : "
        f"[{patch('add', quote(f'/metadata/labels/{escape(name)}'), quote(value))}])"
        for name, value in sorted(target.labels.items())
    ]
    made = join([*restored, f"({_choose(forms)})"], "+", empty="[]")
    changing = f"[{made}].map(m, m.size() > 0 ? m : [{_NO_CHANGE}])[0]"
    return f"{changing}.map(o, JSONPatch{{op: o.op, path: o.path, ?value: o.?value}})"


def _choose(forms: Sequence[Form]) -> str:
    """Return the operations of the workload's form."""
    if len(forms) == 1:
        return forms[0].expression
    names = [f"variables.{variable['name']}" for variable in _name_forms(forms)]
    made = names[-1]
    for number, name in reversed(list(enumerate(names[:-1]))):
        made = f'{ROW}[{FORM_COLUMN}] == "{number}" ? {name} : {made}'
    return made


def _name_forms(forms: Sequence[Form]) -> list[dict[str, str]]:
    """Return a variable for each of several forms, because long expressions take long to compile."""
    return [{"name": f"form{number}", "expression": form.expression} for number, form in enumerate(forms)]


def count_places(metadata: Mapping[str, Any]) -> int:
    """Return the number of places that a policy with this metadata takes of the limit of policies."""
    text = str(as_object(metadata.get("annotations")).get(PLACES_ANNOTATION) or "")
    return int(text) if text.isdecimal() else 1


def most_variables(objects: Sequence[JSONObject]) -> int:
    """Return the number of variables of the policy with most of them."""
    return max((len(one["spec"]["variables"]) for one in objects if "variables" in one["spec"]), default=0)


def longest_expression(objects: Sequence[JSONObject]) -> int:
    """Return the length of the longest expression in code points."""
    specs = [one["spec"] for one in objects if one["kind"] == "MutatingAdmissionPolicy"]
    written = [one["expression"] for spec in specs for one in (*spec["variables"], *spec["matchConditions"])]
    written += [one["jsonPatch"]["expression"] for spec in specs for one in spec["mutations"]]
    return max(map(len, written), default=0)


def seal(objects: Sequence[JSONObject]) -> tuple[tuple[JSONObject, ...], str]:
    """Return the objects with their digest as an annotation, and the digest."""
    digest = hashlib.sha256(msgspec.json.encode(objects, order="sorted")).hexdigest()[:16]
    sealed = []
    for document in objects:
        metadata = document["metadata"]
        annotations = {**metadata["annotations"], DIGEST_ANNOTATION: digest}
        sealed.append({**document, "metadata": {**metadata, "annotations": annotations}})
    return tuple(sealed), digest
