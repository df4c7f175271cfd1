"""The expressions that select workloads; in tests/e2e/test_selection.py, a real apiserver evaluates them."""

import pytest

from fleethook.cluster.registration.webhook_configurations import find_conditions
from fleethook.engines.overrider.render.undo_and_annotations import RENDERED_ANNOTATION
from fleethook.engines.overrider.subject.match_condition_texts import (
    EVERY_NAMESPACE,
    OWNED,
    SelectedSubjects,
    SubjectName,
    read_conditions,
    write_conditions,
)

A, B, C = (SubjectName("a", "YurtAppSet", name) for name in ("x", "y.z", "z"))
OTHER = SubjectName("b", "YurtAppDaemon", "x")
MAX_CODE_POINTS = 100_000
"""cel-go refuses longer expressions (parser/options.go)."""


def texts(selection: SelectedSubjects, *, optional: bool = False) -> list[str]:
    return [str(one["expression"]) for one in write_conditions(selection, optional=optional)]


def only(selection: SelectedSubjects, *, optional: bool = False) -> str:
    (text,) = texts(selection, optional=optional)
    return text


def closed(*subjects: SubjectName) -> SelectedSubjects:
    return SelectedSubjects(frozenset(subjects))


def many(count: int, *, namespaces: int) -> list[SubjectName]:
    return [SubjectName(f"team-{number % namespaces}", "YurtAppSet", f"app-{number}") for number in range(count)]


def test_subjects_are_listed_by_namespace_in_a_fixed_order() -> None:
    text = only(closed(OTHER, A, B))
    assert text.endswith(
        '{"a":["YurtAppSet/x","YurtAppSet/y.z"],"b":["YurtAppDaemon/x"]}[?request.namespace].orValue([]))'
    )
    assert text == only(closed(B, OTHER, A))


def test_only_listed_subjects_fail_closed() -> None:
    """Rendered and triggered workloads whose overrider is gone fail open."""
    assert texts(SelectedSubjects()) == []
    text = only(closed(A))
    assert RENDERED_ANNOTATION not in text
    assert "LastOverrideTime" not in text
    optional = only(SelectedSubjects(), optional=True)
    assert "request.namespace" not in optional
    assert f"'{RENDERED_ANNOTATION}' in object.metadata" in optional
    assert "'LastOverrideTime'" in optional


@pytest.mark.parametrize("name", ["", "x'] || true || ['", 'x"]}', "X", "a\nb", "ä", "-a", "a" * 254])
def test_invalid_names_are_omitted(name: str) -> None:
    """An overrider may name any text as its subject, and text must not become CEL."""
    for bad in (SubjectName("a", "YurtAppSet", name), SubjectName(name, "YurtAppSet", "a")):
        for optional in (False, True):
            assert texts(closed(bad), optional=optional) == texts(SelectedSubjects(), optional=optional)


@pytest.mark.parametrize(("count", "namespaces"), [(0, 1), (1_500, 50), (4_000, 50), (9_000, 9_000), (9_000, 2)])
def test_lists_of_any_length_never_make_more_writes_fail(count: int, namespaces: int) -> None:
    """A list that is too long selects namespaces of the optional webhook only."""
    subjects = frozenset(many(count, namespaces=namespaces))
    made = SelectedSubjects(subjects)
    written = [texts(made, optional=optional) for optional in (False, True)]
    assert len(written[1]) == 1
    assert max(len(text) for each in written for text in each) < MAX_CODE_POINTS
    assert "request.namespace in " not in "".join(written[0])
    assert "request.namespace != " not in "".join(written[0])
    found = read_conditions([text for each in written for text in each])
    assert found.subjects <= subjects
    assert all(one in found.subjects or found.spills(one) for one in subjects)
    if count <= 1_500:
        assert found == made


def test_the_conditions_of_a_webhook_are_found_by_their_names() -> None:
    conditions = write_conditions(closed(*many(4_000, namespaces=50)), optional=False)
    assert find_conditions({"matchConditions": [OWNED, *conditions]}) == conditions
    assert find_conditions({"matchConditions": [OWNED]}) == find_conditions({}) == []


def test_a_selection_is_read_back() -> None:
    made = SelectedSubjects(frozenset({A, OTHER}), frozenset({"far"}))
    assert read_conditions([only(made), only(made, optional=True)]) == made
    assert read_conditions([only(SelectedSubjects(), optional=True)]) == SelectedSubjects()
    everywhere = only(SelectedSubjects(namespaces=frozenset({EVERY_NAMESPACE})), optional=True)
    assert read_conditions([everywhere]).spills(A)


@pytest.mark.parametrize("text", ["false", "object.x in {'a': 1}[?request.namespace]", " in {}[?request.namespace]"])
def test_an_expression_of_another_client_lists_no_subjects(text: str) -> None:
    assert read_conditions([text]) == SelectedSubjects()
