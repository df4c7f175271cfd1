from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.patch import PatchError, apply, identical

HERE = Path(__file__).parent
RFC = yaml.safe_load((HERE / "json_patch_rfc6902.yaml").read_text())
KUBERNETES = yaml.safe_load((HERE / "json_patch_kubernetes.yaml").read_text())


@pytest.mark.parametrize("case", RFC, ids=[case["id"] for case in RFC])
def test_rfc6902(case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(PatchError) as caught:
            apply(case["document"], case["patch"])
        assert case["error"] in str(caught.value)
    else:
        assert identical(apply(case["document"], case["patch"]), case["result"])


@pytest.mark.parametrize("case", KUBERNETES["cases"], ids=[case["id"] for case in KUBERNETES["cases"]])
def test_kubernetes_dialect(case: dict[str, Any]) -> None:
    document = KUBERNETES["document"]
    if "errorContains" in case:
        with pytest.raises(PatchError) as caught:
            apply(document, case["patch"], dialect="kubernetes")
        assert case["errorContains"] in str(caught.value)
        return
    expected = dict(document)
    for pointer, value in case.get("result", {}).items():
        *parents, last = pointer.split("/")[1:]
        target = expected
        for name in parents:
            target[name] = dict(target[name])
            target = target[name]
        target[last] = value
    expected = case.get("root", expected)
    assert identical(apply(document, case["patch"], dialect="kubernetes"), expected)
