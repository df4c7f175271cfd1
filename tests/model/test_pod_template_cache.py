import gc

import msgspec
import pytest

from fleethook.model.pod_template_cache import MAX_TEMPLATE_BYTES, MAX_TEMPLATES, decode_template, find_template


def decode(text: str, *, cluster: str = "", namespace: str = "default") -> object:
    return decode_template(msgspec.Raw(text.encode()), cluster=cluster, namespace=namespace)


def test_equal_templates_of_a_namespace_are_one_object() -> None:
    first, second = decode('{"spec": {"a": 1}}'), decode('{"spec": {"a": 1}}')
    assert first == {"spec": {"a": 1}}
    assert second is first
    assert decode('{"spec": {"a": 2}}') == {"spec": {"a": 2}}


def test_namespaces_and_clusters_share_no_template() -> None:
    found = [decode('{"b": 1}'), decode('{"b": 1}', namespace="other"), decode('{"b": 1}', cluster="ws")]
    assert len({id(one) for one in found}) == 3


def test_a_large_template_is_decoded_each_time() -> None:
    text = '{"a": "%s"}' % ("x" * MAX_TEMPLATE_BYTES)
    first = decode(text)
    assert first == decode(text)
    assert first is not decode(text)
    assert find_template(first) is None


def test_a_template_with_an_error_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(msgspec.DecodeError):
            decode('{"a": }')


def test_checks_are_kept_with_their_template() -> None:
    check = object()
    found = find_template(decode('{"c": 1}'))
    assert found is not None
    assert check not in found.passed
    found.add(check)
    again = find_template(decode('{"c": 1}'))
    assert again is not None
    assert check in again.passed
    other = find_template(decode('{"c": 2}'))
    assert other is not None
    assert check not in other.passed


def test_an_equal_object_that_nobody_cached_is_not_found() -> None:
    assert find_template(decode('{"d": 1}')) is not None
    assert find_template({"d": 1}) is None
    assert find_template("text") is None


def test_old_checks_make_room_for_new_ones() -> None:
    found = find_template(decode('{"e": 1}'))
    assert found is not None
    checks = [object() for _ in range(100)]
    for check in checks:
        found.add(check)
        assert check in found.passed
        assert len(found.passed) <= 8


def test_the_number_of_templates_is_bounded() -> None:
    found = decode('{"f": 0}')
    assert find_template(found) is not None
    for number in range(MAX_TEMPLATES):
        decode(f'{{"g": {number}}}')
    gc.collect()
    assert find_template(found) is None
