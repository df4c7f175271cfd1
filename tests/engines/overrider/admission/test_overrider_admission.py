"""Reviews of overriders and subjects with the answers of kube-apiserver to dry runs."""

from typing import Any

import pytest

from fleethook.engines.overrider.admission import overrider_admission
from fleethook.engines.overrider.admission.overrider_admission import default_overrider
from fleethook.engines.overrider.entries.steps_and_limits import LIMITS, MAX_VALUES
from fleethook.model.admission import Response
from tests.builders import (
    API,
    container,
    entry,
    image,
    overrider,
    patch,
    pod_template,
    pool,
    request,
    store_of,
    validate_overrider,
    yurt_app_set,
)

GOOD = overrider(entry("hangzhou", items=[image("nginx", "nginx:2.0")]))


def validate(document: Any, *objects: dict[str, Any], **fields: Any) -> Response:
    return validate_overrider(request(document, **fields), store=store_of(*objects))


def findings(answer: Response) -> dict[str, str]:
    assert answer.allowed is not bool(answer.causes), answer
    return {cause.field: cause.message for cause in answer.causes}


def test_a_good_overrider_is_admitted_without_a_word() -> None:
    assert validate(GOOD, yurt_app_set()) == Response(allowed=True)


def test_a_remove_may_carry_the_null_that_go_clients_send() -> None:
    rule = overrider(entry("hangzhou", patches=[patch("remove", "/spec/template/spec/containers/0/tty", None)]))
    assert validate(rule, yurt_app_set(template=pod_template(containers=[container(tty=True)]))).allowed


def test_one_answer_has_all_findings_with_code_and_causes() -> None:
    rule = overrider(entry(""), entry("a", items=[{}]), subject={"kind": "X"})
    answer = validate(rule, yurt_app_set())
    assert (answer.allowed, answer.code, answer.reason) == (False, 422, "Invalid")
    assert set(findings(answer)) == {"subject.kind", "subject.name", "entries[0].pools[0]", "entries[1].items[0]"}
    assert all(f"{cause.field}: {cause.message}" in answer.message for cause in answer.causes)


def test_very_many_findings_are_cut_and_counted() -> None:
    answer = validate(overrider(*[entry("a", items=[image("a", "A")]) for _ in range(60)]), yurt_app_set())
    assert len(answer.causes) == 50
    assert answer.message.endswith("; and 10 more")


# One overrider per subject, and an immutable subject.


def test_an_update_does_not_collide_with_itself() -> None:
    changed = overrider(entry("hangzhou", items=[{"replicas": 4}]))
    assert validate(changed, yurt_app_set(), GOOD, operation="UPDATE", old=GOOD).allowed


@pytest.mark.parametrize("member", ["kind", "name"])
def test_the_subject_cannot_be_changed(member: str) -> None:
    other = {"kind": "YurtAppDaemon", "name": "other"}[member]
    changed = {**GOOD, "subject": {**GOOD["subject"], member: other}}
    answer = validate(changed, operation="UPDATE", old=GOOD)
    assert "unable to modify subject after demo1 is created" in findings(answer)["subject"]


def test_an_api_version_may_be_filled_in_later() -> None:
    old = {**GOOD, "subject": {"kind": "YurtAppSet", "name": "demo"}}
    assert validate(GOOD, yurt_app_set(), operation="UPDATE", old=old).allowed


@pytest.mark.parametrize(
    ("metadata", "entries"),
    [({"finalizers": []}, None), ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, [{"pools": 1}])],
)
def test_metadata_of_a_broken_overrider_can_still_be_changed(metadata: Any, entries: Any) -> None:
    old = {**GOOD, "entries": [{"pools": 1}]}
    new = {**old, "metadata": {**old["metadata"], **metadata}}
    assert validate(new, operation="UPDATE", old=old) == Response(allowed=True)


# The dry run.


