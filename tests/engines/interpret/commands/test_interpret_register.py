import json
from pathlib import Path

import pytest
import yaml

from tests.cli.interpreting import (
    DATABASE,
    run,
    write_bundle,
)


def test_register_prints_the_kinds_and_operations_of_all_layers(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path)
    authority = tmp_path / "ca.pem"
    authority.write_text("PEM")
    where = ("--service", "karmada-system/fleethook:8443", "--ca-file", str(authority))
    code, out, err = run("register", *where, "-f", str(bundle), "--interpreters", DATABASE, "--registration", "all")
    assert (code, err) == (0, "")
    printed = yaml.safe_load(out)
    (webhook,) = printed["webhooks"]
    assert (printed["kind"], printed["metadata"]["name"]) == ("ResourceInterpreterWebhookConfiguration", "fleethook")
    service = {"namespace": "karmada-system", "name": "fleethook", "path": "/interpret", "port": 8443}
    assert webhook["clientConfig"] == {"service": service, "caBundle": "UEVN"}
    own = [
        rule
        for rule in webhook["rules"]
        if rule["apiGroups"][0].split(".")[1:] in ([], ["kruise", "io"], ["example", "com"])
    ]
    rules = {kind: rule["operations"] for rule in own for kind in rule["kinds"]}
    assert rules["Game"] == ["InterpretHealth", "InterpretDependency"]
    (database,) = [rule for rule in webhook["rules"] if "db.example.com" in rule["apiGroups"]]
    assert database["kinds"] == ["Database"], "CloudNativePG has a kind with this name, too"
    operations = ["InterpretReplica", "ReviseReplica", "Retain", "InterpretHealth", "InterpretDependency"]
    assert database["operations"] == operations
    assert "Retain" in rules["Deployment"]
    assert "CloneSet" in rules
    code, out, _ = run("register", *where, "--no-bundle", "--registration", "all", "-o", "json")
    assert not any("CloneSet" in rule["kinds"] for rule in json.loads(out)["webhooks"][0]["rules"])


@pytest.mark.parametrize(("choice", "kinds"), [
    ((), {"Game", "Certificate"}),
    (("--registration", "own"), {"Game"}),
    (("--registration", "all"), {"Game", "Certificate", "CloneSet", "Deployment", "Secret"}),
])  # fmt: skip
def test_register_takes_the_kinds_of_the_choice(choice: tuple[str, ...], kinds: set[str], tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path)
    code, out, _ = run("register", "--webhook-url", "https://x:1", "-f", str(bundle), "-o", "json", *choice)
    rules = json.loads(out)["webhooks"][0]["rules"]
    named = {kind for rule in rules for kind in rule["kinds"]}
    assert (code, named & {"Game", "Certificate", "CloneSet", "Deployment", "Secret"}) == (0, kinds)


@pytest.mark.parametrize(("mode", "operations"), [
    ("off", None),
    ("health", ["InterpretHealth", "InterpretDependency"]),
    ("all", ["InterpretReplica", "ReviseReplica", "Retain", "InterpretHealth", "InterpretDependency"]),
])  # fmt: skip
def test_register_names_the_kinds_of_definitions_with_conventions(
    mode: str, operations: list[str] | None, tmp_path: Path
) -> None:
    file = tmp_path / "crd.yaml"
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"scale": scale}}
    file.write_text(yaml.safe_dump({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "names": {"kind": "Widget", "plural": "widgets"}, "scope": "Namespaced",
                 "versions": [version]},
    }))  # fmt: skip
    code, out, _ = run("register", "--webhook-url", "https://x:1", "-f", str(file), "--conventions", mode, "-o", "json")
    rules = json.loads(out)["webhooks"][0]["rules"]
    found = [rule["operations"] for rule in rules if "Widget" in rule["kinds"]]
    assert (code, found) == (0, [] if operations is None else [operations])


def test_register_leaves_out_operations_of_other_configurations(tmp_path: Path) -> None:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "kinds": ["Deployment"], "operations": ["Retain"]}
    other = {
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration",
        "metadata": {"name": "other"},
        "webhooks": [{"name": "w.example.org", "clientConfig": {"url": "https://x"}, "rules": [rule]}],
    }  # fmt: skip
    file = tmp_path / "other.yaml"
    file.write_text(yaml.safe_dump(other))
    code, out, err = run("register", "--webhook-url", "https://x:1", "-f", str(file), "--registration", "all")
    assert code == 0
    assert err.splitlines() == [
        "note: without --ca-file, Karmada trusts only the CAs of its system",
        "note: Retain of apps/v1 Deployment is not registered: webhook other/w.example.org already has it",
    ]
    (webhook,) = yaml.safe_load(out)["webhooks"]
    (operations,) = (one["operations"] for one in webhook["rules"] if "Deployment" in one["kinds"])
    assert "Retain" not in operations


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "the address of the server is missing or ambiguous: give either --service or --webhook-url"),
        (("--service", "a/b", "--webhook-url", "https://x"), "give either --service or --webhook-url"),
        (("--service", "a/b", "--ca-file", "/nowhere"), "cannot read --ca-file"),
    ],
)
def test_register_needs_the_address_of_the_server(arguments: tuple[str, ...], problem: str) -> None:
    code, _, err = run("register", *arguments)
    assert code == 2
    assert problem in err
