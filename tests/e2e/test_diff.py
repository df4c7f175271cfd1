"""The predictions of ``fleethook diff`` are the outcomes: OpenYurt's controllers, real ReplicaSets and generations."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import entry, image, patch, tweak
from tests.e2e.cluster import ControlPlane
from tests.e2e.installation import Installation, run_installation
from tests.e2e.openyurt_planes import VERSIONS, Version
from tests.e2e.openyurt_v1beta1 import V1Beta1
from tests.e2e.predictions import Prediction, find_mismatches, predict, read_states
from tests.e2e.scenario import BEIJING, HANGZHOU, POOLS, Scenario, build_pool, scenario
from tests.waiting import wait_for

JSONObject = dict[str, Any]
TO_2 = entry(BEIJING, HANGZHOU, items=[image("nginx", "nginx:2.0")])
TO_3 = entry(BEIJING, HANGZHOU, items=[image("nginx", "nginx:3.0")])


@pytest.fixture(scope="module", params=["openyurt-1.4", "openyurt-1.7"])
def version(request: pytest.FixtureRequest) -> Version:
    return VERSIONS[request.param]


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, version: Version) -> ControlPlane:
    """The control plane, with the NodePools that the version needs."""
    return version.start_plane(request, (*POOLS, "jinan"))


@pytest.fixture(scope="module")
def instance(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    directory = tmp_path_factory.mktemp("diff")
    with run_installation(cluster, directory) as made:
        yield made


@pytest.fixture
def demo(cluster: ControlPlane, instance: Installation, version: Version) -> Iterator[Scenario]:
    """A subject of three pools, two of them overridden."""
    with scenario(cluster.api(), release=version.release, form=version.form) as made:
        made.start_sentinel()
        made.override(TO_2)
        made.create(args=["--first"])
        wait_for(lambda: made.controller.has_settled("demo"), what="the subject is complete")
        made.settle("demo")
        yield made


def read(demo: Scenario, path: str) -> JSONObject:
    """Return an object as a user has it in a file."""
    stored: JSONObject = demo.api[path]
    metadata = {
        name: stored["metadata"][name] for name in ("name", "namespace", "annotations") if name in stored["metadata"]
    }
    return {**{name: part for name, part in stored.items() if name != "status"}, "metadata": metadata}


def apply(demo: Scenario, path: str, document: JSONObject) -> list[str]:
    """Replace an object, and return the warnings."""
    version = demo.api[path]["metadata"]["resourceVersion"]
    body = {**document, "metadata": {**document["metadata"], "resourceVersion": version}}
    code, answer, warnings = demo.api.put(path, body)
    assert code == 200, answer
    return list(warnings)


class Edits:
    """Predicts edits of a scenario, makes them and compares."""

    def __init__(self, demo: Scenario, cluster: ControlPlane, directory: Path) -> None:
        self._demo, self._cluster, self._directory = demo, cluster, directory

    def edit(self, path: str, change: Callable[[JSONObject], None]) -> Prediction:
        """Predict and make an edit of one object."""
        document = read(self._demo, path)
        change(document)
        found = predict(self._cluster, self._directory, document)
        self._check(found, lambda: apply(self._demo, path, document))
        return found

    def override(self, *entries: JSONObject) -> Prediction:
        """Predict and make an edit of the entries of the overrider."""
        return self.edit(self._demo.overrider_path(), lambda one: one.update(entries=list(entries)))

    def stop_overriding(self) -> Prediction:
        """Predict and make the deletion of the overrider."""
        document = {**read(self._demo, self._demo.overrider_path()), "entries": []}
        found = predict(self._cluster, self._directory, document)
        self._check(found, self._demo.stop_overriding, "")
        return found

    def _check(self, prediction: Prediction, act: Callable[[], Any], overrider: str = "demo") -> None:
        demo = self._demo
        before = read_states(demo.api, demo.namespace, "demo")
        act()
        wait_for(lambda: demo.controller.has_settled("demo"), what="OpenYurt's controller is done")
        demo.settle(*([overrider] if overrider else []))
        wait_for(lambda: demo.controller.has_settled("demo"), what="OpenYurt's controller is done")
        after = read_states(demo.api, demo.namespace, "demo")
        assert find_mismatches(prediction, before, after) == []


@pytest.fixture
def edits(demo: Scenario, cluster: ControlPlane, tmp_path: Path) -> Edits:
    return Edits(demo, cluster, tmp_path)


def test_edits_of_an_overrider(edits: Edits, demo: Scenario) -> None:
    assert edits.override(TO_3).summary == "rolls 2 of 3 workloads, 2 pods"
    one = entry(BEIJING, items=[image("nginx", "nginx:3.0")])
    assert edits.override(one).summary == "rolls 1 of 3 workloads, 1 pod"
    note = entry("*", patches=[patch("add", "/metadata/annotations/note", "a")])
    assert edits.override(one, note).summary == "changes metadata of 3 of 3 workloads"
    assert edits.override(note, one).summary == "changes none of 3 workloads"
    ready = entry(HANGZHOU, patches=[patch("add", "/spec/minReadySeconds", 3)])
    assert edits.override(note, one, ready).summary.startswith("changes other fields of 1 of 3 workloads")
    assert edits.stop_overriding().summary.startswith("rolls 1 of 3 workloads, 1 pod")


def test_a_paused_deployment_rolls_when_it_is_resumed(edits: Edits) -> None:
    pause = entry(BEIJING, patches=[{"operation": "add", "path": "/spec/paused", "value": True}])
    assert edits.override(TO_2, pause).summary == "changes other fields of 1 of 3 workloads"
    found = edits.override(TO_3, pause)
    assert found.summary == "rolls 2 of 3 workloads, 1 pod"
    assert [one.notes for one in found.workloads.values() if one.notes] == [
        ("the Deployment is paused: 1 pods are replaced when it is resumed",)
    ]


def test_edits_of_the_template(edits: Edits, demo: Scenario) -> None:
    def edit(subject: JSONObject) -> None:
        templates = demo.form.templates(subject)
        templates["deploymentTemplate"]["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:1.1"

    assert edits.edit(demo.subject_path(), edit).summary == "rolls 3 of 3 workloads, 3 pods"
    assert edits.edit(demo.subject_path(), edit).summary == "changes none of 3 workloads"


def test_node_pools_come_and_go(edits: Edits, demo: Scenario, version: Version) -> None:
    def edit(subject: JSONObject) -> None:
        names = [BEIJING, "jinan"]
        if isinstance(version.form, V1Beta1):
            subject["spec"]["pools"] = names
        else:
            subject["spec"]["topology"]["pools"] = [build_pool(name) for name in names]

    found = edits.edit(demo.subject_path(), edit)
    assert found.summary == "creates 1 workload, 1 pod; deletes 2 workloads, 2 pods"


def test_settings_of_one_node_pool(edits: Edits, demo: Scenario, version: Version) -> None:
    def edit(subject: JSONObject) -> None:
        if isinstance(version.form, V1Beta1):
            subject["spec"]["workload"]["workloadTweaks"] = [tweak(HANGZHOU, replicas=3)]
        else:
            pools = subject["spec"]["topology"]["pools"]
            pools[POOLS.index(HANGZHOU)] = build_pool(HANGZHOU, 3)

    expected = (
        "rolls 3 of 3 workloads, 5 pods" if isinstance(version.form, V1Beta1) else "scales 1 of 3 workloads, 2 pods"
    )
    assert edits.edit(demo.subject_path(), edit).summary == expected
