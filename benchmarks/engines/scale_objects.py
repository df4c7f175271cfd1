"""The objects of a fleet of any size: subjects with the benchmark's template, their overriders and workloads."""

import copy
import json
from typing import Any, NamedTuple

from benchmarks import reviews
from fleethook.cluster.store import Store
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.bound_overriders import OVERRIDERS_BY_SUBJECT
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.patch import apply
from fleethook.server.reviews.review_codec import decode_review
from tests.builders import mutate_workload

NAMESPACES = 20
_MAX_SUBJECTS = 20
"""Subjects that are kept while their workloads are made. A page of the console reads workloads of so many."""
_SUBJECT, _POOL, _DIGEST = "app-name-of-subject", "name-of-pool", "0123456789abcdef"


class Size(NamedTuple):
    """The number of subjects and of the pools of each; every pool has a workload."""

    subjects: int
    pools: int

    @property
    def workloads(self) -> int:
        return self.subjects * self.pools


def namespace_of(subject: int) -> str:
    return f"team-{subject % NAMESPACES:02}"


def subject_name(subject: int) -> str:
    return f"app-{subject:05}"


def pool_name(pool: int) -> str:
    return f"pool-{pool:04}"


def subject(number: int, pools: int) -> dict[str, Any]:
    """Return a YurtAppSet with its pools; they differ by name, as OpenYurt's users write them."""
    made = reviews.yurt_app_set()
    made["metadata"] |= {
        "name": subject_name(number), "namespace": namespace_of(number), "uid": f"uid-{number}", "generation": 1,
        "resourceVersion": "1",
    }  # fmt: skip
    (one,) = made["spec"]["topology"]["pools"]
    text = json.dumps(one)
    made["spec"]["topology"]["pools"] = [json.loads(text.replace(reviews.POOL, pool_name(at))) for at in range(pools)]
    return made


def overrider(number: int, *, tag: str = "1.14.2", version: int = 1) -> dict[str, Any]:
    """Return the overrider of a subject: an entry for all pools, and one for all but the first."""
    made = reviews.overrider(subject_name(number))
    made["metadata"] |= {
        "namespace": namespace_of(number), "uid": f"rule-{number}", "generation": version, "resourceVersion": str(version)
    }  # fmt: skip
    entries = copy.deepcopy(made["entries"])
    entries[0]["items"][0]["image"]["imageClaim"] = f"registry.{{{{nodepool}}}}.example.com/shop/app:{tag}"
    entries[1]["pools"] = ["*", f"-{pool_name(0)}"]
    return made | {"entries": entries}


def node_pool(number: int) -> dict[str, Any]:
    metadata = {"name": pool_name(number), "uid": f"pool-{number}", "resourceVersion": "1", "labels": {"type": "edge"}}
    return {
        "apiVersion": reviews.API, "kind": "NodePool", "metadata": metadata, "spec": {"type": "Edge"},
        "status": {"readyNodeNum": 3},
    }  # fmt: skip


def bare_workload(number: int, pool: int) -> dict[str, Any]:
    """Return the Deployment of a pool as its owner's controller writes it and an apiserver sends it to webhooks."""
    text = json.dumps(reviews.deployment()).replace(reviews.POOL, pool_name(pool))
    made = json.loads(text)
    made["metadata"] |= {
        "name": workload_name(number, pool), "namespace": namespace_of(number), "generation": 1, "resourceVersion": "1",
        "uid": f"workload-{number}-{pool}",
    }  # fmt: skip
    made["metadata"]["ownerReferences"][0] |= {"name": subject_name(number), "uid": f"uid-{number}"}
    return made


def workload_name(number: int, pool: int) -> str:
    return f"{subject_name(number)}-{pool_name(pool)}-x7k2p"


def update_review(path_kind: str, document: dict[str, Any], before: dict[str, Any]) -> bytes:
    """Return the body of a review of an update."""
    group, _, version = document["apiVersion"].rpartition("/")
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": "UPDATE",
        "kind": {"group": group, "version": version, "kind": path_kind}, "name": document["metadata"]["name"],
        "namespace": document["metadata"]["namespace"], "object": document, "oldObject": before,
    }  # fmt: skip
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


class Workloads:
    """The texts of rendered workloads, made on request so that no process keeps 100,000 of them."""

    def __init__(self, size: Size) -> None:
        self._size = size
        self._plans = PlanCache()
        self._subjects: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._store = Store([OVERRIDERS_BY_SUBJECT])
        # The first pool has one entry less.
        self._templates = {first: self._template(0 if first else 1) for first in (True, False)}

    def _template(self, pool: int) -> bytes:
        documents = self._documents(0)
        for document in documents:
            self._store.put(document)
        before = bare_workload(0, pool)
        review = decode_review(update_review("Deployment", before, before))
        assert review.request is not None
        answer = mutate_workload(review.request, store=self._store, plans=self._plans)
        made = apply(before, answer.patch)
        text = json.dumps(made).replace(subject_name(0), _SUBJECT).replace(pool_name(pool), _POOL)
        text = text.replace(made["metadata"]["annotations"]["fleethook.io/rendered"], _DIGEST)
        text = text.replace('"uid": "uid-0"', '"uid": "UID"').replace(f'"workload-0-{pool}"', '"WORKLOAD"')
        return text.replace(f'"{namespace_of(0)}"', '"NAMESPACE"').encode()

    def _documents(self, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
        if number not in self._subjects:
            if len(self._subjects) == _MAX_SUBJECTS:
                self._subjects.clear()
            self._subjects[number] = (subject(number, self._size.pools), overrider(number))
        return self._subjects[number]

    def text(self, number: int, pool: int) -> bytes:
        """Return a workload as it is stored before anything is edited."""
        documents = self._documents(number)
        digest = self._plans.plan(
            YURT_APP_SET, *documents, kind="Deployment", pool=pool_name(pool), cluster="", store=self._store
        ).digest
        fills = {
            _SUBJECT: subject_name(number), _POOL: pool_name(pool), _DIGEST: digest, '"UID"': f'"uid-{number}"',
            '"WORKLOAD"': f'"workload-{number}-{pool}"', '"NAMESPACE"': f'"{namespace_of(number)}"',
        }  # fmt: skip
        text = self._templates[pool == 0]
        for mark, value in fills.items():
            text = text.replace(mark.encode(), value.encode())
        return text
