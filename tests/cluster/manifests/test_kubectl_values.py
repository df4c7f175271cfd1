"""Scalars as keys and with tags; tests/conformance/test_kubectl_yaml.py compares plain ones with kubectl."""

import math
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from fleethook.cli.output.text_output import write_document
from fleethook.cluster.manifests.kubectl_values import (
    PLAIN,
    NoAliasDumper,
    make_number,
    read_key,
    read_scalar,
    scan_json,
    yaml_text,
)
from fleethook.cluster.manifests.yaml_reader import read_values
from fleethook.console.yaml_paths import dump_yaml
from fleethook.engines.interpret.pages.playground import write_yaml
from fleethook.model.formats.text import is_inert
from tests.conformance.test_kubectl_yaml import CASES, HEAD
from tests.model.formats.test_text import HOSTILE


def test_values_have_their_positions() -> None:
    stream = scan_json(' {"a": [1, 2.5]}\n\ntrue null{"b": 1, "b": 2} ')
    assert [(one.value, one.start, one.end, one.has_duplicates) for one in stream.parts] == [
        ({"a": [1, 2.5]}, 1, 16, False), (True, 18, 22, False), (None, 23, 27, False), (None, 27, 43, True),
    ]  # fmt: skip
    assert (stream.error, stream.is_json) == ("", True)


@pytest.mark.parametrize(
    ("text", "is_json"),
    [("", True), ("{} {}", True), ("{x", False), ("{} x", False), ("{} {} x", True), ("{}\n---\n{}", False)],
)
def test_two_values_make_a_stream(text: str, is_json: bool) -> None:
    assert scan_json(text).is_json is is_json


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("NaN", "'NaN' is not a number that JSON has"), ("-Infinity", "is not a number that JSON has"), ("1e999", "'1e999' is too large a number"),
        ("1" * 5000, "an integer is too large"), ("[" * 100_000, "is nested too deep"), ('"a', "unterminated string"), ('"\n"', "invalid control character"),
    ],
)  # fmt: skip
def test_other_values_are_errors_and_the_former_values_stay(value: str, reason: str) -> None:
    stream = scan_json(f'{{}} {{}} {{"a": {value}}}')
    assert len(stream.parts) == 2
    assert reason in stream.error
    assert 6 <= stream.position < 16


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        (2**63 - 1, 2**63 - 1), (-(2**63), -(2**63)), (2**63, 2.0**63), (2**64 - 1, 2.0**64), (-(2**63) - 1, -(2.0**63)),
        (1.0, 1), (1e3, 1000), (1.5, 1.5), (1e20, 1e20), (-0.0, 0),
    ],
)  # fmt: skip
def test_numbers_are_those_that_kubectl_sends(number: float, kept: float) -> None:
    assert (make_number(number), type(make_number(number))) == (kept, type(kept))
    (part,) = scan_json(repr(number)).parts
    assert (part.value, type(part.value)) == (kept, type(kept))


TAG = "tag:yaml.org,2002:"


