"""The cache of decoded pod templates."""

import gc
import json
from typing import Any

import msgspec
import pytest

from app.model.template_cache import MAX_TEMPLATE_BYTES, MAX_TEMPLATES, decode_template, find_template

TEMPLATE = {"spec": {"containers": [{"name": "app", "image": "nginx"}]}}


def decode(value: Any, *, cluster: str = "", namespace: str = "default", spaces: int = 0) -> Any:
    text = json.dumps(value).encode() + b" " * spaces
    return decode_template(msgspec.Raw(text), cluster=cluster, namespace=namespace)


def test_equal_templates_are_decoded_once() -> None:
    assert decode(TEMPLATE) == TEMPLATE
    assert decode(TEMPLATE) is decode(TEMPLATE)


@pytest.mark.parametrize("owner", [{"namespace": "other"}, {"cluster": "ws1"}])
def test_namespaces_and_clusters_share_no_template(owner: dict[str, str]) -> None:
    assert decode(TEMPLATE, **owner) == TEMPLATE
    assert decode(TEMPLATE, **owner) is not decode(TEMPLATE)


def test_templates_beyond_the_limit_are_decoded_but_not_cached() -> None:
    size = len(json.dumps(TEMPLATE))
    fits, large = (decode(TEMPLATE, spaces=MAX_TEMPLATE_BYTES - size + more) for more in (0, 1))
    assert fits == large == TEMPLATE
    assert find_template(fits) is not None
    assert find_template(large) is None


def test_only_the_decoded_template_itself_is_found() -> None:
    decoded = decode(TEMPLATE)
    found = find_template(decoded)
    assert found is not None
    assert found.value is decoded
    assert find_template(dict(decoded)) is None
    assert find_template(None) is None


def test_a_template_remembers_the_latest_checks() -> None:
    found = find_template(decode({"spec": {"of": "checks"}}))
    assert found is not None
    for check in range(8):
        found.add(check)
    assert found.passed == set(range(8))
    found.add(8)
    assert found.passed == {8}


def test_the_oldest_template_is_forgotten() -> None:
    first = decode({"spec": {"of": "oldest"}})
    for number in range(MAX_TEMPLATES):
        decode({"spec": {"of": number}})
    gc.collect()
    assert find_template(first) is None
    assert decode({"spec": {"of": "oldest"}}) is not first


@pytest.mark.parametrize("text", [b"{", b"", b'"\xff"'])
def test_text_that_is_no_json_is_an_error_each_time(text: bytes) -> None:
    for _ in range(2):
        with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
            decode_template(msgspec.Raw(text), cluster="", namespace="default")
