"""After an overrider is gone, the stored workload equals one that never had it, for each field and each choice.

kube-apiserver fills in its defaults between all steps, as dry runs. A second review of a stored workload makes no change,
and the controller finds no drift in it, so it writes nothing.
A person's edit of a member that no entry names is kept, or a warning says that the template replaces it.
"""

import copy
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from fleethook.cluster.store import Store
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.render.stored_workload_comparison import detect_drift
from fleethook.engines.overrider.render.undo_and_annotations import UNDO_ANNOTATION
from fleethook.model.admission import Response
from fleethook.patch import apply
from tests.builders import (
    UID,
    entry,
    mutate_workload,
    node_pool,
    overrider,
    pool,
    request,
    store_of,
    workload,
    yurt_app_set,
)
from tests.e2e.cluster import Api
from tests.e2e.field_samples import PODS, JSONObject
from tests.e2e.field_variants import Server, base_workload, get
from tests.e2e.openyurt import KINDS, Form, V1Alpha1
from tests.e2e.openyurt_v1beta1 import V1Beta1
from tests.e2e.scenario import build_pool, describe
from tests.e2e.undo_cases import Case, build_overrider, build_template, cases_of, group
from tests.e2e.workloads import APPS

POOL = "hangzhou"
NOT_COPIED = {
    "Deployment": ("revisionHistoryLimit",),
    "StatefulSet": ("minReadySeconds", "revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy", "ordinals"),
}
NODE_POOLS = {POOL: node_pool(POOL)}
_THREADS = 4


class RefusedError(Exception):
    """kube-apiserver or a review refuses a workload."""


class World(NamedTuple):
    """The settings that cases run with."""

    kind: str
    form: Form
    foreign: bool
    """Whether another webhook has added members and elements."""

    @property
    def name(self) -> str:
        return f"{self.kind} {self.form.version.rpartition('/')[2]}{' with foreign members' if self.foreign else ''}"

    def copies(self, case: Case) -> bool:
        """Return whether OpenYurt's controller copies the member of a case from the template."""
        members = NOT_COPIED[self.kind] if isinstance(self.form, V1Alpha1) else ()
        return case.pointer.removeprefix("/spec/") not in members

    def subject(self, template: JSONObject) -> JSONObject:
        """Return a subject with a template."""
        spec, labels = copy.deepcopy(template["spec"]), {"app": "demo"}
        made = {KINDS[self.kind]: {"metadata": {"labels": labels}, "spec": spec}}
        if self.form.version.endswith("v1alpha1"):
            del spec["selector"]
            parts: JSONObject = {
                "selector": {"matchLabels": labels},
                "workloadTemplate": made,
                "topology": {"pools": [build_pool(POOL)]},
            }
        else:
            parts = {"workload": {"workloadTemplate": made}, "pools": [POOL]}
        metadata = {"name": "demo", "namespace": "default", "uid": UID}
        return {"apiVersion": self.form.version, "kind": "YurtAppSet", "metadata": metadata, "spec": parts}

    def write(self, storage: "Storage", subject: JSONObject, workload: JSONObject | None = None) -> JSONObject:
        """Return the workload that OpenYurt's controller writes, with the defaults that admission sees."""
        made = self.form.apply(_without_nulls(subject), POOL, copy.deepcopy(workload), node_pools=NODE_POOLS)
        stored = storage.store(made)
        return storage.store(add_foreign(stored)) if self.foreign else stored


