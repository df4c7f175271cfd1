from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings

from fleethook.cli.output.text_output import write_document
from fleethook.cli.output.yaml_output import NoAliasDumper, yaml_text
from fleethook.cluster.manifests.yaml_reader import read_values
from fleethook.console.yaml_paths import dump_yaml
from fleethook.engines.interpret.pages.playground import write_yaml
from fleethook.model.formats.text import is_inert
from tests.conformance.test_kubectl_yaml import CASES, HEAD
from tests.model.formats.test_text import HOSTILE

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
