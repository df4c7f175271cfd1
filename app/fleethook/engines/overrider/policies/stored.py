"""Compiles the overriders of a store, with the subjects and node pools that it has."""

from collections.abc import Iterator
from typing import NamedTuple

from fleethook.cluster.store import ObjectKey, StoreView
from fleethook.cluster.store.store import key_of
from fleethook.engines.overrider.admission.dry_run import Subject, find_subject
from fleethook.engines.overrider.policies.compilation import Compilation, Refusal
from fleethook.engines.overrider.policies.compiler import DEFAULT_OPTIONS, Options, compile_overrider
from fleethook.engines.overrider.subject.binding import overriders_of, subject_of
from fleethook.engines.overrider.subject.pools import pools_of_subject
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import GROUP, NODE_POOL, YURT_APP_OVERRIDER


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


def compile_stored(overrider: JSONObject, *, store: StoreView, options: Options = DEFAULT_OPTIONS) -> Compilation:
    """Return the policies of a stored overrider, or the reasons why it has none.

    Args:
        overrider: The overrider.
        store: Its subject, the other overriders of the subject, and the NodePools.
        options: The choices of the operator.
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
    return _compile_for(subject, overrider, store, options)


def _compile_for(subject: Subject, overrider: JSONObject, store: StoreView, options: Options) -> Compilation:
    group_kind, document, cluster = subject
    pools = {
        name: store.get(cluster, NODE_POOL, "", name)
        for name in pools_of_subject(group_kind, document, cluster=cluster, store=store)
    }
    return compile_overrider(group_kind, document, overrider, pools=pools, options=options)


def _build_refusal(entry: str, reason: str) -> Compilation:
    return Compilation((), "", (Refusal(entry, "", reason),))


def compile_all(store: StoreView, clusters: list[str], *, options: Options = DEFAULT_OPTIONS) -> Iterator[Compiled]:
    """Yield each overrider of the store with its policies, by namespace and name."""
    for cluster in clusters:
        for overrider in sorted(store.each(cluster, YURT_APP_OVERRIDER), key=key_of):
            yield Compiled(overrider, compile_stored(overrider, store=store, options=options))
