"""The findings about an overrider: one function for admission, ``render``, ``lint`` and ``serve --manifests``."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from app.model.gvk import GroupKind
from app.model.json import JSONObject
from app.model.openyurt import GROUP
from app.overrider.binding import overriders_of, subject_of
from app.overrider.effect_rules import check_controller, check_node_pools
from app.overrider.finding import Finding
from app.overrider.rehearsal import Subject, find_subject, rehearse
from app.overrider.rules import check_overrider
from app.overrider.subject_pools import check_pools
from app.overrider.unknown_subject import unknown_subject
from app.store import StoreView

# A suggestion takes some 50 µs, so the rules take 50 ms at most, whatever the overrider contains.
_MAX_FINDINGS: Final = 1000
_FIELD: Final = re.compile(r"((?:entries|subject)[^:]*): ", re.ASCII)


def check(
    overrider: JSONObject, *, cluster: str, namespace: str, store: StoreView, every_namespace: bool = False
) -> tuple[Finding, ...]:
    """Return everything that is wrong with an overrider, errors and warnings.

    The subject and the entries are checked first; only if they are right, the overrider is rendered for each node pool
    of its subject.

    Args:
        overrider: An object with metadata.
        cluster: Its logical cluster, ``""`` for a plain one.
        namespace: Its namespace.
        store: The other overriders, the subject and the node pools.
        every_namespace: Whether a message may name a subject of another namespace.
    """
    found = [*islice(check_overrider(overrider), _MAX_FINDINGS)]
    found += _check_binding(overrider, cluster=cluster, namespace=namespace, store=store)
    blocked = any(one.level == "error" and one.field.startswith(("entries", "subject")) for one in found)
    if blocked:
        return tuple(found)
    found += check_controller((subject_of(overrider) or ("",))[0], cluster=cluster, store=store)
    subject = find_subject(overrider, cluster=cluster, namespace=namespace, store=store)
    if subject is None:
        found.append(
            unknown_subject(
                overrider, cluster=cluster, namespace=namespace, store=store, every_namespace=every_namespace
            )
        )
    else:
        found += check_fit(overrider, subject, known=found, store=store)
    return tuple(found)


def _check_binding(overrider: JSONObject, *, cluster: str, namespace: str, store: StoreView) -> Iterator[Finding]:
    subject = subject_of(overrider)
    if subject is None:
        return
    kind, name = subject
    bound = overriders_of(store, cluster=cluster, namespace=namespace, group_kind=GroupKind(GROUP, kind), name=name)
    own_name = overrider["metadata"].get("name")
    others = [other["metadata"]["name"] for other in bound if other["metadata"]["name"] != own_name]
    if others:
        message = (
            f"unable to bind multiple yurtappoverriders to one subject resource {name} in namespace {namespace}, "
            f"{others[0]} already exists"
        )
        yield Finding("duplicate", "subject.name", message)


def check_fit(
    overrider: JSONObject, subject: Subject, *, known: Sequence[Finding], store: StoreView
) -> Iterator[Finding]:
    """Yield what shows when the overrider is rendered for each node pool of its subject.

    Args:
        overrider: An overrider with the right shape.
        subject: Its subject.
        known: What was found without the subject, so that nothing is reported twice.
        store: The subject and the node pools.
    """
    namespace = subject.document["metadata"].get("namespace") or ""
    dry_run = rehearse(overrider, cluster=subject.cluster, namespace=namespace, store=store)
    yield from (Finding("does-not-fit", cause.field, cause.message) for cause in dry_run.causes)
    unused = {one.field.removesuffix(".pools") for one in known if one.code == "unused-entry"}
    yield from check_node_pools(subject, store=store)
    yield from check_pools(overrider, subject, unused=unused, store=store)
    yield from map(_remark, dry_run.warnings)


def _remark(text: str) -> Finding:
    """Return a warning of the dry run; its text begins with the path of the part of an entry that it is about."""
    if text.startswith("not checked: "):
        return Finding("not-checked", "", text)
    found = _FIELD.match(text)
    return Finding("dry-run", found.group(1), text[found.end() :]) if found else Finding("dry-run", "", text)
