"""Defaulting, pruning and normalization by an apiserver are no drift: few writes, then none, and a correct status.

Every field of the API's sample objects is left out, or set to its zero value, in turn: in the template of a subject whose
workload is overridden, and in the additions of an overrider. Only variants that the apiserver stores differently are
tested. Variants of list elements share workloads, one element for each.
"""

import contextlib
import copy
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from tests.builders import entry, image, overrider, patch
from tests.e2e.audit import Audit
from tests.e2e.cluster import ControlPlane
from tests.e2e.field_samples import JSONObject, units
from tests.e2e.field_variants import Server, Variant, base_workload, batches, changed_when_stored, get, put
from tests.e2e.fleet import OPENYURT, run_registered_server
from tests.e2e.openyurt import KINDS, V1_5, V1Alpha1
from tests.e2e.scenario import BEIJING, Scenario, build_pool, describe, scenario
from tests.e2e.workloads import APPS
from tests.waiting import wait_for

MAX_WRITES = 2
FORM = V1Alpha1()
# OpenYurt's controller does not copy these members, so they have no effect on a pool without overrides.
NOT_COPIED = {
    "Deployment": ("revisionHistoryLimit",),
    "StatefulSet": ("minReadySeconds", "revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy", "ordinals"),
}
IMMUTABLE = ("podManagementPolicy", "serviceName", "volumeClaimTemplates")


class Case(NamedTuple):
    """A subject with one workload, its overrider, and the variants that are in one or the other."""

    name: str
    kind: str
    variants: list[Variant]
    template: JSONObject
    overrider: JSONObject

    @property
    def labels(self) -> list[str]:
        return [variant.label for variant in self.variants]


class Found(NamedTuple):
    """The result of a case."""

    writes: int
    late_writes: int
    rendered: str
    """Empty, or the message of the status."""
    refused: str
    """Empty, or the reason why the overrider was not admitted."""
    generations: tuple[int, int]


def in_template(name: str, kind: str, group: list[Variant]) -> Case:
    template = base_workload("", kind)
    for variant in group:
        put(template, variant.unit)
    items = entry("*", items=[image("nginx", "nginx:2.0")])
    return Case(name, kind, group, template, overrider(items, name=name))


def in_patches(name: str, kind: str, group: list[Variant]) -> Case:
    patches = [patch("add", variant.unit.pointer, variant.unit.value) for variant in group]
    return Case(name, kind, group, base_workload("", kind), overrider(entry("*", patches=patches), name=name))


def subject_of(case: Case, namespace: str) -> JSONObject:
    """Return the subject of a case, as a user writes it."""
    spec = copy.deepcopy(case.template["spec"])
    labels = {"app": case.name}
    del spec["selector"]
    spec["template"]["metadata"]["labels"] = labels
    return {
        "apiVersion": FORM.version,
        "kind": "YurtAppSet",
        "metadata": {"name": case.name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "workloadTemplate": {KINDS[case.kind]: {"metadata": {"labels": labels}, "spec": spec}},
            "topology": {"pools": [build_pool(BEIJING, replicas=0)]},
        },
    }


