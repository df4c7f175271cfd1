"""Compiles overriders with their subjects to MutatingAdmissionPolicies (KEP-3962)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from fleethook.cluster.store import ObjectKey, StoreView, key_of
from fleethook.engines.overrider.admission.dry_run import find_subject
from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.plan.plan import Plan
from fleethook.engines.overrider.plan.shared_plan import PoolPlan, SharedPlan
from fleethook.engines.overrider.plan.subject_plans import SubjectPlans
from fleethook.engines.overrider.policies.cel_expressions import Unsupported, quote
from fleethook.engines.overrider.policies.documents import (
    FailurePolicy,
    Target,
    build_objects,
    longest_expression,
    most_variables,
    seal,
)
from fleethook.engines.overrider.policies.form import Form, compile_form
from fleethook.engines.overrider.policies.mode import PROBE_ANNOTATION, Compilation, Refusal
from fleethook.engines.overrider.render.delta import leaves
from fleethook.engines.overrider.subject.owner_index import overriders_of, subject_of
from fleethook.engines.overrider.subject.subject_members import is_v1beta1, pools_of_subject, workload_kinds
from fleethook.engines.overrider.template.node_affinity import SubjectError
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject, as_object
from fleethook.model.openyurt import (
    GROUP,
    NODE_POOL,
    POOL_NAME_LABEL,
    REF_APP_SET_LABEL,
    RENDERED_ANNOTATION,
    YURT_APP_OVERRIDER,
)
from fleethook.patch import format_pointer

MAX_FORMS: Final = 20
"""Different sets of changes in one policy. kube-apiserver compiles all of them at each change of the policy."""
MAX_VARIABLES: Final = 200
"""Variables of one policy. 181, for 15 containers with four patches each, took 12 MiB and 7 ms of each evaluation."""
MAX_EXPRESSION: Final = 100_000
"""Code points of one expression (cel-go, ``parser.ExpressionSizeCodePointLimit``)."""
MAX_OBJECT_BYTES: Final = 1_000_000
"""etcd stores 1.5 MiB (``--max-request-bytes``), and kube-apiserver adds managed fields."""


_MAX_LABEL_VALUE: Final = 63
"""Characters of a label's value in kube-apiserver. The name of a subject may be longer."""


def compile_overrider(
    group_kind: GroupKind,
    subject: JSONObject,
    overrider: JSONObject,
    *,
    pools: Mapping[str, JSONObject | None],
    failure_policy: FailurePolicy = FailurePolicy.IGNORE,
) -> Compilation:
    """Return the policies of an overrider, or the reasons why it has none.

    An overrider compiles as a unit. With a part of its entries, a workload would have a state that no author described.

    Args:
        group_kind: YurtAppSet or YurtAppDaemon.
        subject: The subject as stored.
        overrider: The overrider in effect.
        pools: The node pools of the subject by name, with the NodePool object if there is one.
        failure_policy: The answer of kube-apiserver to a write whose policy fails.
    """
    plans = SubjectPlans(group_kind, subject, overrider)
    objects: list[JSONObject] = []
    for kind in workload_kinds(subject):
        target = Target(overrider, subject, kind, failure_policy=failure_policy)
        refusals, made = _compile_kind(plans, target, pools)
        if refusals:
            return Compilation((), "", tuple(refusals))
        objects += made
    if not objects:
        return Compilation((), "", ())
    if (length := longest_expression(objects)) > MAX_EXPRESSION:
        reason = f"it needs an expression of {length} characters, and kube-apiserver reads {MAX_EXPRESSION} at most"
        return _build_refusal("entries", reason)
    if (count := most_variables(objects)) > MAX_VARIABLES:
        reason = f"it needs {count} variables; more than {MAX_VARIABLES} take kube-apiserver too much memory and time"
        return _build_refusal("entries", reason)
    sealed, digest = seal(objects)
    for document in sealed:
        if (size := len(msgspec.json.encode(document))) > MAX_OBJECT_BYTES:
            reason = f"its {document['kind']} has {size} bytes; kube-apiserver stores {MAX_OBJECT_BYTES} at most"
            return _build_refusal("entries", reason)
    return Compilation(sealed, digest, ())