@pytest.mark.parametrize(
    ("tag", "text", "value"),
    [
        (PLAIN, "y", True), (PLAIN, "N", False), (PLAIN, "1e1", 10), (PLAIN, "0o17", 15), (PLAIN, "012", 10), (PLAIN, "08", 8),
        (PLAIN, "1_000", 1000), (PLAIN, "~", None), (PLAIN, "2001-12-14", "2001-12-14"), (PLAIN, "=", "="), (PLAIN, "1.5", 1.5),
        (PLAIN, "1e999", "1e999"), (PLAIN, "9" * 5_000, "9" * 5_000), (PLAIN, str(2**64), 2.0**64), (PLAIN, "0x1" + "0" * 99, "0x1" + "0" * 99),
        (f"{TAG}str", "y", "y"), (f"{TAG}bool", "N", False), (f"{TAG}float", "1", 1), (f"{TAG}int", "0x10", 16), (f"{TAG}null", "", None),
        (f"{TAG}binary", "aGk=", "hi"), (f"{TAG}timestamp", "2001-12-14", "2001-12-14"), (f"{TAG}python/none", "x", "x"), ("!vault", "1", "1"),
    ],
)  # fmt: skip
def test_scalars_have_the_type_of_their_text_or_tag(tag: str, text: str, value: object) -> None:
    found = read_scalar(tag, text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("tag", "text", "reason"),
    [
        (PLAIN, ".inf", "'.inf' is not a number that JSON has"), (PLAIN, ".nan", "is not a number that JSON has"),
        (f"{TAG}int", "a", "'a' is no !!int"), (f"{TAG}bool", "1", "'1' is no !!bool"), (f"{TAG}null", "a", "is no !!null"),
        (f"{TAG}timestamp", "a", "is no !!timestamp"), (f"{TAG}binary", "!", "invalid base64"),
    ],
)  # fmt: skip
def test_scalars_without_a_json_value_are_errors(tag: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_scalar(tag, text)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a", "a"), ("y", "true"), ("off", "false"), ("0x10", "16"), ("1.0", "1"), ("1e1", "10"), ("1.10", "1.1"), ("0.1", "0.1"), ("-0.0", "-0"),
        ("16777217.5", "1.6777218e+07"), ("1234567.5", "1.2345675e+06"), ("123456.7", "123456.7"), ("1e-5", "1e-05"), ("0.0001", "0.0001"),
        ("1e21", "1e+21"), ("1e39", ".inf"), ("-.inf", "-.inf"), (".nan", ".nan"),
    ],
)  # fmt: skip
def test_keys_are_the_texts_that_kubectl_writes(text: str, key: str) -> None:
    assert read_key(PLAIN, text) == key
    assert read_key(f"{TAG}str", text) == text


@pytest.mark.parametrize("text", ["null", "~", "", str(2**63)])
def test_keys_that_kubectl_refuses_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match="kubectl takes no key"):
        read_key(PLAIN, text)


def test_a_float_that_is_an_integer_is_one() -> None:
    assert math.copysign(1, read_scalar(PLAIN, "-0.0") or 0) == 1


CAPTURED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@CAPTURED
@given(HOSTILE)
def test_yaml_keeps_and_escapes_untrusted_values(capsys: Any, text: str) -> None:
    if any("\ud800" <= one <= "\udfff" for one in text):
        return  # YAML has no surrogates.
    write_document(yaml_text({text: text}))
    printed = capsys.readouterr().out
    assert yaml.safe_load(printed) == {text: text}
    assert is_inert(printed.replace("\n", ""))


def test_texts_are_read_back_as_texts_by_kubectl_and_other_values_stay() -> None:
    texts = [
        case["text"].removeprefix(HEAD).removeprefix("v: ").strip() for case in CASES if case["text"].startswith(HEAD)
    ]
    value = {"texts": [one for one in texts if is_inert(one)], "others": [1, -5, 1.5, 1e300, True, None, {}, []]}
    for text in (
        yaml_text(value),
        yaml_text(value, dumper=NoAliasDumper),
        dump_yaml(value),
        write_yaml(value),
    ):
        assert read_values(text, source="f")[0].value == value
    assert (
        yaml_text(["y", "1e1", "0o17", "v1", "a b", 1, True]) == "- 'y'\n- '1e1'\n- '0o17'\n- v1\n- a b\n- 1\n- true\n"
    )


def test_yaml_without_control_characters_stays_readable() -> None:
    assert yaml_text({"city": "杭州"}) == "city: 杭州\n"


def test_shared_values_have_anchors_unless_the_dumper_forbids_them() -> None:
    shared = {"a": 1}
    assert "&id001" in yaml_text([shared, shared])
    assert yaml_text([shared, shared], dumper=NoAliasDumper) == "- a: 1\n- a: 1\n"
