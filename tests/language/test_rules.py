"""Each rule finds its fault, and leaves correct sentences alone."""

from pathlib import Path
from typing import Any

import pytest

from tests.language.rules import MAX_WORDS, find_faults
from tests.language.texts import Text


def faults(words: str, kind: Any = "docstring") -> list[str]:
    return list(find_faults(Text(path=Path("a.py"), line=1, kind=kind, words=words)))


@pytest.mark.parametrize(
    "words",
    [
        "What is only odd is an error.",
        "Read the request. Whoever sent it waits.",
        "the owner: who wrote it",
        "Which of the pools are excluded.",
        "It writes what the apiserver refused.",
        "The lock is held by who downloads.",
        "Depends on whatever is configured.",
    ],
)
def test_a_clause_without_a_noun_is_a_fault(words: str) -> None:
    assert len(faults(words)) == 1
    assert "without a noun" in faults(words)[0]


@pytest.mark.parametrize(
    "words",
    [
        "What would my change do?",
        "Treat warnings as errors.",
        "People who run Karmada read this. The pool, which is excluded, keeps its image.",
        "Prints a what-if of the change.",
        "Somewhat slower than before.",
    ],
)
def test_questions_and_relative_clauses_are_no_fault(words: str) -> None:
    assert faults(words) == []


@pytest.mark.parametrize(
    "words", ["As research 6.5 says.", "See seed 003.", "Listed in ../shared/cases.", "Decided in design.md."]
)
def test_a_reference_to_a_document_outside_is_a_fault(words: str) -> None:
    assert ["outside this repository" in fault for fault in faults(words)] == [True]


def test_only_help_and_messages_have_a_limit_of_words() -> None:
    longest = "word " * (MAX_WORDS - 1) + "end."
    assert faults(longest, "help") == []
    assert faults(f"One {longest}", "docstring") == []
    for kind in ("help", "message"):
        assert [fault.split(",")[0] for fault in faults(f"One {longest}", kind)] == [f"{MAX_WORDS + 1} words"]
