"""OpenYurt's YurtAppSet controller, with the writes that a webhook receives: creates, and updates of outdated revisions.

Upstream: OpenYurt 1.4.4, controller/yurtappset (managePools, UpdatePool, calculateStatus), and 1.5 to 1.7 where `Release`
or the `Form` says so. It does not detect drift: it leaves a workload with the current revision and replicas alone.
"""

import contextlib
import copy
import threading
import time
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from tests.e2e.cluster import Api
from tests.e2e.keep_alive import keep_alive
from tests.e2e.openyurt import (
    KINDS,
    POOL_LABEL,
    V1_4,
    Form,
    JSONObject,
    NotAppliedError,
    Release,
    V1Alpha1,
    is_owned_by,
    labels_of,
)
from tests.e2e.watch import Watch
from tests.e2e.workloads import APPS, path_of
from tests.waiting import NET

_TRIES = 5
"""Number of immediate tries of a write, each after a new read (upstream: updateRetries)."""
_RETRY_SECONDS = 1.0
_WORKERS = 3


class ControllerWrite(NamedTuple):
    """A write of the controller."""

    verb: str
    subject: str
    pool: str
    code: int
    message: str


class YurtAppSetController:
    """Reconciles the YurtAppSets of one namespace.

    Attributes:
        writes: All its writes, including refused ones.
    """

    def __init__(self, api: Api, namespace: str, *, release: Release = V1_4, form: Form | None = None) -> None:
        """Prepare; ``form`` has the parts that depend on the version of the API."""
        self.writes: list[ControllerWrite] = []
        self._api = api
        self._namespace = namespace
        self._release = release
        self._form: Form = form or V1Alpha1()
        self._node_pools: dict[str, JSONObject] = {}
        self._subjects: dict[str, JSONObject] = {}
        self._workloads: dict[str, JSONObject] = {}
        # This lock guards all attributes below.
        self._state = threading.Condition()
        self._due: dict[str, float] = {}
        self._working: set[str] = set()
        self._held = False
        self._ending = False
        self._threads: list[threading.Thread] = []
        self._watches: list[Watch] = []

    def start(self) -> None:
        watched = [(self._form.node_pools_path, self._node_pool_changed)] if self._form.node_pools_path else []
        watched.append((self._form.path(self._namespace), self._subject_changed))
        watched += [(f"{APPS}/namespaces/{self._namespace}/{kind.lower()}s", self._workload_changed) for kind in KINDS]
        self._watches = [Watch(self._api, path, on_event) for path, on_event in watched]
        self._threads = [threading.Thread(target=self._work, name=f"owner {n}", daemon=True) for n in range(_WORKERS)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        with self._state:
            self._ending = True
            self._state.notify_all()
        for watch in self._watches:
            watch.stop()
        for thread in self._threads:
            thread.join(40)
        problems = [watch.problem for watch in self._watches if watch.problem]
        assert not problems, problems

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the controller, as if it were behind; it handles the changes afterwards."""
        with self._state:
            self._held = True
            assert self._state.wait_for(lambda: not self._working, timeout=NET), "the controller is still writing"
        try:
            yield
        finally:
            with self._state:
                self._held = False
                self._state.notify_all()

    def idle(self) -> bool:
        """Return whether no subject is queued or in progress."""
        with self._state:
            return not self._working and not self._due

    def has_settled(self, name: str) -> bool:
        """Return whether every workload has the revision of the subject that the apiserver stores now."""
        subject = self._api[f"{self._form.path(self._namespace)}/{name}"]
        observed = subject.get("status", {}).get("observedGeneration")
        workloads = self._owned(subject)
        return (
            self.idle()
            and observed == subject["metadata"]["generation"]
            and workloads.keys() == set(self._pools(subject))
            and not any(self._form.outdated(subject, pool, one, self._release) for pool, one in workloads.items())
        )

    def _pools(self, subject: JSONObject) -> Collection[str]:
        return self._form.pools(subject, dict(self._node_pools))

    def _node_pool_changed(self, event: str, node_pool: JSONObject) -> None:
        name = node_pool["metadata"]["name"]
        former = self._node_pools.get(name)
        if event == "DELETED":
            del self._node_pools[name]
        else:
            self._node_pools[name] = node_pool
        if event != "MODIFIED" or former is None or labels_of(former) != labels_of(node_pool):
            for subject in list(self._subjects):
                self._add(subject)

    def _subject_changed(self, event: str, subject: JSONObject) -> None:
        name = subject["metadata"]["name"]
        self._subjects[name] = subject
        if event == "DELETED":
            del self._subjects[name]
        self._add(name)

    def _workload_changed(self, event: str, workload: JSONObject) -> None:
        self._learn(workload, gone=event == "DELETED")
        for owner in workload["metadata"].get("ownerReferences", []):
            if owner.get("controller") and owner["kind"] == "YurtAppSet":
                self._add(owner["name"])

    def _learn(self, workload: JSONObject, *, gone: bool = False) -> None:
        uid, version = workload["metadata"]["uid"], int(workload["metadata"]["resourceVersion"])
        with self._state:
            present = self._workloads.get(uid)
            if gone:
                self._workloads.pop(uid, None)
            elif present is None or int(present["metadata"]["resourceVersion"]) < version:
                self._workloads[uid] = workload

    def _add(self, name: str, *, after: float = 0.0) -> None:
        with self._state:
            due = time.monotonic() + after
            self._due[name] = min(due, self._due.get(name, due))
            self._state.notify_all()

    def _next(self) -> str | None:
        with self._state:
            while not self._ending:
                now = time.monotonic()
                waiting = {} if self._held else {n: due for n, due in self._due.items() if n not in self._working}
                name = min(waiting, key=waiting.__getitem__, default=None)
                if name is not None and waiting[name] <= now:
                    del self._due[name]
                    self._working.add(name)
                    return name
                self._state.wait(None if name is None else waiting[name] - now)
            return None

    def _work(self) -> None:
        while (name := self._next()) is not None:
            try:
                done = self._reconcile(name)
            except (OSError, AssertionError):
                done = False  # A read failed: the apiserver is down or has just started.
            with self._state:
                self._working.discard(name)
                self._state.notify_all()
            if not done and self._release.retries:
                self._add(name, after=_RETRY_SECONDS)

    def _reconcile(self, name: str) -> bool:
        """Do all pending writes; return whether the apiserver refused none."""
        subject = self._subjects.get(name)
        if subject is None or subject["metadata"].get("deletionTimestamp"):
            return True
        steps = (self._create, self._delete, self._update)
        done = self._claim(subject) and self._each(step(subject) for step in steps)
        if done or self._release.status_after_refusal:
            self._set_status(subject, done=done)
        return done

    def _owned(self, subject: JSONObject) -> dict[str, JSONObject]:
        """Return the workloads of a subject by pool; as upstream, a workload without the label of its pool is ignored."""
        uid = subject["metadata"]["uid"]
        with self._state:
            workloads = list(self._workloads.values())
        return {
            workload["metadata"]["labels"][POOL_LABEL]: workload
            for workload in workloads
            if is_owned_by(uid, workload) and self._form.claims(subject, workload) and POOL_LABEL in labels_of(workload)
        }

    def _claim(self, subject: JSONObject) -> bool:
        """Release the workloads that the subject owns and does not claim (refmanager: ClaimOwnedObjects)."""
        uid, done = subject["metadata"]["uid"], True
        with self._state:
            owned = [workload for workload in self._workloads.values() if is_owned_by(uid, workload)]
        for workload in owned:
            if not self._form.claims(subject, workload):
                made = copy.deepcopy(workload)
                made["metadata"]["ownerReferences"] = [
                    owner for owner in made["metadata"]["ownerReferences"] if owner["uid"] != uid
                ]
                pool = labels_of(workload).get(POOL_LABEL, "")
                done &= self._write("release", subject, pool, *self._api.call("PUT", path_of(made), made)[:2])
        return done

    def _each(self, results: Iterator[bool]) -> bool:
        """Return whether all writes succeeded; before 1.5, the first refusal ends the others."""
        return all(list(results) if self._release.retries else results)

    def _create(self, subject: JSONObject) -> bool:
        missing = set(self._pools(subject)) - self._owned(subject).keys()
        return self._each(self._post(subject, pool) for pool in sorted(missing))

    def _post(self, subject: JSONObject, pool: str) -> bool:
        made = self._apply("create", subject, pool)
        return made is not None and self._write(
            "create", subject, pool, *self._api.call("POST", path_of(made), made)[:2]
        )

    def _delete(self, subject: JSONObject) -> bool:
        present = self._owned(subject)
        for pool in sorted(present.keys() - set(self._pools(subject))):
            code, _, _ = self._api.call("DELETE", path_of(present[pool]))
            self.writes.append(ControllerWrite("delete", subject["metadata"]["name"], pool, code, ""))
        return True

    def _update(self, subject: JSONObject) -> bool:
        wanted = set(self._pools(subject))
        outdated = {
            pool: one
            for pool, one in self._owned(subject).items()
            if pool in wanted and self._form.outdated(subject, pool, one, self._release)
        }
        return self._each(self._put(subject, pool, path_of(outdated[pool])) for pool in sorted(outdated))

    def _put(self, subject: JSONObject, pool: str, path: str) -> bool:
        for _ in range(_TRIES):
            code, present, _ = self._api.call("GET", path)
            if code != 200:
                return False
            made = self._apply("update", subject, pool, present)
            if made is None:
                return False
            if self._write("update", subject, pool, *self._api.call("PUT", path, made)[:2]):
                return True
        return False

    def _apply(self, verb: str, subject: JSONObject, pool: str, present: JSONObject | None = None) -> JSONObject | None:
        """Return the object to write, or None if the controller reports an error, recorded as a write with code 0."""
        try:
            return self._form.apply(subject, pool, present, node_pools=dict(self._node_pools))
        except NotAppliedError as error:
            self.writes.append(ControllerWrite(verb, subject["metadata"]["name"], pool, 0, str(error)))
            return None

    def _write(self, verb: str, subject: JSONObject, pool: str, code: int, answer: Any) -> bool:
        done = code < 300
        message = "" if done or not isinstance(answer, dict) else str(answer.get("message"))
        self.writes.append(ControllerWrite(verb, subject["metadata"]["name"], pool, code, message))
        if done:
            self._learn(answer)
        return done

    def _set_status(self, subject: JSONObject, *, done: bool) -> None:
        metadata, former = subject["metadata"], subject.get("status", {})
        status = self._form.status(subject, list(self._owned(subject).values()))
        if self._release.keeps_first_revision:
            status["currentRevision"] = former.get("currentRevision") or status["currentRevision"]
        status["observedGeneration"] = metadata["generation"]
        if self._release.status_after_refusal:
            lacking = set(self._pools(subject)) - self._owned(subject).keys()
            failed = {"PoolProvisioned": bool(lacking), "PoolUpdated": not done and not lacking}
            status["conditions"] = [{"type": name, "status": str(not bad)} for name, bad in failed.items()]
        if status.items() <= former.items():
            return
        path = f"{self._form.path(self._namespace)}/{metadata['name']}/status"
        self._api.call("PATCH", path, {"status": status}, content_type="application/merge-patch+json")


@contextlib.contextmanager
def run_yurt_app_set_controller(
    api: Api, namespace: str, *, release: Release = V1_4, form: Form | None = None
) -> Iterator[YurtAppSetController]:
    """Run the controller for one namespace."""
    # Upstream writes within milliseconds of an edit, before a late watch delivers it to fleethook.
    with keep_alive(api) as client:
        controller = YurtAppSetController(client, namespace, release=release, form=form)
        controller.start()
        try:
            yield controller
        finally:
            controller.stop()
