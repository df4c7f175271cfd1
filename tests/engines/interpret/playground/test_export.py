"""Exports run in `fleethook interpret test`, and the playground answers as `fleethook interpret run` does."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.engines.interpret.fixtures import Fixture, FixtureError, read_fixtures
from fleethook.engines.interpret.lua.bundle import read_bundle
from fleethook.engines.interpret.playground.answering import answer_question
from fleethook.engines.interpret.playground.export import (
    ExportError,
    build_customization,
    build_fixture,
    export_files,
    write_yaml,
)
from fleethook.engines.interpret.playground.question import PlaygroundQuestion
from fleethook.interpret.question import Question
from fleethook.model.json import JSONObject
from fleethook.model.karmada import RETAIN_REPLICAS_LABEL, Operation
from tests.cli.interpreting import RETENTION, run
from tests.engines.interpret.playground.scripts import GAME, lua


def ask_of(fixture: Question, code: str) -> PlaygroundQuestion:
    """Return the question of a fixture to a script."""
    observed = fixture.observed
    # As the command, which asks with an empty list if there is no file of items.
    return PlaygroundQuestion(
        code, fixture.operation.value, fixture.object, observed,
        list(fixture.items or ()), fixture.replicas,
    )  # fmt: skip


def export_to(directory: Path, question: PlaygroundQuestion, results: JSONObject) -> None:
    for name, text in export_files(question, results).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run_command(directory: Path, question: PlaygroundQuestion, *options: str) -> tuple[int, JSONObject, str]:
    """Ask ``fleethook interpret run`` the question; return exit code, output and standard error."""
    given: dict[str, Any] = {"desired": question.desired, "observed": question.observed, "status": question.items}
    arguments = ["--operation", question.operation, "--desired-replica", str(question.replicas), *options]
    for name, value in given.items():
        if value is not None:
            path = directory / f"{name}.json"
            path.write_text(json.dumps(value), encoding="utf-8")
            arguments += [f"--{name}-file", str(path)]
    code, out, error = run("run", *arguments, "--output", "json")
    return code, json.loads(out) if code == 0 else {}, error


def read_examples() -> Iterator[tuple[str, Fixture, str]]:
    """Yield name, fixture and script of each fixture of `examples/` whose script is a function."""
    rules = yaml.safe_load(
        yaml.safe_load((RETENTION / "karmada-config.yaml").read_text())["data"]["retention.customizations"]
    )
    scripts = {rule["kind"]: rule["retention.lua"] for rule in rules if "retention.lua" in rule}
    for value in yaml.safe_load_all((RETENTION / "testdata" / "retention-test.yaml").read_text()):
        for one in read_fixtures(value):
            if (script := scripts.get(one.question.kind.kind)) and "function Retain" in script:
                yield one.name, one, script


EXAMPLES = list(read_examples())


@pytest.mark.parametrize(("fixture", "code"), [one[1:] for one in EXAMPLES], ids=[one[0] for one in EXAMPLES])
def test_the_playground_gives_the_answers_of_the_command_for_the_examples(
    tmp_path: Path, fixture: Fixture, code: str
) -> None:
    question = ask_of(fixture.question, code)
    (tmp_path / "customization.yaml").write_text(write_yaml(build_customization(question)))
    exit_code, printed, _ = run_command(tmp_path, question, "-f", str(tmp_path / "customization.yaml"))
    assert (exit_code, printed["results"], printed["layer"]) == (0, answer_question(question).results, "lua")


def read_bundled() -> Iterator[tuple[str, PlaygroundQuestion, Fixture]]:
    for kind in (one for one in read_bundle() if one.rules):
        # The program of a rule is rewritten; the customization has the source.
        path = Path("app/fleethook/engines/interpret/bundle") / kind.folder / "customization.yaml"
        document = yaml.safe_load((Path(__file__).parents[4] / path).read_text())
        scripts = {
            rule.function.operation: document["spec"]["customizations"][rule.function.member]["luaScript"]
            for rule in kind.rules
        }
        for number, case in enumerate(kind.cases()):
            # The chain answers the label by the rules for replicas, which the playground does not have.
            labels = case.question.object.get("metadata", {}).get("labels") or {}
            if (code := scripts.get(case.question.operation)) and RETAIN_REPLICAS_LABEL not in labels:
                yield f"{kind.folder} {number}", ask_of(case.question, code), case


def test_the_playground_gives_the_answers_of_the_command_for_the_bundle(tmp_path: Path) -> None:
    """The command answers by the bundle itself, the playground by the same script as a customization."""
    asked, differing = 0, []
    for name, question, _ in read_bundled():
        answer = answer_question(question)
        exit_code, printed, error = run_command(tmp_path, question)
        asked += 1
        if exit_code == 0 and printed["results"] != answer.results:
            differing.append((name, printed["results"], answer.results))
        if exit_code != 0 and (answer.results is not None or not error):
            differing.append((name, error, answer.results))
        for path in tmp_path.iterdir():
            path.unlink()
    assert differing == []
    assert asked > 100


def test_an_export_passes_interpret_test(tmp_path: Path) -> None:
    question = lua("return obj.spec.players == 2")
    results = answer_question(question).results
    assert results is not None
    export_to(tmp_path, question, results)
    exit_code, out, error = run("test", str(tmp_path))
    assert (exit_code, error) == (0, ""), out


def test_an_export_with_another_expectation_fails_interpret_test(tmp_path: Path) -> None:
    export_to(tmp_path, lua("return obj.spec.players == 2"), {"healthy": False})
    exit_code, out, _ = run("test", str(tmp_path))
    assert exit_code == 1
    assert "healthy" in out


def test_a_customization_keeps_the_script_readable() -> None:
    text = write_yaml(build_customization(lua("return obj.spec.players == 2")))
    assert "luaScript: |\n" in text
    assert "\n          return" not in text.split("luaScript")[0]
    assert yaml.safe_load(text)["spec"]["target"] == {"apiVersion": "games.example.com/v1", "kind": "Game"}


def test_hostile_names_stay_values_in_the_export() -> None:
    document = {**GAME, "kind": "<script>alert(1)</script>", "metadata": {"name": "\u202ex\u0000", "a: b": "#"}}
    question = lua("return true", desired=document)
    customization = build_customization(question)
    assert customization["metadata"]["name"] == "script-alert-1-script-games-example-com"
    for text in export_files(question, {"healthy": True}).values():
        assert yaml.safe_load(text)
    assert yaml.safe_load(write_yaml(document)) == document


@pytest.mark.parametrize("operation", [one for one in Operation if one is not Operation.PRUNE])
def test_a_fixture_repeats_the_question(operation: Operation) -> None:
    items = [{"clusterName": "a", "status": {}}]
    question = PlaygroundQuestion("", operation.value, GAME, GAME, items, 3)
    fixture = next(read_fixtures(build_fixture(question, {})))
    assert fixture.question.operation is operation
    assert fixture.question.object == GAME
    assert fixture.question.items == (items if operation is Operation.AGGREGATE_STATUS else None)
    assert fixture.question.replicas == (3 if operation is Operation.REVISE_REPLICA else 0)


def test_prune_has_no_customization() -> None:
    with pytest.raises(ExportError, match="choose another operation"):
        build_customization(lua("return obj", "Prune"))
    with pytest.raises(FixtureError):
        build_fixture(lua("return obj", "Retain"), {})