def test_a_failing_entry_is_denied_with_entry_patch_and_the_pools_it_fails_in() -> None:
    patches = [patch("replace", "/spec/template/spec/containers/1/image", "x")]
    one = pool("shanghai", patch={"spec": {"template": {"spec": {"containers": [container("second")]}}}})
    subject = yurt_app_set(pools=[pool("hangzhou"), pool("beijing"), one])
    answer = validate(overrider(entry("*", patches=patches)), subject)
    assert findings(answer) == {
        "entries[0].patches[0]": "node pools hangzhou, beijing: replace /spec/template/spec/containers/1/image: "
        "index 1 is out of range: the array has 1 elements; an override changes only elements of the template: [name=nginx]"
    }


def test_a_wrong_type_in_the_result_is_denied() -> None:
    rule = overrider(entry("hangzhou", patches=[patch("replace", "/spec/replicas", "three")]))
    assert "/spec/replicas: must be an integer" in findings(validate(rule, yurt_app_set()))["entries[0].patches[0]"]


def test_a_verdict_does_not_depend_on_changes_while_it_is_found() -> None:
    subject = yurt_app_set(pools=[pool(f"p{number}", number % 3) for number in range(300)])
    rule = overrider(entry("*", items=[{"replicas": 1}]), entry("p1000", items=[{"replicas": 2}]))
    store = store_of(subject)
    judge = overrider_admission.validate_overrider(request(rule), store=store)
    assert not isinstance(judge, Response)
    store.put(yurt_app_set(pools=[pool("p1000")], template=pod_template(containers=[])))
    store.put(overrider(entry("*"), name="rival"))
    assert judge() == validate(rule, subject)


def test_warnings_name_the_entry_of_each_pool_where_pools_share_a_plan() -> None:
    subject = yurt_app_set(pools=[pool(f"p{number}", 5) for number in range(4)])
    items = [
        [image("nginx", f"r/x:{number}"), image("gone", "r/y:1"), {"replicas": 5 + number % 2}] for number in range(4)
    ]
    found = validate(overrider(*[entry(f"p{number}", items=one) for number, one in enumerate(items)]), subject).warnings
    for number in range(4):
        of_entry = [text for text in found if text.startswith(f"entries[{number}]")]
        assert all(text.endswith(f"(node pool p{number})") for text in of_entry)
        assert of_entry[0].startswith(f"entries[{number}].items[1]: no container is named 'gone'")
        said = "while replicas differ from spec.topology.pools" if number % 2 else "replicas is 5 already"
        assert of_entry[1].startswith(f"entries[{number}].items[2]: {said}")
        assert len(of_entry) == 2


# Defaults.


def test_a_missing_api_version_is_filled_in() -> None:
    bare = {**GOOD, "subject": {"kind": "YurtAppSet", "name": "demo"}}
    answer = default_overrider(request(bare))
    assert list(answer.patch) == [{"op": "add", "path": "/subject/apiVersion", "value": API}]


@pytest.mark.parametrize("subject", [GOOD["subject"], None, []])
def test_nothing_else_is_defaulted(subject: Any) -> None:
    assert default_overrider(request({**GOOD, "subject": subject})) == Response(allowed=True)


@pytest.mark.parametrize("member", ["items", "patches"])
def test_an_entry_has_so_many_items_and_patches_at_most(member: str) -> None:
    made = {"items": [{"replicas": 1}], "patches": [patch("replace", "/spec/replicas", 1)]}[member]
    limit = LIMITS.operations
    assert validate(overrider(entry("*", **{member: made * limit}))).allowed
    answer = validate(overrider(entry("*", **{member: made * (limit + 1)})))
    assert f"entries[0].{member}: has {limit + 1} {member}, and the limit is {limit}: combine them" in answer.message


def test_a_patch_has_so_many_values_at_most() -> None:
    value = [{"name": "a", "value": "b"}] * (MAX_VALUES // 3)
    answer = validate(overrider(entry("*", patches=[patch("add", "/spec/template/spec/containers/0/env", value)])))
    assert f"entries[0].patches[0]: has more than {MAX_VALUES} values, which is the limit" in answer.message
