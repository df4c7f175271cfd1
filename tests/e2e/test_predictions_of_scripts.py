"""The predictions of ``fleethook replay`` for edits of scripts are the outcomes."""

import base64
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.karmada_crds import install_karmada_crds
from tests.e2e.replays import Recording, ask, copy_records, describe, find_changed, run_replay
from tests.serving import Server
from tests.waiting import wait_for

JSONObject = dict[str, Any]
KARMADA_SYSTEM = "/api/v1/namespaces/karmada-system"
CONFIG_MAP = f"{KARMADA_SYSTEM}/configmaps/karmada-config"
CUSTOMIZATION = "/apis/config.karmada.io/v1alpha1/resourceinterpretercustomizations/pr-game"


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


GAME = {"apiVersion": "games.example.com/v1", "kind": "Game"}
MARKER = "marker"


def make_scripts(retain: str, health: str, version: int) -> dict[str, JSONObject]:
    """Return objects with the scripts for Games by path; the scripts also tell their version."""
    rules = [(retain, "Game"), (f"desiredObj.spec.version = {version}", "Marker")]
    text = "".join(
        f"- apiVersion: games.example.com/v1\n  kind: {kind}\n  retention.lua: |\n    {script}\n"
        for script, kind in rules
    )
    metadata = {"name": "karmada-config", "namespace": "karmada-system"}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"retention.customizations": text}}
    is_marker = f"observedObj.metadata.name == 'v{version}'"
    script = f"function InterpretHealth(observedObj) if {is_marker} then return false end {health} end"
    customization = {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "pr-game"},
        "spec": {"target": GAME, "customizations": {"healthInterpretation": {"luaScript": script}}},
    }
    return {CONFIG_MAP: config, CUSTOMIZATION: customization}


def ask_marker(server: Server, operation: str, kind: str, name: str) -> JSONObject:
    document = {**GAME, "kind": kind, "metadata": {"name": name}, "spec": {}, "status": {"seat": 0}}
    request = {"uid": MARKER, "operation": operation, "object": document, "observedObject": document}
    sent = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "request": request}
    return ask(server, [("/interpret", sent)])[MARKER]


def has_version(server: Server, version: int) -> bool:
    """Return whether the scripts of a version answer."""
    retained = ask_marker(server, "Retain", "Marker", "m")
    if not retained["successful"] or json.loads(base64.b64decode(retained["patch"]))[0]["value"] != version:
        return False
    return ask_marker(server, "InterpretHealth", "Game", f"v{version}").get("healthy") is False


KEEP = "desiredObj.spec.seat = runtimeObj.spec.seat"
ALL_HEALTHY = "return true"


FIRST = make_scripts(KEEP, ALL_HEALTHY, 0)


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
    ScriptEdit("without the ConfigMap", None, {f"Retain-{seat}" for seat in range(10)}),
]


@pytest.fixture
def server(recording: Recording, admin: Api) -> Iterator[Server]:
    """The server, when the first scripts answer."""
    install_karmada_crds(admin)
    admin.apply(KARMADA_SYSTEM, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karmada-system"}})
    restore(admin, recording.server)
    yield recording.server
    for path in FIRST:
        admin.delete(path)


def restore(admin: Api, server: Server) -> None:
    for path, document in FIRST.items():
        admin.apply(path, document)
    wait_for(lambda: has_version(server, 0), what="the first scripts answer")


@pytest.mark.timeout(1800)
def test_replay_predicts_edits_of_scripts(
    server: Server, recording: Recording, plane: ControlPlane, admin: Api, tmp_path: Path
) -> None:
    reviews = make_interpretations()
    before = ask(server, reviews)
    assert [one for one in before.values() if not one["successful"]] == []
    records = copy_records(recording.records, tmp_path, reviews)
    for number, edit in enumerate(SCRIPT_EDITS, 1):
        edited = make_scripts(*edit.scripts, number) if edit.scripts else {}
        documents = [*edited.values()] or [{**FIRST[CONFIG_MAP], "data": {}}]
        predicted = run_replay(plane, records, tmp_path, *documents, route="/interpret")
        for path, document in edited.items():
            admin.apply(path, document)
        if edited:
            wait_for(lambda number=number: has_version(server, number), what=edit.name)
        else:
            admin.delete(CONFIG_MAP)
            wait_for(lambda: not ask_marker(server, "Retain", "Marker", "m")["successful"], what=edit.name)
        changed = find_changed(before, ask(server, reviews))
        decided = predicted._replace(changes=[one for one in predicted.changes if one["uid"] != MARKER])
        print(describe(edit.name, decided, changed))  # noqa: T201 - quoted in reports
        assert decided.uids == changed
        assert changed == edit.changed
        restore(admin, server)