class Storage:
    """Stores workloads in kube-apiserver by dry runs."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def store(self, workload: JSONObject) -> JSONObject:
        """Return a workload as stored; raises RefusedError."""
        metadata = {
            name: workload["metadata"][name] for name in ("labels", "annotations") if name in workload["metadata"]
        }
        sent = {**workload, "metadata": {**metadata, "generateName": "demo-", "namespace": "default"}}
        path = f"{APPS}/namespaces/default/{workload['kind'].lower()}s"
        status, answer, _ = self._api.call("POST", path, sent, dryRun="All")
        if status >= 300:
            raise RefusedError(answer["message"])
        kept = {name: answer["metadata"][name] for name in ("labels", "annotations") if name in answer["metadata"]}
        owners = workload["metadata"]["ownerReferences"]
        metadata = {"name": "demo-x", "namespace": "default", "ownerReferences": owners, **kept}
        return {"apiVersion": "apps/v1", "kind": workload["kind"], "metadata": metadata, "spec": answer["spec"]}


class Reviews(NamedTuple):
    """The reviews of a workload with a subject and perhaps an overrider."""

    subject: JSONObject
    rule: JSONObject | None
    plans: PlanCache

    @property
    def store(self) -> Store:
        return store_of(self.subject, *NODE_POOLS.values(), *([self.rule] if self.rule else []))

    def ask(self, workload: JSONObject, old: JSONObject | None = None) -> Response:
        """Return the answer for a creation, or for an update of ``old``."""
        asked = request(workload, "CREATE" if old is None else "UPDATE", old)
        answer = mutate_workload(asked, store=self.store, plans=self.plans)
        if not answer.allowed or any("not rendered" in one for one in answer.warnings):
            raise RefusedError(answer.message or answer.warnings)
        return answer

    def operations(self, workload: JSONObject, old: JSONObject | None = None) -> list[JSONObject]:
        return list(self.ask(workload, old).patch)

    def review(self, workload: JSONObject, old: JSONObject | None = None) -> JSONObject:
        made: JSONObject = apply(workload, self.operations(workload, old))
        return made


def reviews_of(subject: JSONObject, rule: JSONObject | None) -> Reviews:
    return Reviews(subject, rule, PlanCache())


def add_foreign(workload: JSONObject) -> JSONObject:
    """Return a workload with members and elements of another webhook."""
    made = copy.deepcopy(workload)
    pods = made["spec"]["template"]["spec"]
    pods["containers"].insert(1, {"name": "foreign", "image": "foreign:1"})
    pods["volumes"].insert(1, {"name": "foreign", "hostPath": {"path": "/foreign"}})
    pods["containers"][0].setdefault("env", []).append({"name": "FOREIGN", "value": "1"})
    made["spec"]["template"]["metadata"].setdefault("annotations", {})["foreign"] = "1"
    made["metadata"].setdefault("annotations", {})["foreign"] = "1"
    return made


class Outcome(NamedTuple):
    scenario: str
    case: str
    result: str
    """``equal``, or the fault."""


class Run:
    """Runs the cases of a world."""

    def __init__(self, storage: Storage, world: World, cases: list[Case]) -> None:
        self._storage = storage
        self._world = world
        self._base = base_workload("default", world.kind)
        groups = group(cases)
        self.found: list[Outcome] = []
        with ThreadPoolExecutor(_THREADS) as executor:
            for outcomes in executor.map(self._run, groups):
                self.found += outcomes

    def _run(self, cases: list[Case]) -> list[Outcome]:
        try:
            return list(self._check(cases))
        except RefusedError as error:
            if len(cases) == 1:
                return [Outcome("", cases[0].label, f"skipped: {error}")]
            half = len(cases) // 2
            return [*self._run(cases[:half]), *self._run(cases[half:])]

    def _check(self, cases: list[Case]) -> Iterator[Outcome]:
        """Yield the outcome of each case in each scenario; raises RefusedError if the cases do not go together."""
        template, edited = build_template(self._base, cases), build_template(self._base, cases, after=True)
        subject, later = self._world.subject(template), self._world.subject(edited)
        rule = build_overrider(cases, subject)
        never, never_later = self._world.write(self._storage, subject), self._world.write(self._storage, later)
        ours, bare = reviews_of(subject, rule), reviews_of(subject, None)
        created = self._storage.store(ours.review(never))
        updated = self._storage.store(ours.review(never, never))
        half = [case for number, case in enumerate(cases) if number % 2]
        other = reviews_of(subject, build_overrider(half, subject))
        changed = reviews_of(later, None)
        excluding = reviews_of(subject, build_overrider(cases, subject, "*", f"-{POOL}"))
        fewer = self._storage.store(other.review(never))
        yield from self._review_again("second review after creation", cases, ours, created)
        yield from self._review_again("second review after update", cases, ours, updated)
        written = self._world.write(self._storage, subject, created)
        yield from _find_warnings("a second review warns", cases, ours.ask(created, created))
        # A person sets the members that no entry names.
        asked = {**created, "metadata": fewer["metadata"]}
        left = [case for number, case in enumerate(cases) if not number % 2]
        yield from _compare_edits(left, fewer, asked, other.ask(asked, fewer))
        steps: list[tuple[str, Any, JSONObject]] = [
            ("deleted", lambda: bare.review(created, created), never),
            ("deleted after update", lambda: bare.review(updated, updated), never),
            ("pool excluded", lambda: excluding.review(created, created), never),
            (
                "owner writes after the pool was excluded",
                lambda: excluding.review(self._world.write(self._storage, subject, created), created),
                never,
            ),
            ("edited", lambda: other.review(created, created), fewer),
            ("extended", lambda: ours.review(fewer, fewer), created),
            ("owner writes", lambda: ours.review(written, created), created),
            (
                "owner writes after deletion",
                lambda: bare.review(self._world.write(self._storage, subject, created), created),
                never,
            ),
            (
                "owner writes a new template after deletion",
                lambda: changed.review(self._world.write(self._storage, later, created), created),
                never_later,
            ),
        ]
        # A pool adds to these members of a template, or kube-apiserver has other defaults for an absent strategy.
        apart = (f"{PODS}/affinity", f"{PODS}/nodeSelector", "/spec/updateStrategy")
        compared = [case for case in cases if case.pointer not in apart]
        yield from _compare_parts("rendered like a template with the changes", compared, created, never_later)
        for scenario, step, expected in steps:
            yield from self._compare(scenario, cases, step, expected)

    def _review_again(self, scenario: str, cases: list[Case], ours: Reviews, stored: JSONObject) -> Iterator[Outcome]:
        drift = detect_drift(stored, kind=self._world.kind, store=ours.store, plans=ours.plans)
        found = f"writes again: {drift.error or drift.pointers}"
        yield Outcome(f"drift before a {scenario}", cases[0].label, "equal" if drift.is_in_sync else found)
        made = apply(stored, ours.operations(stored, stored))
        yield from self._attribute(scenario, cases, made, stored, "writes again")

    def _compare(self, scenario: str, cases: list[Case], step: Any, expected: JSONObject) -> Iterator[Outcome]:
        try:
            made = self._storage.store(step())
        except RefusedError as error:
            # Which case is refused? The others are compared without it.
            if len(cases) > 1:
                raise
            yield Outcome(scenario, cases[0].label, f"refused: {error}")
            return
        yield from self._attribute(scenario, cases, made, expected, "different")

    def _attribute(
        self, scenario: str, cases: list[Case], made: JSONObject, expected: JSONObject, fault: str
    ) -> Iterator[Outcome]:
        if any(word in scenario for word in ("edited", "owner")):
            # The undo may name members of the template that the former overrider had removed, or other terms.
            made, expected = (_without_undo(one) for one in (made, expected))
        outcomes = list(_compare_parts(scenario, cases, made, expected, fault))
        yield from outcomes
        if _comparable(made) != _comparable(expected) and all(one.result == "equal" for one in outcomes):
            yield Outcome(scenario, f"{cases[0].label} …", f"{fault} elsewhere: {describe(made, expected)[:800]}")


def _find_warnings(scenario: str, cases: list[Case], answer: Response) -> Iterator[Outcome]:
    texts = _list_replaced(answer)
    for case in cases:
        about = [one for one in texts if _is_about(one, case)]
        yield Outcome(scenario, case.label, f"warned: {about}" if about else "equal")


def _compare_edits(cases: list[Case], before: JSONObject, asked: JSONObject, answer: Response) -> Iterator[Outcome]:
    """Yield whether each edit is kept, or replaced with a warning."""
    made = apply(asked, answer.patch)
    for case in cases:
        had, wanted, found = (_part(one, case) for one in (before, asked, made))
        about = [one for one in _list_replaced(answer) if _is_about(one, case)]
        result = "equal" if bool(about) == (had != wanted != found) else f"{'false' if about else 'missing'} warning"
        kind = "kept" if wanted == found else "replaced with a warning"
        text = f"{result}: {had}, then {wanted}, then {found}: {about}"
        yield Outcome(f"an edit is {kind}", case.label, result if result == "equal" else text)


def _list_replaced(answer: Response) -> list[str]:
    """Return the pointers in the warning about replaced edits."""
    texts = [one.removeprefix("replaced: ").partition(": edit")[0] for one in answer.warnings if "replaced: " in one]
    return [pointer for text in texts for pointer in text.split(", ")]


def _is_about(shown: str, case: Case) -> bool:
    value = case.before if case.before is not None else case.after
    place = f"{case.member}/[name={value['name']}]" if case.is_element else case.pointer
    return f"{shown}/".startswith(f"{place}/") or place.startswith(f"{shown}/")


def _compare_parts(
    scenario: str, cases: list[Case], made: JSONObject, expected: JSONObject, fault: str = "different"
) -> Iterator[Outcome]:
    for case in cases:
        found, wanted = _part(made, case), _part(expected, case)
        yield Outcome(scenario, case.label, "equal" if found == wanted else f"{fault}: {found} instead of {wanted}")


def _without_undo(document: JSONObject) -> JSONObject:
    known = document["metadata"].get("annotations", {})
    annotations = {name: text for name, text in known.items() if name != UNDO_ANNOTATION}
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}


def _without_nulls(value: Any) -> Any:
    """Return a value as Go decodes it: null is an absent member."""
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def _part(document: JSONObject, case: Case) -> Any:
    value = case.before if case.before is not None else case.after
    return get(document, case.unit(value))


def _comparable(document: JSONObject) -> Any:
    metadata = {name: document["metadata"].get(name, {}) for name in ("labels", "annotations")}
    pods = document["spec"]["template"]["spec"]
    # A restored element may follow the foreign one instead of preceding it.
    lists = {name: sorted(pods[name], key=_is_foreign) for name in ("containers", "volumes") if name in pods}
    template = {**document["spec"]["template"], "spec": {**pods, **lists}}
    return metadata, {**document["spec"], "template": template}


def _is_foreign(element: JSONObject) -> bool:
    return bool(element["name"] == "foreign")


WORLDS = [
    World("Deployment", V1Alpha1(), foreign=False),
    World("Deployment", V1Alpha1(), foreign=True),
    World("Deployment", V1Beta1(), foreign=False),
    World("StatefulSet", V1Alpha1(), foreign=False),
    World("StatefulSet", V1Beta1(), foreign=True),
]


@pytest.fixture
def storage(api: Api) -> Storage:
    return Storage(api)


@pytest.mark.parametrize("world", WORLDS, ids=lambda one: one.name)
def test_nothing_is_left_of_an_overrider(
    api: Api, storage: Storage, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleethook.engines.overrider.admission.workload_admission.MAX_REPLACED", 1_000_000)
    cases = [
        one for one in cases_of(Server(api, base_workload("default", world.kind)), world.kind) if world.copies(one)
    ]
    found = Run(storage, world, cases).found
    wrong = [one for one in found if one.result != "equal" and not one.result.startswith("skipped")]
    assert len(cases) > 3000
    assert not wrong, f"{len(wrong)} faults\n" + "\n".join(
        f"{one.scenario}: {one.case}: {one.result}" for one in wrong[:200]
    )


FACTS = yaml.safe_load((Path(__file__).parent.parent / "conformance" / "overrider_undo.yaml").read_text())


@pytest.mark.parametrize("fact", FACTS, ids=lambda one: one["name"])
def test_kube_apiserver_stores_the_recorded_specs(storage: Storage, fact: JSONObject) -> None:
    """The unit tests rely on these facts: tests/engines/overrider/render/test_overlay_and_defaults.py."""
    subject = yurt_app_set(pools=[pool(POOL)], **copy.deepcopy(fact["template"]))
    made = workload(pool=POOL)
    made["spec"] = fact["never"]
    never = storage.store(made)
    rule = overrider(entry("*", patches=fact["patches"]))
    stored = storage.store(reviews_of(subject, rule).review(never))
    assert (never["spec"], stored["spec"]) == (fact["never"], fact["stored"])
    assert storage.store(reviews_of(subject, None).review(stored, stored))["spec"] == fact["never"]
