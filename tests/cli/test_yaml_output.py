from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings

from app.cli.terminal import write_document
from app.cli.yaml_output import NoAliasDumper, yaml_text
from app.crds.apply.yaml_text import dump
from app.model.text import is_inert
from tests.model.test_text import HOSTILE

CAPTURED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@CAPTURED
@given(HOSTILE)
def test_yaml_keeps_and_escapes_untrusted_values(capsys: Any, text: str) -> None:
    if any("\ud800" <= one <= "\udfff" for one in text):
        return  # YAML has no surrogates.
    for document in (yaml_text({text: text}), dump([{text: text}])):
        write_document(document)
        printed = capsys.readouterr().out
        assert yaml.safe_load(printed) == {text: text}
        assert is_inert(printed.replace("\n", ""))


def test_yaml_without_control_characters_stays_readable() -> None:
    assert yaml_text({"city": "杭州"}) == "city: 杭州\n"


def test_shared_values_have_anchors_unless_the_dumper_forbids_them() -> None:
    shared = {"a": 1}
    assert "&id001" in yaml_text([shared, shared])
    assert yaml_text([shared, shared], dumper=NoAliasDumper) == "- a: 1\n- a: 1\n"
