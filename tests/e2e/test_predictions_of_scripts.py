"""The predictions of ``fleethook replay`` for edits of scripts are the outcomes."""

import base64
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.replays import Recording, ask, copy_records, describe, find_changed, run_replay
from tests.serving import Server
from tests.waiting import wait_for

JSONObject = dict[str, Any]
KARMADA_SYSTEM = "/api/v1/namespaces/karmada-system"


def make_interpretations() -> list[tuple[str, JSONObject]]:
    """Return questions about Games with and without a seat in the member cluster."""
    made = []
    for operation, seat in itertools.product(("Retain", "InterpretHealth"), range(10)):
        kind = {"apiVersion": "games.example.com/v1", "kind": "Game", "metadata": {"name": f"g{seat}"}}
        document = {**kind, "spec": {}, "status": {"seat": seat}}
        request = {"uid": f"{operation}-{seat}", "operation": operation, "object": document}
        if operation == "Retain":
            request |= {"object": {**kind, "spec": {}}, "observedObject": {**kind, "spec": {"seat": seat}}}
        sent = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "request": request}
        made.append(("/interpret", sent))
    return made


def make_config(retain: str, health: str, version: int) -> JSONObject:
    """Return the scripts for Games, and one for Markers that tells the version of the scripts."""
    marker = f"{describe_script('Marker', 'retention', f'desiredObj.spec.version = {version}')}"
    data = {
        "retention.customizations": describe_script("Game", "retention", retain) + marker,
        "health.customizations": describe_script("Game", "health", health),
    }
    metadata = {"name": "karmada-config", "namespace": "karmada-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def describe_script(kind: str, rule: str, script: str) -> str:
    return f"- apiVersion: games.example.com/v1\n  kind: {kind}\n  {rule}.lua: |\n    {script}\n"


MARKER = "marker"


def read_version(server: Server) -> Any:
    """Return the version of the scripts that answer, None if there are none."""
    document = {"apiVersion": "games.example.com/v1", "kind": "Marker", "metadata": {"name": "m"}, "spec": {}}
    request = {"uid": MARKER, "operation": "Retain", "object": document, "observedObject": document}
    sent = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "request": request}
    response = ask(server, [("/interpret", sent)])[MARKER]
    return json.loads(base64.b64decode(response["patch"]))[0]["value"] if response["successful"] else None


KEEP = "desiredObj.spec.seat = runtimeObj.spec.seat"
ALL_HEALTHY = "return true"


FIRST = make_config(KEEP, ALL_HEALTHY, 0)


class ScriptEdit(NamedTuple):
    """An edit of scripts.

    Attributes:
        name: A description.
        scripts: The scripts for retention and health, none to remove the ConfigMap.
        changed: The reviews with another answer.
    """

    name: str
    scripts: tuple[str, str] | None
    changed: set[str]


SCRIPT_EDITS = [
    ScriptEdit(
        "seats from 6 on are capped",
        ("desiredObj.spec.seat = math.min(runtimeObj.spec.seat, 6)", ALL_HEALTHY),
        {f"Retain-{seat}" for seat in range(7, 10)},
    ),
    ScriptEdit(
        "seats above 4 are unhealthy",
        (KEEP, "return observedObj.status.seat <= 4"),
        {f"InterpretHealth-{seat}" for seat in range(5, 10)},
    ),
    ScriptEdit(
        "another spelling", ("local seat = runtimeObj.spec.seat desiredObj.spec.seat = seat", ALL_HEALTHY), set()
    ),
    ScriptEdit("without the scripts", None, {made["request"]["uid"] for _, made in make_interpretations()}),
]


@pytest.fixture
def scripts(recording: Recording, admin: Api) -> Iterator[str]:
    """The path of the ConfigMap, whose first scripts answer."""
    path = f"{KARMADA_SYSTEM}/configmaps/karmada-config"
    admin.apply(KARMADA_SYSTEM, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karmada-system"}})
    admin.apply(path, FIRST)
    wait_for(lambda: read_version(recording.server) == 0, what="the scripts answer")
    yield path
    admin.delete(path)


@pytest.mark.timeout(1800)
def test_replay_predicts_edits_of_scripts(
    recording: Recording, plane: ControlPlane, admin: Api, scripts: str, tmp_path: Path
) -> None:
    server, reviews = recording.server, make_interpretations()
    before = ask(server, reviews)
    assert all(one["successful"] for one in before.values())
    records = copy_records(recording.records, tmp_path, reviews)
    for number, edit in enumerate(SCRIPT_EDITS, 1):
        documents = [make_config(*edit.scripts, number)] if edit.scripts else []
        without = "" if documents else "ConfigMap/karmada-system/karmada-config"
        predicted = run_replay(plane, records, tmp_path, *documents, route="/interpret", without=without)
        if documents:
            admin.apply(scripts, documents[0])
        else:
            admin.delete(scripts)
        version = number if documents else None
        wait_for(lambda version=version: read_version(server) == version, what=edit.name)
        changed = find_changed(before, ask(server, reviews))
        print(describe(edit.name, predicted, changed))  # noqa: T201 - quoted in reports
        assert predicted.uids - {MARKER} == changed
        assert changed == edit.changed
        admin.apply(scripts, FIRST)
        wait_for(lambda: read_version(server) == 0, what="the scripts are as before")