def _compile_kind(
    plans: SubjectPlans, target: Target, pools: Mapping[str, JSONObject | None]
) -> tuple[list[Refusal], list[JSONObject]]:
    numbers: dict[SharedPlan, int] = {}
    forms: list[Form] = []
    rows: dict[str, list[str]] = {}
    for pool, node_pool in sorted(pools.items()):
        try:
            plan = plans.plan(target.kind, pool, node_pool)
        except (RenderError, SubjectError) as error:
            field = error.field if isinstance(error, RenderError) else "subject"
            return [Refusal(field, "", f"node pool {pool}: {error}")], []
        if not plan.applies:
            continue
        if plan.shared not in numbers:
            if len(forms) == MAX_FORMS:
                reason = f"the node pools need more than {MAX_FORMS} different sets of changes"
                return [Refusal("entries", "", reason)], []
            try:
                forms.append(compile_form(plan.shared.plan, number=len(forms), texts=_count_texts(plan)))
            except Unsupported as error:
                return [_refuse(plan, error)], []
            numbers[plan.shared] = len(numbers)
        rows[pool] = _row(plan, numbers[plan.shared])
    if not rows:
        return [], []
    target = target._replace(labels=_find_labels(target.subject, [*numbers]), marks=_find_marks(target.subject))
    return [], build_objects(target, forms, rows)


def _find_labels(subject: JSONObject, plans: Sequence[SharedPlan]) -> dict[str, str]:
    """Return the labels that OpenYurt's controllers copy from the selector of a subject to its workloads.

    Other labels of a template may change before the policy is compiled again. v1beta1 has no selector.
    """
    selector = as_object(as_object(as_object(subject.get("spec")).get("selector")).get("matchLabels"))
    named = [as_object(as_object(one.plan.update.named.get("metadata")).get("labels")) for one in plans]
    return {
        name: value
        for name, value in selector.items()
        if isinstance(value, str)
        and all(labels.get(name) == value for labels in named)
        and not any(_changes_label(one.plan, name) for one in plans)
    }


def _find_marks(subject: JSONObject) -> dict[str, str]:
    """Return the label by which a YurtAppSet v1beta1 finds its workloads.

    OpenYurt's controller sets it, and releases a workload without it: no overrider applies to that workload then.
    """
    name: str = subject["metadata"]["name"]
    return {REF_APP_SET_LABEL: name} if is_v1beta1(subject) and len(name) <= _MAX_LABEL_VALUE else {}


def _changes_label(plan: Plan, name: str) -> bool:
    """Return whether an overrider or a pool's own patch changes a label: its rendered workloads differ in it."""
    label = ("metadata", "labels", name)
    deltas = [delta for variant in (plan.update, plan.create) for delta in (variant.pool_delta, variant.delta)]
    return any(leaf.tokens == label[: len(leaf.tokens)] for delta in deltas for leaf in leaves(delta))


def _count_texts(plan: PoolPlan) -> int:
    return len(plan.values.of_entries.texts)


def _row(plan: PoolPlan, number: int) -> list[str]:
    values = plan.values
    replicas = "" if values.replicas is None else str(values.replicas)
    own = (*values.of_entries.texts, *map(str, values.of_entries.numbers))
    return [str(number), plan.digest, plan.pool, replicas, *own]


def _refuse(plan: PoolPlan, error: Unsupported) -> Refusal:
    """Return the refusal of a change, with the entry that makes it."""
    pointer = format_pointer(error.tokens) if error.tokens else ""
    sources = plan.shared.plan.sources
    for source in reversed(sources):
        tokens = tuple(token if isinstance(token, str) else "*" for token in source.tokens)
        shared = min(len(tokens), len(error.tokens))
        if error.tokens and tokens[:shared] == error.tokens[:shared]:
            return Refusal(plan.values.fill_text(source.field), pointer, str(error))
    return Refusal("entries", pointer, str(error))


class Compiled(NamedTuple):
    """An overrider with its policies."""

    overrider: JSONObject
    compilation: Compilation

    @property
    def key(self) -> ObjectKey:
        """The key of the overrider."""
        return key_of(self.overrider)

    @property
    def subject(self) -> ObjectKey | None:
        """The key of its subject, which may not exist; None if the overrider names none of OpenYurt."""
        kind, name = subject_of(self.overrider) or ("", "")
        return self.key._replace(group_kind=GroupKind(GROUP, kind), name=name) if kind else None


