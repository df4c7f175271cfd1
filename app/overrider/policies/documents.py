"""The objects of compiled policies, as kube-apiserver reads them."""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from app.model.json import JSONObject
from app.model.openyurt import POOL_NAME_LABEL
from app.overrider.owner import SUBJECT_KINDS
from app.overrider.policies.cel import quote
from app.overrider.policies.compilation import COMPILED_LABEL, DIGEST_ANNOTATION, OVERRIDER_ANNOTATION
from app.overrider.policies.form import OLD_EXPRESSION, Form

API_VERSION: Final = "admissionregistration.k8s.io/v1"
SEPARATOR: Final = "\n"
"""Separates the values of a pool in a parameter object."""
_RESOURCES: Final = {"Deployment": "deployments", "StatefulSet": "statefulsets"}
_NAME_BYTES: Final = 10
_CONTENT_DIGITS: Final = 10
_SHARD_POOLS: Final = 200


class Placement(StrEnum):
    """The place of the values of pools."""

    AUTO = "auto"
    """In the policy, in ConfigMaps for more than some hundred pools."""
    EXPRESSION = "expression"
    CONFIG_MAP = "configmap"

    def resolve(self, pools: int) -> "Placement":
        """Return the place for a number of pools."""
        if self is not Placement.AUTO:
            return self
        return Placement.EXPRESSION if pools <= _SHARD_POOLS else Placement.CONFIG_MAP


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
"""The values of each pool, see `app.overrider.policies.cel.ROW`."""


def build_objects(
    target: Target, forms: Sequence[Form], rows: Rows, *, placement: Placement, failure_policy: FailurePolicy
) -> list[JSONObject]:
    """Return the parameters, the policy and its bindings, in the order to apply them, without their digest.

    A policy and its parameters have names with a hash of their content, and a binding names both. So an edit takes
    effect by one write for each binding, and never combines a policy with the values of another one.

    Args:
        target: The workloads.
        forms: The shared plans.
        rows: The values of the pools.
        placement: The place of these values.
        failure_policy: The answer if the policy fails.
    """
    placement = placement.resolve(len(rows))
    policy = _build_policy(target, forms, rows, placement=placement, failure_policy=failure_policy)
    if placement is Placement.EXPRESSION:
        return [policy, _build_binding(target, policy, "0", rows)]
    shards = split_rows(rows)
    maps = [_build_map(target, shard) for shard in shards]
    bindings = [
        _build_binding(target, policy, str(number), shard, parameters=parameters)
        for number, (shard, parameters) in enumerate(zip(shards, maps, strict=True))
    ]
    return [*maps, policy, *bindings]


def split_rows(rows: Rows) -> list[Rows]:
    """Return the rows in groups of some hundred pools.

    kube-apiserver converts all values of a parameter object for each request that it selects. The hash of its name puts
    a pool into a group, so that a new pool moves no other one.
    """
    count = 1
    while count * _SHARD_POOLS < len(rows):
        count *= 2
    shards: list[dict[str, Sequence[str]]] = [{} for _ in range(count)]
    for pool, row in rows.items():
        shards[zlib.crc32(pool.encode()) % count][pool] = row
    return [shard for shard in shards if shard]


def _build_policy(
    target: Target, forms: Sequence[Form], rows: Rows, *, placement: Placement, failure_policy: FailurePolicy
) -> JSONObject:
    in_map = placement is Placement.CONFIG_MAP
    parameters = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}} if in_map else {}
    spec: JSONObject = {
        **parameters,
        "failurePolicy": failure_policy.value,
        # A later webhook may add a container or replace a value. The operations change nothing a second time.
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": _constrain(target),
        "matchConditions": _conditions(target),
        "variables": [
            {"name": "row", "expression": _find_row(rows, in_map=in_map)},
            {"name": "old", "expression": OLD_EXPRESSION},
            *(variable for form in forms for variable in form.variables),
        ],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": _choose(forms)}}],
    }
    name = f"{target.name}-{_hash_content(spec)}"
    return {
        "apiVersion": API_VERSION,
        "kind": "MutatingAdmissionPolicy",
        "metadata": _describe(target, name),
        "spec": spec,
    }


