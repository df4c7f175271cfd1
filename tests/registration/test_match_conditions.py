"""The expressions that select workloads; in tests/e2e/test_selection.py, a real apiserver evaluates them."""

import pytest

from app.model.openyurt import RENDERED_ANNOTATION
from app.overrider import undo
from app.registration.match_conditions import (
    BOUND_CONDITION,
    MAX_EXPRESSION_BYTES,
    OWNED,
    SubjectName,
    bound_condition,
    bound_condition_of,
    covers,
    exempted_subjects,
    listed_subjects,
)


def expression(*subjects: SubjectName) -> str:
    condition = bound_condition(subjects)
    assert condition["name"] == BOUND_CONDITION
    return str(condition["expression"])


def many(count: int, *, namespaces: int) -> list[SubjectName]:
    return [SubjectName(f"team-{number % namespaces}", "YurtAppSet", f"app-{number}") for number in range(count)]


def test_only_owners_of_rendered_versions_are_selected() -> None:
    assert "owner.apiVersion in ['apps.openyurt.io/v1alpha1','apps.openyurt.io/v1beta1']" in OWNED["expression"]
    assert "owner.kind in ['YurtAppDaemon','YurtAppSet']" in OWNED["expression"]


def test_subjects_are_listed_by_namespace_in_a_fixed_order() -> None:
    one, two = SubjectName("a", "YurtAppSet", "x"), SubjectName("a", "YurtAppDaemon", "x")
    three = SubjectName("b", "YurtAppSet", "x.y-z")
    text = expression(three, one, two, one)
    assert '{"a":["YurtAppDaemon/x","YurtAppSet/x"],"b":["YurtAppSet/x.y-z"]}[?request.namespace]' in text
    assert text == expression(one, two, three)


def test_without_subjects_only_rendered_and_triggered_workloads_are_selected() -> None:
    text = expression()
    assert "request.namespace" not in text
    assert f"'{RENDERED_ANNOTATION}' in object.metadata" in text
    assert "'LastOverrideTime'" in text


@pytest.mark.parametrize("name", ["", "x'] || true || ['", 'x"]}', "X", "a\nb", "ä", "-a", "a" * 254])
def test_invalid_names_are_omitted(name: str) -> None:
    """An overrider may name any text as its subject, and text must not become CEL."""
    assert expression(SubjectName("a", "YurtAppSet", name)) == expression()
    assert expression(SubjectName(name, "YurtAppSet", "a")) == expression()


def test_too_long_lists_select_namespaces_and_then_all_workloads() -> None:
    some, namespaces, everything = (
        expression(*many(1_500, namespaces=50)),
        expression(*many(4_000, namespaces=50)),
        expression(*many(9_000, namespaces=9_000)),
    )
    assert "YurtAppSet/app-1499" in some
    assert len(some) <= MAX_EXPRESSION_BYTES
    assert "request.namespace in ['team-0','team-1','team-10'," in namespaces
    assert f"'{RENDERED_ANNOTATION}' in object.metadata" in namespaces
    assert everything == "true"


def test_the_condition_of_a_webhook_is_found_by_its_name() -> None:
    condition = bound_condition([])
    assert bound_condition_of({"matchConditions": [OWNED, condition]}) == condition
    assert bound_condition_of({"matchConditions": [OWNED]}) is None
    assert bound_condition_of({}) is None


def test_the_condition_checks_the_annotation_of_a_render() -> None:
    assert undo.RENDERED_ANNOTATION == RENDERED_ANNOTATION


def test_listed_subjects_are_read_back() -> None:
    subjects = {
        SubjectName("a", "YurtAppSet", "x.y"),
        SubjectName("b", "YurtAppDaemon", "x"),
        SubjectName("b", "X", "y"),
    }
    assert listed_subjects(expression(*subjects)) == subjects
    assert listed_subjects(expression()) == frozenset()
    assert all(covers(expression(*subjects), subject) for subject in subjects)
    assert not covers(expression(*subjects), SubjectName("a", "YurtAppSet", "x"))
    assert not covers(expression(*subjects), SubjectName("b", "YurtAppSet", "x.y"))


def test_namespaces_and_all_cover_subjects_that_are_not_listed() -> None:
    namespaces, everything = expression(*many(4_000, namespaces=50)), expression(*many(9_000, namespaces=9_000))
    assert (listed_subjects(namespaces), listed_subjects(everything)) == (None, None)
    new = SubjectName("team-7", "YurtAppSet", "new")
    assert covers(namespaces, new)
    assert not covers(namespaces, new._replace(namespace="team-50"))
    assert covers(everything, new._replace(namespace="team-50"))


@pytest.mark.parametrize("text", ["false", "object.x in {'a': 1}[?request.namespace]", " in {}[?request.namespace]"])
def test_an_expression_of_another_client_lists_no_subjects(text: str) -> None:
    assert listed_subjects(text) == frozenset()


def test_exempt_subjects_stay_listed_and_can_be_read_back() -> None:
    one, two = SubjectName("a", "YurtAppSet", "x"), SubjectName("b", "YurtAppDaemon", "y")
    text = str(bound_condition({one, two}, exempt={two})["expression"])
    assert listed_subjects(text) == {one, two}
    assert ")\n&& !(" in text
    assert exempted_subjects(text) == {two}
    assert covers(text, two)
    assert exempted_subjects(expression(one, two)) == frozenset()


def test_a_workload_of_v1beta1_without_the_label_of_its_subject_is_not_exempt() -> None:
    subject = SubjectName("a", "YurtAppSet", "x")
    _, _, exempt = str(bound_condition({subject}, exempt={subject})["expression"]).partition("&& !(")
    labelled = "object.metadata.?labels[?'apps.openyurt.io/ref-yurtappset'].orValue('') == owner.name"
    assert f"(owner.apiVersion != 'apps.openyurt.io/v1beta1' || {labelled})" in exempt


def test_a_workload_without_the_label_of_its_node_pool_is_not_exempt() -> None:
    subject = SubjectName("ns", "YurtAppSet", "demo")
    _, _, exempt = str(bound_condition({subject}, exempt={subject})["expression"]).partition("&& !(")
    assert "'apps.openyurt.io/pool-name' in object.metadata.?labels.orValue({})" in exempt


def test_without_exempt_subjects_the_expression_is_that_of_earlier_versions() -> None:
    assert "-partial" not in expression(SubjectName("a", "YurtAppSet", "x"))


def test_an_exempt_name_never_becomes_cel() -> None:
    bad = SubjectName("a", "YurtAppSet", "x'] || true || ['")
    assert bound_condition({bad}, exempt={bad})["expression"] == expression()


def test_a_too_long_list_drops_the_exemptions_and_no_subject() -> None:
    some = many(4_000, namespaces=50)
    text = str(bound_condition(some, exempt=some)["expression"])
    assert exempted_subjects(text) == frozenset()
    assert all(covers(text, one) for one in some)
