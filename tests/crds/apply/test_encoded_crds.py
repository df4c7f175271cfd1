"""Tests of CRDs that are kept as JSON."""

import pytest

from app.crds.apply.encoded_crds import EncodedCRDs


def test_each_access_decodes_a_crd_of_its_own() -> None:
    crds = EncodedCRDs({"b": b'{"spec":{"maximum":123456789012345678901234567890}}', "a": b"{}"})
    assert (list(crds), len(crds)) == (["b", "a"], 2)
    assert crds["b"] == {"spec": {"maximum": 123456789012345678901234567890}}
    assert crds["b"] is not crds["b"]
    with pytest.raises(KeyError):
        crds["c"]