class Cases:
    """Cases on an apiserver, in one namespace.

    Attributes:
        found: The result of each, by its name.
        problem: The reason why another subject was not handled meanwhile.
    """

    def __init__(self, demo: Scenario, plane: ControlPlane, cases: list[Case]) -> None:
        self._demo, self._api, self._namespace = demo, demo.api, demo.namespace
        self._audit = Audit(plane)
        self._generations: dict[str, int] = {}
        self.cases = {case.name: case for case in cases}
        self.refused: dict[str, str] = {}
        self.found: dict[str, Found] = {}
        self.problem = ""

    def _each(self, call: Callable[[Case], Any]) -> None:
        with ThreadPoolExecutor(8) as executor:
            list(executor.map(call, self.cases.values()))

    def create_subjects(self) -> None:
        path = FORM.path(self._namespace)
        self._each(lambda case: self._api.create(path, subject_of(case, self._namespace)))
        wait_for(
            lambda: self.workloads().keys() == self.cases.keys(), what="OpenYurt's controller creates a workload each"
        )
        self._generations = {name: one["metadata"]["generation"] for name, one in self.workloads().items()}

    def create_overriders(self) -> None:
        self._each(self._create_overrider)

    def _create_overrider(self, case: Case) -> None:
        subject = {"apiVersion": FORM.version, "kind": "YurtAppSet", "name": case.name}
        made = {**case.overrider, "metadata": {"name": case.name, "namespace": self._namespace}, "subject": subject}
        code, answer, _ = self._api.call("POST", f"{OPENYURT}/namespaces/{self._namespace}/yurtappoverriders", made)
        if code >= 300:
            self.refused[case.name] = str(answer.get("message"))

    def delete_overriders(self) -> None:
        self._each(lambda case: self._api.call("DELETE", self._demo.overrider_path(case.name)))

    def workloads(self) -> dict[str, JSONObject]:
        """Return the workloads by the name of their subject."""
        found = {}
        for kind in KINDS:
            for item in self._api[f"{APPS}/namespaces/{self._namespace}/{kind.lower()}s"]["items"]:
                owner = next((one["name"] for one in item["metadata"].get("ownerReferences", [])), "")
                if owner in self.cases:
                    found[owner] = item
        return found

    def statuses(self) -> dict[str, JSONObject]:
        items = self._api[f"{OPENYURT}/namespaces/{self._namespace}/yurtappoverriders"]["items"]
        return {item["metadata"]["name"]: item.get("status") or {} for item in items}

    def _not_rendered(self) -> dict[str, str]:
        """Return the message of the status of each case whose overrider is admitted but not everywhere in effect."""
        missing = {}
        for name, status in self.statuses().items():
            conditions = {one["type"]: one for one in status.get("conditions", [])}
            if name in self.cases and conditions.get("Rendered", {}).get("reason") != "AllRendered":
                missing[name] = conditions.get("Rendered", {}).get("message", "no status yet")
        return missing

    def observe(self) -> None:
        """Wait until all is rendered or a time limit ends, and check whether it stays unchanged."""
        with contextlib.suppress(AssertionError):
            wait_for(lambda: not self._not_rendered())
        before, missing, early = self.workloads(), self._not_rendered(), self._writes()
        try:
            self._demo.handle_sentinel()
            self._demo.handle_sentinel()
        except AssertionError as error:
            self.problem = str(error)
        after, late = self.workloads(), self._writes()
        for name in self.cases:
            grown = tuple(one[name]["metadata"]["generation"] for one in (before, after))
            writes = late.get(name, 0)
            self.found[name] = Found(
                writes, writes - early.get(name, 0), missing.get(name, ""), self.refused.get(name, ""), grown
            )

    def _writes(self) -> dict[str, int]:
        counts = self._audit.counts(self._namespace)
        return {name: counts[one["metadata"]["name"]] for name, one in self.workloads().items()}

    def report(self) -> str:
        """Return the figures for reports."""
        numbers = sorted(one.writes for one in self.found.values())
        over = sum(number > MAX_WRITES for number in numbers)
        again = sum(one.late_writes > 0 for one in self.found.values())
        missing = sum(bool(one.rendered) for one in self.found.values())
        return (
            f"{len(numbers)} workloads: {sum(numbers)} writes, {numbers[-1]} at most for one, {over} with more than "
            f"{MAX_WRITES}, {again} written again later, {missing} not rendered by the status"
        )

    def check(self, is_wrong: Callable[[Found], Any]) -> None:
        """Fail with the wrong cases and their fields."""
        lines = [
            f"{name} ({', '.join(self.cases[name].labels[:5])} …): {problem}"
            for name, found in self.found.items()
            if (problem := is_wrong(found))
        ]
        assert not lines, f"{len(lines)} of {len(self.found)} cases\n" + "\n".join(lines)


def cases_of(server: Server, kind: str) -> list[Case]:
    """Return the cases of a kind; the pod template is the same for both and is varied in Deployments."""
    given = [unit for unit in units(kind) if kind == "Deployment" or not unit.pointer.startswith("/spec/template/")]
    found = changed_when_stored(server, given)
    print(f"\n{kind}: {len(given)} parts of the sample, {len(found)} variants that are stored differently")  # noqa: T201 - quoted in reports
    copied = [one for one in found if one.unit.pointer.split("/")[2] not in NOT_COPIED[kind]]
    patched = [one for one in found if one.unit.value is not None and one.unit.pointer.split("/")[2] not in IMMUTABLE]
    return [
        *(in_template(f"t-{kind.lower()}-{n}", kind, group) for n, group in enumerate(batches(server, copied))),
        *(in_patches(f"p-{kind.lower()}-{n}", kind, group) for n, group in enumerate(batches(server, patched))),
    ]


