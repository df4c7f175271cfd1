"""A short rule that gets the members that it names answers as one that gets all members, or has no result."""

import keyword
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.admission.named_members import MAX_NAMES, Named, NotShortError, get, lacks, make_decoder
from fleethook.admission.rule import Hook, build_request
from fleethook.admission.rules_file import load_rules
from fleethook.model.admission import AdmissionRequest, AdmissionReview, Response, cluster_conflict
from fleethook.model.json import JSONObject
from fleethook.workload_schema.pod_rules import NEEDS

HEAD = 'from fleethook.admission import Denied, mutate, validate\nNAMES = ("a", "d/e")\n'
READS = [
    "if not pod.spec: raise Denied('empty')",
    "if pod.spec.a and not pod.spec.b: raise Denied('a')",
    "value = pod.spec.get('a') or {}\nif 'b' in value: raise Denied('b')",
    "if pod.spec.get('a', {}).get('b', 1) == 1: raise Denied('1')",
    "for one in pod.spec.a:\n    if one == 1: raise Denied('1')",
    "for one in pod.spec.a:\n    if isinstance(one, dict): raise Denied(f'{one.b}')",
    "for name in NAMES:\n    if name not in pod.spec: raise Denied(name)",
    "for name, value in pod.spec.items():\n    if value: raise Denied(name)",
    "if len(pod.spec.a) > 1: raise Denied('long')",
    "if pod.spec['d/e'] is None: raise Denied('null')",
    "if pod.spec.a == pod.spec.b: raise Denied('same')",
    "if isinstance(pod.spec.a, (str, dict)): raise Denied('type')",
    "if any(pod.spec.a): raise Denied('any')",
    "raise Denied(f'{pod.spec.a}')",
    "if pod.metadata.name in pod.spec: raise Denied('name')",
    "names = sorted(pod.spec)\nif names: raise Denied(names[0])",
    "if pod.spec.get(pod.metadata.name): raise Denied('name')",
    "if not request.labels.get('a'): raise Denied('label')",
    "if request.labels: raise Denied('labels')",
    "pod.spec.a = 1\nif pod.spec.get('a') == 1: raise Denied('1')",
    "value = pod.spec.a\nif bool(value): raise Denied('true')",
    "if '\"' in f'{pod.spec.a}' or pod.spec.get('\\n'): raise Denied('escape')",
    "if [one for one in (pod.spec.get('a'), pod.spec.get('b')) if one]: raise Denied('one')",
    "if pod.metadata.name: raise Denied(request.labels.get('a', 'none'))",
]
CHANGES = [
    "pod.spec.a = 1",
    "pod.spec['d/e'] = {'a': 1}",
    "pod.spec.setdefault('a', {}).setdefault('b', [1])",
    "pod.spec.pop('a', None)",
    "del pod.spec.a",
    "pod.spec.a.b = None",
    "pod.spec.a.append(1)",
    "pod.spec.a = 1\npod.spec.b = 2",
    "pod.spec.a = pod.spec.b",
    "for one in pod.spec.a:\n    one.b = 2",
    "pod.spec.a[0] = 1",
    "pod.metadata.setdefault('labels', {})['a'] = 'b'",
    "pod.metadata.labels.a = 'b'",
    "pod.metadata.name = 'b'",
    "pod.status = {}",
    "del pod.spec",
    "pod.spec = {'a': 1}",
    "pod.spec.a.setdefault('a', {}).setdefault('a', 1)",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a", "1"]) | st.just(1.0),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c", "d/e"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
OBJECTS = st.fixed_dictionaries(
    {
        "apiVersion": st.just("example.com/v1"),
        "kind": st.just("Thing"),
        "metadata": st.fixed_dictionaries(
            {"name": st.sampled_from(["a", "b"])},
            optional={"labels": st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["", "a"]))},
        ),
        "spec": VALUES,
    },
    optional={"status": VALUES},
)


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Hook]:
    directory: Path = tmp_path_factory.mktemp("rules")
    text = HEAD
    for number, body in enumerate([*READS, *CHANGES]):
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        decorator, parameters = ("validate", "pod, request") if body in READS else ("mutate", "pod")
        text += f'\n@{decorator}("example.com/v1", "Thing")\ndef rule_{number}({parameters}):\n{lines}'
    (directory / "rules.py").write_text(text)
    loaded = {rule.name: rule for rule in load_rules([directory / "rules.py"])}
    return {body: loaded[f"rule-{number}"] for number, body in enumerate([*READS, *CHANGES])}


def answer_by_names(rule: Hook, document: JSONObject) -> Response | None:
    request = build_request(document, None, operation="CREATE")
    if rule._named is None:
        return None
    found = rule._call_short(request, lambda *_: True, rule._named)
    decoded = rule._named.decode_review(encode(request))
    again = None if decoded is None else rule._call_short(decoded[1], lambda *_: True, rule._named)
    assert again == found
    return found


def encode(request: AdmissionRequest) -> bytes:
    return msgspec.json.encode(
        AdmissionReview(api_version="admission.k8s.io/v1", kind="AdmissionReview", request=request)
    )


