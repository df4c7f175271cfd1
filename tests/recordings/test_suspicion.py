"""The search for records that have to be decoded."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.recordings.suspicion import (
    Field,
    Suspicion,
    encode_forms,
    find_bytes,
    parse_field,
    replace_at,
)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("password", Field("*", ("password",))),
        ("/spec/password", Field("", ("spec", "password"))),
        ("Foo:/spec/*/a~1b", Field("Foo", ("spec", "*", "a/b"))),
    ],
)
def test_a_text_names_a_field(text: str, field: Field) -> None:
    assert parse_field(text) == field


@pytest.mark.parametrize("text", ["", "a b", "/*", "/", "Foo:", "Foo:bar", ":/a", "/a~2", "a/b", "Foo Bar:/a"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"names no field|is not a JSON pointer"):
        parse_field(text)


def test_a_star_stands_for_members_and_elements() -> None:
    document = {"spec": {"a": [{"v": 1, "w": 2}, {"v": 3}], "b": 4}}
    assert replace_at(document, ("spec", "*", "*", "v"), lambda _: 0) == {
        "spec": {"a": [{"v": 0, "w": 2}, {"v": 0}], "b": 4}
    }


@given(text=st.binary(max_size=60), needle=st.binary(min_size=1, max_size=3), start=st.integers(0, 70))
def test_bytes_are_found_where_python_finds_them(text: bytes, needle: bytes, start: int) -> None:
    assert find_bytes(text, needle, start) == text.find(needle, start)


@given(before=st.binary(max_size=5), after=st.binary(max_size=5), needle=st.binary(min_size=4, max_size=8))
def test_base64_of_a_text_has_one_of_the_forms_of_its_part(before: bytes, after: bytes, needle: bytes) -> None:
    encoded = base64.b64encode(before + needle + after)
    assert encode_forms(needle)[len(before) % 3] in encoded


@pytest.mark.parametrize(
    ("text", "is_suspect"),
    [
        ('{"kind":"Secret"}', True),
        ('{"kind" : "SecretList"}', True),
        (json.dumps({"annotation": json.dumps({"kind": "Secret"})}), True),
        ("kind: Secret", True),
        (json.dumps("kind:\tSecret"), True),
        ('{"kind":"\\u0053ecret"}', True),
        ('{"kind":"Secre\\u0074"}', True),
        ("{\\u0022kind\\u0022", True),
        ("Secret", True),
        ('{"imagePullSecrets":[]}', False),
        ('{"secretName":"x","kind":"ExternalSecret"}', False),
        ('{"command":"a \\u0026\\u0026 b \\u003c c \\u003E d"}', False),
        ('{"text":"\\u00e9\\u4e2d\\u0001"}', False),
        ("", False),
    ],
)
def test_a_record_with_a_secret_is_suspect(text: str, *, is_suspect: bool) -> None:
    assert Suspicion().find_records(text.encode(), [0]) == ({0} if is_suspect else set())


@given(places=st.sets(st.integers(0, 6)), sizes=st.lists(st.integers(0, 9), min_size=7, max_size=7))
def test_each_suspect_is_found_among_others(places: set[int], sizes: list[int]) -> None:
    texts = [b"." * size + (b'"Secret"' if number in places else b"") + b"\n" for number, size in enumerate(sizes)]
    starts = [sum(map(len, texts[:number])) for number in range(len(texts))]
    assert Suspicion().find_records(b"".join(texts), starts) == places


@pytest.mark.parametrize("field", ["apiToken", "Deployment:/spec/apiToken", "/spec/*/apiToken/*"])
def test_a_record_with_a_named_field_is_suspect(field: str) -> None:
    suspicion = Suspicion([parse_field(field)])
    assert suspicion.find_records(b'{"apiToken":1}', [0]) == {0}
    assert suspicion.find_records(b'{"other":1}', [0]) == set()
    for offset in range(3):
        patch = base64.b64encode(b" " * offset + b'[{"op":"add","path":"/spec/apiToken","value":"x"}]')
        assert suspicion.find_patches(patch, [0]) == {0}
        assert suspicion.find_patches(base64.b64encode(b" " * offset + b'[{"op":"remove"}]'), [0]) == set()
