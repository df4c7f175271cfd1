"""Sources of the CRDs of an instance, case by case (crds_api.yaml)."""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from fleethook.engines.crds.instance.source_and_secrets import TarballSource, select_source
from fleethook.engines.crds.instance.source_validation import aggregate_problems, find_problems
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from fleethook.model.formats.client_config_and_addresses import parse_url

_DATA: Final = yaml.safe_load((Path(__file__).parent / "crds_api.yaml").read_text())


def cases(group: str) -> Any:
    listed = _DATA[group]
    return pytest.mark.parametrize("case", listed, ids=[case.get("id", repr(case.get("url"))) for case in listed])


@cases("cache_key")
def test_an_entry_is_named_by_its_url_and_nothing_else(case: dict[str, Any]) -> None:
    assert TarballSource(case["url"]).key == case["key"]


@cases("default_url")
def test_the_default_is_the_release_of_the_operator(case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(CRDsError, match=f"^{case['error']}") as caught:
            select_source({}, version=case["version"])
        assert caught.value.exit is Exit.USAGE
        return
    url = f"https://github.com/karmada-io/karmada/releases/download/{case['release']}/crds.tar.gz"
    assert select_source({}, version=case["version"]).source == TarballSource(url)


@cases("validation")
def test_findings_equal_those_of_upstream_and_our_additional_ones(case: dict[str, Any]) -> None:
    found = list(find_problems({"spec": case["spec"]}))
    if "upstream" in case:
        assert aggregate_problems(found) == case["upstream"]
    else:
        assert [f"{field}: {text}" for field, text in found] == case.get("problems", [])


@cases("request_uri")
def test_urls_are_read_as_by_go(case: dict[str, Any]) -> None:
    if case["ok"]:
        parse_url(case["url"])
    else:
        with pytest.raises(ValueError, match=r"."):
            parse_url(case["url"])
