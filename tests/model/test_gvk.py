import pytest

from fleethook.model.gvk import GroupKind, GroupVersionKind, guess_resource, gvk_of, parse_api_version


def test_api_versions_split_into_group_and_version() -> None:
    assert parse_api_version("apps/v1") == ("apps", "v1")
    assert parse_api_version("v1") == ("", "v1")


def test_gvk_of_reads_api_version_and_kind() -> None:
    gvk = gvk_of({"apiVersion": "apps/v1", "kind": "Deployment"})
    assert gvk == GroupVersionKind("apps", "v1", "Deployment")
    assert (gvk.group_kind, gvk.api_version, str(gvk.group_kind)) == (
        GroupKind("apps", "Deployment"), "apps/v1", "Deployment.apps",
    )  # fmt: skip
    assert gvk_of({"apiVersion": "v1", "kind": "Pod"}).api_version == "v1"
    assert str(GroupKind("", "Pod")) == "Pod"


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Gateway", "gateways"), ("Key", "keys"), ("NetworkPolicy", "networkpolicies"), ("Mesh", "meshes"),
        ("Index", "indexes"), ("Ingress", "ingresses"), ("Endpoints", "endpoints"), ("Pod", "pods"),
    ],
)  # fmt: skip
def test_the_plural_of_a_kind(kind: str, plural: str) -> None:
    assert guess_resource(kind) == plural