def _build_binding(
    target: Target, policy: JSONObject, shard: str, rows: Rows, *, parameters: JSONObject | None = None
) -> JSONObject:
    spec: JSONObject = {"policyName": policy["metadata"]["name"]}
    if parameters is not None:
        metadata = parameters["metadata"]
        reference = {"name": metadata["name"], "namespace": metadata["namespace"]}
        spec["paramRef"] = {**reference, "parameterNotFoundAction": "Deny"}
    # Checked before any conversion and any expression.
    pools = {"key": POOL_NAME_LABEL, "operator": "In", "values": sorted(rows)}
    spec["matchResources"] = {"objectSelector": {"matchExpressions": [pools]}}
    return {
        "apiVersion": API_VERSION,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": _describe(target, f"{target.name}-{shard}"),
        "spec": spec,
    }


def _describe(target: Target, name: str) -> JSONObject:
    overrider = f"{target.namespace}/{target.overrider['metadata']['name']}"
    labels = {COMPILED_LABEL: target.uid, "app.kubernetes.io/managed-by": "fleethook"}
    return {"name": name, "labels": labels, "annotations": {OVERRIDER_ANNOTATION: overrider}}


def _build_map(target: Target, rows: Rows) -> JSONObject:
    data = {pool: SEPARATOR.join(row) for pool, row in rows.items()}
    metadata: JSONObject = {
        **_describe(target, f"{target.name}-{_hash_content(data)}"),
        "namespace": target.namespace,
    }
    overrider = target.overrider["metadata"]
    if overrider.get("uid"):
        # Only an object in the overrider's namespace can name it as its owner.
        owner = {"apiVersion": target.overrider["apiVersion"], "kind": target.overrider["kind"]}
        metadata["ownerReferences"] = [{**owner, "name": overrider["name"], "uid": overrider["uid"]}]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _hash_content(content: JSONObject) -> str:
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:_CONTENT_DIGITS]


def _constrain(target: Target) -> JSONObject:
    """Return the constraints that kube-apiserver checks before any expression."""
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [_RESOURCES[target.kind]],
        "scope": "Namespaced",
    }
    return {
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": target.namespace}},
        "objectSelector": {"matchExpressions": [{"key": POOL_NAME_LABEL, "operator": "Exists"}]},
        "resourceRules": [rule],
    }


def _conditions(target: Target) -> list[JSONObject]:
    """Return the conditions that need no pool; the selector of a binding has checked the pool."""
    return [
        {"name": "owner", "expression": _match_owner(target.subject)},
        {"name": "alive", "expression": "!has(object.metadata.deletionTimestamp)"},
    ]


def _match_owner(subject: JSONObject) -> str:
    """Return the condition that `app.overrider.owner.find_owner` finds the subject."""
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


def _find_row(rows: Rows, *, in_map: bool) -> str:
    pool = f'object.metadata.labels[?{quote(POOL_NAME_LABEL)}].orValue("")'
    if in_map:
        # A map of this policy cannot have an empty value.
        return f'params.data[?{pool}].orValue("").split({json_text(SEPARATOR)})'
    members = (f"{quote(name)}: [{', '.join(map(quote, row))}]" for name, row in rows.items())
    return f'{{{", ".join(members)}}}[?{pool}].orValue([""])'


def json_text(text: str) -> str:
    """Return a text as a CEL literal in ASCII."""
    return msgspec.json.encode(text).decode()


def _choose(forms: Sequence[Form]) -> str:
    """Return the operations of the workload's form; none if the request moves it to another pool."""
    made = "[]"
    for number, form in reversed(list(enumerate(forms))):
        made = f'variables.row[0] == "{number}" ? {form.expression} : {made}'
    return made


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