@pytest.fixture(scope="module")
def demo(plane: ControlPlane, crds: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    with (
        run_registered_server(plane, tmp_path_factory.mktemp("defaulting")),
        scenario(plane.api(), release=V1_5) as made,
    ):
        made.start_sentinel()
        yield made


@pytest.fixture(scope="module")
def sampled(plane: ControlPlane, demo: Scenario) -> Cases:
    """Every variant, in a template and in an overrider, with its result."""
    made = []
    for kind in KINDS:
        made += cases_of(Server(demo.api, base_workload(demo.namespace, kind)), kind)
    cases = Cases(demo, plane, made)
    cases.create_subjects()
    cases.create_overriders()
    cases.observe()
    print(f"\n{cases.report()}")  # noqa: T201 - as above
    return cases


def test_the_samples_are_taken_apart_completely(sampled: Cases) -> None:
    """Fields with known defaulting are among the variants, in templates and in overriders, so none is skipped silently."""
    labels = {(name[0], label) for name, case in sampled.cases.items() for label in case.labels}
    assert len(labels) > 900
    for label in (
        "volumes.hostPath.0 hostPath/type: left out",
        "containers.ports.0 ports/0/protocol: left out",
        "containers.env.0 env/1/valueFrom/fieldRef/apiVersion: left out",
        "containers.livenessProbe.0 livenessProbe/timeoutSeconds: left out",
        "containers.tty.0 tty: zero",
        "hostNetwork: zero",
        "strategy type: left out",
        "updateStrategy type: left out",
    ):
        assert {(form, label) for form in "tp"} <= labels, label


def test_no_overrider_is_refused(sampled: Cases) -> None:
    sampled.check(lambda found: found.refused)


def test_another_subject_is_handled_meanwhile(sampled: Cases) -> None:
    assert not sampled.problem


def test_each_workload_is_written_twice_at_most(sampled: Cases) -> None:
    sampled.check(lambda found: found.writes if found.writes > MAX_WRITES else 0)


def test_nothing_is_written_again(sampled: Cases) -> None:
    sampled.check(lambda found: found.late_writes)
    sampled.check(lambda found: found.generations if found.generations[0] != found.generations[1] else None)


def test_the_status_reports_complete_rendering(sampled: Cases) -> None:
    sampled.check(lambda found: found.rendered)


def test_additions_of_overriders_are_stored(sampled: Cases) -> None:
    """Compare with the stored form, including defaults."""
    workloads, missing = sampled.workloads(), {}
    for name, case in sampled.cases.items():
        for label, unit, stored in case.variants if name.startswith("p-") else ():
            if differing := describe(get(workloads[name], unit), stored):
                missing[f"{name} {label}"] = differing
    assert not missing, "\n".join(f"{name}: {text}" for name, text in missing.items())


def test_without_overriders_workloads_equal_those_of_openyurt(demo: Scenario, sampled: Cases) -> None:
    """Runs last, because it deletes the overriders."""
    sampled.delete_overriders()
    wanted = {name: expected_spec(demo, case) for name, case in sampled.cases.items()}
    with contextlib.suppress(AssertionError):
        wait_for(lambda: {name: one["spec"] for name, one in sampled.workloads().items()} == wanted)
    left = {name: describe(one["spec"], wanted[name]) for name, one in sampled.workloads().items()}
    assert not any(left.values()), "\n".join(f"{name}: {text}" for name, text in left.items() if text)


def expected_spec(demo: Scenario, case: Case) -> JSONObject:
    made = FORM.apply(demo.api[demo.subject_path(case.name)], BEIJING)
    del made["metadata"]["ownerReferences"]
    plural = case.kind.lower() + "s"
    spec: JSONObject = demo.api.create(f"{APPS}/namespaces/{demo.namespace}/{plural}", made, dryRun="All")["spec"]
    return spec
