"""Scalars as keys and with tags; tests/conformance/test_kubectl_yaml.py compares plain ones with kubectl."""

from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from fleethook.cli.output.text_output import write_document
from fleethook.cluster.manifests.yaml_decoding_and_lines import read_values
from fleethook.cluster.manifests.yaml_scalars import PLAIN, NoAliasDumper, read_key, read_scalar, yaml_text
from fleethook.console.page_frame import dump_yaml
from fleethook.engines.interpret.pages.playground import write_yaml
from fleethook.model.formats.text import is_inert
from tests.conformance.test_kubectl_yaml import CASES, HEAD
from tests.model.formats.test_text import HOSTILE

TAG = "tag:yaml.org,2002:"


@pytest.mark.parametrize(
    ("tag", "text", "value"),
    [
        (PLAIN, "y", True), (PLAIN, "N", False), (PLAIN, "1e1", 10), (PLAIN, "0o17", 15), (PLAIN, "012", 10), (PLAIN, "08", 8),
        (PLAIN, "1_000", 1000), (PLAIN, "~", None), (PLAIN, "2001-12-14", "2001-12-14"), (PLAIN, "=", "="), (PLAIN, "1.5", 1.5),
        (PLAIN, "1e999", "1e999"), (PLAIN, "9" * 5_000, "9" * 5_000), (PLAIN, str(2**64), 2.0**64), (PLAIN, "0x1" + "0" * 99, "0x1" + "0" * 99),
        (f"{TAG}str", "y", "y"), ("!vault", "1", "1"),
    ],
)  # fmt: skip
def test_scalars_have_the_type_of_their_text_or_tag(tag: str, text: str, value: object) -> None:
    found = read_scalar(tag, text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("tag", "text", "reason"),
    [
        (PLAIN, ".inf", "inf is not a number that JSON has"), (PLAIN, ".nan", "is not a number that JSON has"),
        (f"{TAG}int", "1", "the tag !!int is not supported"), (f"{TAG}binary", "aGk=", "the tag !!binary is not supported"),
    ],
)  # fmt: skip
def test_scalars_without_a_json_value_are_errors(tag: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_scalar(tag, text)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a", "a"), ("y", "true"), ("off", "false"), ("0x10", "16"), ("9000", "9000"),
    ],
)  # fmt: skip
def test_keys_are_the_texts_that_kubectl_writes(text: str, key: str) -> None:
    assert read_key(PLAIN, text) == key
    assert read_key(f"{TAG}str", text) == text


@pytest.mark.parametrize("text", ["null", "~", "", "1.5", ".inf", str(2**63)])
def test_other_keys_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match="put it into quotation marks"):
        read_key(PLAIN, text)


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
