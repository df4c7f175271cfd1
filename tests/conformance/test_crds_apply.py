"""CRDs for an instance, compared with the Go operator: content and target of patches, name of the webhook."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.engines.crds.archive.names_content_limits import Tree, YAMLBudget, read_object
from fleethook.engines.crds.archive.patches_and_ca import build_patches, build_values, substitute, webhook_name
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError

CASES = yaml.safe_load((Path(__file__).parent / "crds_apply.yaml").read_text())


def outcome(case: dict[str, Any]) -> Any:
    try:
        text = substitute("patch.yaml", case["content"], case["replacements"])
    except CRDsError as error:
        return f"{error.exit.name}: {error}"
    return read_object("patch.yaml", text.encode(), YAMLBudget())


@pytest.mark.parametrize("case", CASES["patch_template"], ids=lambda case: case["id"])
def test_a_patch(case: dict[str, Any]) -> None:
    assert outcome(case) == case.get("ours", case.get("want"))


@pytest.mark.parametrize("case", CASES["patch_target_name"], ids=lambda case: case["file"])
def test_the_crd_that_a_patch_is_for(case: dict[str, str]) -> None:
    path = f"crds/patches/{case['file']}"
    (patch,) = build_patches(Tree({case["crd"]: {}}, {path: "spec: {}"}), {})
    assert patch.crd == case["crd"]


@pytest.mark.parametrize("case", CASES["webhook_name"], ids=lambda case: case["karmada"])
def test_the_webhook_of_an_instance(case: dict[str, str]) -> None:
    assert webhook_name(case["karmada"]) == case["webhook"]
    assert build_values(name=case["karmada"]) == {"{{name}}": case["webhook"]}
