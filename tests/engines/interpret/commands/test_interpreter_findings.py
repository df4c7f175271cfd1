"""``fleethook lint`` on interpreters of Karmada."""

import json
from pathlib import Path

import yaml

from tests.cli.commands import invoke


def test_lint_finds_mistakes_of_scripts_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "interpreters.yaml"
    scripts = {
        "replicaResource": {"luaScript": "function GetReplicas(o) return 1, {resourceRequests = {}} end"},
        "healthInterpretation": {"luaScript": "function InterpretHealth(o"},
    }
    spec = {"target": {"apiVersion": "example.com/v1", "kind": "Foo"}, "customizations": scripts}
    identity = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization"}
    written = yaml.safe_dump({**identity, "metadata": {"name": "foo"}, "spec": spec}, width=200)
    file.write_text(written)
    result = invoke(["lint", "-f", str(file), "-o", "json"])
    rows = json.loads(result.stdout)
    places = [f"{file}:{n}" for n, line in enumerate(written.splitlines(), 1) if "luaScript" in line]
    assert [(row["code"], row["place"], row["name"]) for row in rows] == [
        ("invalid-interpreter", places[0], "foo"),
        ("suspicious-interpreter", places[1], "foo"),
    ]
    assert "did you mean resourceRequest?" in rows[1]["text"]
    assert result.exit_code == 1
    file.write_text(written.replace("InterpretHealth(o", "InterpretHealth(o) return true end"))
    assert invoke(["lint", "-f", str(file)]).exit_code == 0
    assert invoke(["lint", "-f", str(file), "--strict"]).exit_code == 1
