"""Exports a script of the playground as files that ``fleethook interpret test`` runs."""

import re
from typing import Any, Final

import yaml

from fleethook.cluster.manifests.yaml_scalars import quote_texts
from fleethook.engines.interpret.fixtures import find_operation, make_question
from fleethook.engines.interpret.lua.rules import FUNCTION_OF
from fleethook.engines.interpret.playground.question import PlaygroundQuestion
from fleethook.interpret.question import Question
from fleethook.model.json import JSON, JSONObject
from fleethook.model.karmada import API_VERSION, CUSTOMIZATION, Operation

CUSTOMIZATION_FILE: Final = "customization.yaml"
FIXTURE_FILE: Final = "testdata/playground-test.yaml"

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")


class ExportError(ValueError):
    """A question has no form as a customization; the text states the reason and the remedy."""


@quote_texts
class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as literal blocks, so that scripts stay readable."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True, because users edit the output."""
        del data
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def ask_question(question: PlaygroundQuestion) -> Question:
    """Return the question to the interpreters; raises fleethook.engines.interpret.fixtures.FixtureError."""
    return make_question(
        find_operation(question.operation),
        desired=question.desired,
        observed=question.observed,
        items=question.items,
        replicas=question.replicas,
    )


def build_customization(question: PlaygroundQuestion) -> JSONObject:
    """Return the ResourceInterpreterCustomization with the script of a question.

    Raises:
        fleethook.engines.interpret.fixtures.FixtureError: The question is incomplete.
        ExportError: A customization has no rule for the operation.
    """
    asked = ask_question(question)
    function = FUNCTION_OF.get(asked.operation)
    if function is None:
        raise ExportError(f"a customization has no rule for {asked.operation}: choose another operation")
    name = _NOT_IN_NAMES.sub("-", f"{asked.kind.kind}-{asked.kind.group or 'core'}".lower()).strip("-")
    return {
        "apiVersion": API_VERSION,
        "kind": CUSTOMIZATION.kind,
        "metadata": {"name": name},
        "spec": {
            "target": {"apiVersion": asked.kind.api_version, "kind": asked.kind.kind},
            "customizations": {function.member: {"luaScript": question.code}},
        },
    }


def build_fixture(question: PlaygroundQuestion, results: JSONObject) -> JSONObject:
    """Return a fixture in Karmada's format that expects ``results``; raises FixtureError."""
    operation = ask_question(question).operation
    fixture: dict[str, Any] = {"name": f"{operation} as in the playground", "operation": operation.value}
    given: dict[str, JSON] = {
        "desiredObj": question.desired,
        "observedObj": question.observed,
        "statusItems": question.items if operation is Operation.AGGREGATE_STATUS else None,
        "inputReplicas": question.replicas if operation is Operation.REVISE_REPLICA else None,
    }
    return fixture | {name: value for name, value in given.items() if value is not None} | {"output": results}


def export_files(question: PlaygroundQuestion, results: JSONObject) -> dict[str, str]:
    """Return the texts of the exported files by their paths; raises as `build_customization`."""
    return {
        CUSTOMIZATION_FILE: write_yaml(build_customization(question)),
        FIXTURE_FILE: write_yaml(build_fixture(question, results)),
    }


def write_yaml(value: JSON) -> str:
    """Return a value as YAML with literal blocks."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text