@pytest.mark.parametrize("body", [*READS, *CHANGES])
@given(document=OBJECTS)
def test_an_answer_by_names_is_that_of_the_rule(rules: dict[str, Hook], body: str, document: JSONObject) -> None:
    rule = rules[body]
    found = answer_by_names(rule, document)
    wanted = rule.answer(build_request(document, None, operation="CREATE"))
    assert found is None or found == wanted
    assert answer_by_names(rule, document) == found, "a call leaves nothing behind"


COMMON: JSONObject = {
    "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x", "labels": {"a": "b"}},
    "spec": {"b": {"b": 1, "c": 2}, "a": 2, "c": 3},
}  # fmt: skip


@pytest.mark.parametrize(
    "body", [READS[1], READS[6], READS[11], READS[17], *CHANGES[:2], *CHANGES[3:5], *CHANGES[11:13]]
)
def test_usual_code_needs_no_other_members(rules: dict[str, Hook], body: str) -> None:
    assert answer_by_names(rules[body], COMMON) is not None


@pytest.mark.parametrize("body", [READS[7], READS[15], CHANGES[6], CHANGES[7], CHANGES[10], *CHANGES[13:17]])
def test_code_about_members_without_names_has_no_result(rules: dict[str, Hook], body: str) -> None:
    assert answer_by_names(rules[body], COMMON) is None
    request = build_request(COMMON, None, operation="CREATE")
    assert rules[body].answer_inline(request) in (None, rules[body].answer(request))


@pytest.mark.parametrize(
    "names",
    [[f"n{number}" for number in range(MAX_NAMES)], ["setdefault"], ["journal"], keyword.kwlist[:1], ["member_3"]],
)
def test_some_names_need_all_members(names: list[str]) -> None:
    assert make_decoder(names) is None


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\n", "\ud800", "\x7f"])
def test_a_text_that_json_escapes_is_no_name(name: str) -> None:
    found = decode({"apiVersion": "v1", "kind": "Pod", "spec": {"a": 1}}, "spec", name, "a", "é", "")
    assert found.spec.a == 1
    with pytest.raises(NotShortError):
        get(found, name)


def decode(document: Any, *names: str) -> Any:
    made = make_decoder(names)
    assert made is not None
    return made.read(build_request(document, None, operation="CREATE"))


def test_the_log_has_the_name_and_the_cluster_of_an_object() -> None:
    made = make_decoder(())
    metadata = {"generateName": "a-", "annotations": {"kcp.io/cluster": "root", "b": "c"}, "labels": {}}
    request = build_request({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}, None, operation="CREATE")
    assert made is not None
    made.read(request)
    assert request.known_metadata == {"generateName": "a-", "annotations": {"kcp.io/cluster": "root"}}


def test_an_object_lacks_a_member_only_if_its_name_was_looked_for() -> None:
    found = decode({"apiVersion": "v1", "kind": "Pod", "spec": {"os": {}, "a": {}}}, "spec", "a")
    assert isinstance(found, Named)
    assert not lacks(found, ["spec"], "os")
    assert not lacks(found, ["spec", "a"], "unknown")
    assert not lacks(found, ["missing"], "os")
    assert lacks(found, ["spec", "a"], "os")
    assert lacks(decode({"apiVersion": "v1", "kind": "Pod", "spec": {}}, "spec"), ["spec"], "os")


def test_the_check_of_results_knows_the_members_that_it_needs() -> None:
    empty = decode({"apiVersion": "v1", "kind": "Pod", "spec": {}}, "spec")
    assert all(lacks(empty, ["spec"], name) for name in NEEDS.values())


POD: JSONObject = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"b": [1]}}


def test_a_request_that_was_decoded_in_part_has_its_text() -> None:
    request = build_request(POD, POD, operation="UPDATE")
    made = make_decoder(["spec"])
    assert made is not None
    decoded = made.decode_review(encode(request))
    assert decoded is not None
    version, partial = decoded
    assert version == "admission.k8s.io/v1"
    assert "object" not in partial.__dict__
    assert (partial.object, partial.object_raw, partial.old_object) == (POD, request.object_raw, POD)
    assert request.size < partial.size < request.size + 1000
    with pytest.raises(AttributeError, match="missing"):
        _ = partial.missing  # type: ignore[attr-defined]


@pytest.mark.parametrize("former", ["root", "other"])
def test_the_clusters_of_an_update_are_compared(former: str) -> None:
    def placed(cluster: str) -> JSONObject:
        return POD | {"metadata": {"name": "a", "annotations": {"kcp.io/cluster": cluster}}}

    request = build_request(placed("root"), placed(former), operation="UPDATE")
    made = make_decoder(["spec"])
    assert made is not None
    decoded = made.decode_review(encode(request))
    assert decoded is not None
    assert cluster_conflict(decoded[1]) == cluster_conflict(request)
    assert bool(cluster_conflict(request)) == (former == "other")


def test_a_deleted_object_is_decoded_in_part() -> None:
    made = make_decoder(["spec", "b"])
    assert made is not None
    decoded = made.decode_review(encode(build_request(None, POD, operation="DELETE")))
    assert decoded is not None
    assert made.read(decoded[1]).spec.b == [1]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'{"request": null}',
        encode(build_request(POD, None, operation="CREATE")).replace(b'"test"', b'""'),
    ],
)
def test_another_body_is_left_to_the_decoder_of_all_reviews(body: bytes) -> None:
    made = make_decoder(["spec"])
    assert made is not None
    assert made.decode_review(body) is None