def compile_stored(
    overrider: JSONObject, *, store: StoreView, failure_policy: FailurePolicy = FailurePolicy.IGNORE
) -> Compilation:
    """Return the policies of a stored overrider, or the reasons why it has none.

    Args:
        overrider: The overrider.
        store: Its subject, the other overriders of the subject, and the NodePools.
        failure_policy: The answer of kube-apiserver to a write whose policy fails.
    """
    cluster, _, namespace, name = key_of(overrider)
    subject = find_subject(overrider, cluster=cluster, namespace=namespace, store=store)
    if subject is None:
        return _build_refusal("subject", "its subject is not known, and the policy needs its template; add the subject")
    subject_name = subject.document["metadata"]["name"]
    bound = overriders_of(store, cluster=cluster, namespace=namespace, group_kind=subject.group_kind, name=subject_name)
    if bound and bound[0]["metadata"]["name"] != name:
        effective = bound[0]["metadata"]["name"]
        return _build_refusal(
            "subject", f"the overrider {effective} of the same subject is in effect; delete one of them"
        )
    if cluster:
        return _build_refusal("", "a policy of one kube-apiserver cannot select the objects of a logical cluster")
    group_kind, document, _ = subject
    pools = {
        pool: store.get(cluster, NODE_POOL, "", pool)
        for pool in pools_of_subject(group_kind, document, cluster=cluster, store=store)
    }
    return compile_overrider(group_kind, document, overrider, pools=pools, failure_policy=failure_policy)


def _build_refusal(entry: str, reason: str) -> Compilation:
    return Compilation((), "", (Refusal(entry, "", reason),))


def compile_all(
    store: StoreView, clusters: list[str], *, failure_policy: FailurePolicy = FailurePolicy.IGNORE
) -> Iterator[Compiled]:
    """Yield each overrider of the store with its policies, by namespace and name."""
    for cluster in clusters:
        for overrider in sorted(store.each(cluster, YURT_APP_OVERRIDER), key=key_of):
            yield Compiled(overrider, compile_stored(overrider, store=store, failure_policy=failure_policy))


_KINDS: Final = {"deployments": "Deployment", "statefulsets": "StatefulSet"}


class Probe(NamedTuple):
    """A workload to create in a dry run."""

    plural: str
    workload: JSONObject
    digest: str
    """The value of ``fleethook.io/rendered`` that the policy sets, apart from a suffix."""

    def is_rendered(self, answer: JSONObject) -> bool:
        """Return whether the answer of the dry run shows that the policy acts."""
        annotations = as_object(as_object(answer.get("metadata")).get("annotations"))
        return str(annotations.get(RENDERED_ANNOTATION) or "").startswith(self.digest)


def build_probes(
    objects: Sequence[JSONObject],
    *,
    group_kind: GroupKind,
    subject: JSONObject,
    overrider: JSONObject,
    pools: Mapping[str, JSONObject | None],
) -> list[Probe]:
    """Return a probe for each policy of a compilation.

    Args:
        objects: The objects of the compilation.
        group_kind: The kind of the subject.
        subject: The subject.
        overrider: The overrider.
        pools: The node pools of the subject.
    """
    plans = SubjectPlans(group_kind, subject, overrider)
    probes = []
    for document in objects:
        if document["kind"] != "MutatingAdmissionPolicy":
            continue
        constraints = document["spec"]["matchConstraints"]
        plural = constraints["resourceRules"][0]["resources"][0]
        pool = _find_pool(document, pools)
        plan = plans.plan(_KINDS[plural], pool, pools.get(pool))
        workload = _build_workload(plan.for_update.base, kind=_KINDS[plural], subject=subject, pool=pool)
        probes.append(Probe(plural, workload, plan.digest))
    return probes


def _find_pool(policy: JSONObject, pools: Iterable[str]) -> str:
    """Return a node pool of a policy: its first variable maps names to values."""
    row: str = policy["spec"]["variables"][0]["expression"]
    return next(pool for pool in pools if f"{quote(pool)}: [" in row)


def _build_workload(base: JSONObject, *, kind: str, subject: JSONObject, pool: str) -> JSONObject:
    """Return the workload as OpenYurt's controllers create it; a selector is required, and matches its pods."""
    metadata = subject["metadata"]
    labels = {POOL_NAME_LABEL: pool}
    owner = {"apiVersion": subject["apiVersion"], "kind": subject["kind"], "controller": True}
    pod_template = base["spec"]["template"]
    pod_metadata = as_object(pod_template.get("metadata"))
    pods = {**pod_template, "metadata": {**pod_metadata, "labels": {**as_object(pod_metadata.get("labels")), **labels}}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {
            "generateName": "fleethook-probe-",
            "namespace": metadata.get("namespace") or "default",
            # A policy selects workloads by the labels of the template, too.
            "labels": {**as_object(as_object(base.get("metadata")).get("labels")), **labels},
            "annotations": {PROBE_ANNOTATION: "true"},
            "ownerReferences": [{**owner, "name": metadata["name"], "uid": metadata["uid"]}],
        },
        "spec": {**base["spec"], "selector": {"matchLabels": labels}, "template": pods},
    }
