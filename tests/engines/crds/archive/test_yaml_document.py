"""One budget of YAML for a tarball, and refusals before anything is built from a text."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from fleethook.engines.crds.archive.names_content_limits import (
    LIMITS,
    ArchiveLimits,
    YAMLBudget,
    YAMLDocument,
    read_document,
)
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit


def read(text: str, **limits: int) -> YAMLDocument:
    return read_document("x.yaml", text.encode(), YAMLBudget(ArchiveLimits(**limits)))


def refusal(text: str, **limits: int) -> tuple[Exit, str]:
    with pytest.raises(CRDsError) as caught:
        read(text, **limits)
    return caught.value.exit, str(caught.value)


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("", YAMLDocument(None, 0)),
        ("# nothing", YAMLDocument(None, 0)),
        ("---\n---\na: 1\n", YAMLDocument(None, 2)),
        ("a: 1\n---\na: 1\na: 2\n", YAMLDocument({"a": 1}, 2)),
        ("\ufeffa: ü\n...\n---\nb: 2\n", YAMLDocument({"a": "ü"}, 2)),
        ("a: &x 1\n", YAMLDocument({"a": 1}, 1)),
        ("a: 50%\nb: |\n  %TAG\n", YAMLDocument({"a": "50%", "b": "%TAG\n"}, 1)),
    ],
)
def test_the_first_document_is_read(text: str, document: YAMLDocument) -> None:
    assert read(text) == document


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}"), ("- ", "")])
def test_levels_are_limited_across_all_kinds(opening: str, closing: str) -> None:
    text = opening * 3 + "x" + closing * 3
    read(text, yaml_depth=3)
    assert refusal(text, yaml_depth=2) == (Exit.ARCHIVE, "x.yaml cannot be read: it has more than 2 levels")


def test_merge_keys_are_not_followed() -> None:
    lines = ["a0: &a0 {k: v}"] + [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 60)]
    assert refusal("\n".join(lines)) == (Exit.ARCHIVE, "x.yaml cannot be read: it has aliases")


@pytest.mark.parametrize("text", ["%TAG !a! x\n---\na: 1\n", "a: 1\n...\n%YAML 1.1\n---\n"])
def test_directives_are_refused_because_libyaml_compares_all_of_them(text: str) -> None:
    assert refusal(text) == (Exit.ARCHIVE, "x.yaml cannot be read: it has a directive (a line that begins with %)")


@pytest.mark.parametrize(
    "text",
    ["- \n" * 2_000_000, "[" + "{}," * 2_000_000 + "]", "a: 1\n---\n" * 700_000],
    ids=["list", "flow", "documents"],
)
def test_a_large_file_is_given_up_when_its_budget_is_spent(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    taken, real = itertools.count(), yaml.parse

    def parse(*arguments: Any, **options: Any) -> Iterator[yaml.Event]:
        for event in real(*arguments, **options):
            next(taken)
            yield event

    monkeypatch.setattr(yaml, "parse", parse)
    assert refusal(text)[0] is Exit.LIMIT
    # At most five events for each node: a document of one scalar has four, and the stream begins with one.
    assert next(taken) <= 5 * LIMITS.yaml_nodes
