"""For any subject, overriders and foreign changes, the prediction is the result of admission."""

import copy
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from fleethook.cluster.store import key_of
from fleethook.engines.overrider.entries.steps_and_limits import RenderError
from fleethook.engines.overrider.rollout.diff_prediction_and_totals import PredictedEffect, predict
from fleethook.engines.overrider.rollout.rollout_warning import Edit, predict_edit
from fleethook.engines.overrider.subject.subject_and_pools import Subject
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.model.openyurt import TRIGGER_ANNOTATION, YURT_APP_SET
from fleethook.patch import apply
from tests.builders import compile_plan, overrider, review, store_of
from tests.engines.overrider.worlds import EXAMPLES, OVERRIDERS, SUBJECTS, Foreign, can_exist, stored_by_owner

Document = dict[str, Any]
MAYBE = st.one_of(st.none(), OVERRIDERS)
KEY = key_of(overrider())


def make_stored(subject: Document, rule: Document | None) -> Document | None:
    """Return the workload that a subject and an overrider result in, None if there is none."""
    try:
        plan = compile_plan(YURT_APP_SET, subject, rule, kind="Deployment", pool="hangzhou", node_pool=None)
    except (SubjectError, RenderError):
        return None
    if not can_exist(plan.create.bare):
        return None
    return touch(stored_by_owner(plan.create.bare), subject, rule, operation="CREATE")


def touch(stored: Document, subject: Document, rule: Document | None, operation: str = "UPDATE") -> Document | None:
    """Return a workload as admission changes it when fleethook's controller touches it, None if it is refused."""
    touched = copy.deepcopy(stored)
    touched["metadata"].setdefault("annotations", {})[TRIGGER_ANNOTATION] = operation
    old = stored if operation == "UPDATE" else None
    answer = review(touched, *objects(subject, rule), operation=operation, old=old)
    if not answer.allowed or any("not rendered" in text for text in answer.warnings):
        return None
    admitted: Document = apply(touched, answer.patch)
    return admitted


def objects(subject: Document, rule: Document | None) -> list[Document]:
    return [subject] if rule is None else [subject, rule]


def predicted(subject: Document, old: Document | None, new: Document | None, stored: Document) -> PredictedEffect:
    before, after = store_of(*objects(subject, old)), store_of(*objects(subject, new))
    (found,) = predict(before, after, [stored], [KEY])
    return found


def strip(value: Any) -> Any:
    """Return a value without empty members, which a typed object does not have."""
    if isinstance(value, dict):
        made = {name: strip(inner) for name, inner in value.items()}
        return {name: inner for name, inner in made.items() if inner not in ([], {}, None) or name == "emptyDir"}
    return [strip(inner) for inner in value] if isinstance(value, list) else value


@settings(max_examples=EXAMPLES)
@given(SUBJECTS, MAYBE, MAYBE, st.booleans(), st.data())
def test_the_prediction_is_the_result_of_admission(
    subject: Document, old: Document | None, new: Document | None, foreign: Any, data: st.DataObject
) -> None:
    stored = make_stored(subject, old)
    if stored is None or old is new is None:
        return
    if foreign:
        Foreign(data.draw).add(stored)
        stored = touch(stored, subject, old)
        assert stored is not None
    found = predicted(subject, old, new, stored)
    after = touch(stored, subject, new)
    event(found.effect.name)
    if after is None:
        assert found.effect.name == "error"
        return
    specs = [strip(one["spec"]) for one in (stored, after)]
    templates = [spec.pop("template") for spec in specs]
    assert (found.effect.name == "rolls") == (templates[0] != templates[1])
    if templates[0] == templates[1]:
        replicas = [spec.pop("replicas", 1) for spec in specs]
        assert (found.effect.name == "scales") == (replicas[0] != replicas[1])
        if found.effect.name in ("metadata", "unchanged"):
            assert specs[0] == specs[1]


@settings(max_examples=EXAMPLES)
@given(SUBJECTS, MAYBE, MAYBE)
def test_admission_predicts_as_the_command_does(subject: Document, old: Document | None, new: Document | None) -> None:
    stored = make_stored(subject, old)
    if stored is None or old is new is None:
        return
    found = predicted(subject, old, new, stored)
    edit = Edit(Subject(YURT_APP_SET, subject, ""), old, new, ["hangzhou"], {"hangzhou": None})
    effects = predict_edit(edit).totals.effects
    event(found.effect.name)
    if found.effect.name == "error":
        assert not effects
    else:
        assert [name for name, number in effects.items() if number] == [found.effect.name]
