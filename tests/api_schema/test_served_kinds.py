"""Kinds and versions that no supported apiserver serves."""

import pytest

from fleethook.api_schema import check_kind, read_definitions
from fleethook.api_schema.served_kinds import load_served
from fleethook.model.json import JSONObject


def named(api_version: str, kind: str, cluster: str = "") -> JSONObject:
    annotations = {"annotations": {"kcp.io/cluster": cluster}} if cluster else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", **annotations}}


def define(group: str, kind: str, *versions: str) -> JSONObject:
    served = [{"name": one, "served": one != "v0"} for one in versions]
    spec = {"group": group, "names": {"kind": kind}, "versions": served}
    return named("apiextensions.k8s.io/v1", "CustomResourceDefinition") | {"spec": spec}


HOOKS = "ValidatingWebhookConfiguration"
REGISTRATION = "admissionregistration.k8s.io"
CUSTOMIZATION = "ResourceInterpreterCustomization"


@pytest.mark.parametrize(
    ("api_version", "kind", "finding"),
    [
        (f"{REGISTRATION}/v1", HOOKS, ""),
        (f"{REGISTRATION}/v1beta1", HOOKS, f"error apiVersion: Kubernetes 1.22 removed {HOOKS} of {REGISTRATION}/v1beta1: write {REGISTRATION}/v1"),
        (f"{REGISTRATION}/v1alpha1", HOOKS, f"error apiVersion: {HOOKS} has no version 'v1alpha1'; write {REGISTRATION}/v1"),
        (f"{REGISTRATION}/v2", HOOKS, f"error apiVersion: {HOOKS} has no version 'v2'; write {REGISTRATION}/v1"),
        (f"{REGISTRATION}/", HOOKS, f"error apiVersion: {HOOKS} has no version ''; write {REGISTRATION}/v1"),
        (f"{REGISTRATION}/v1", "ValidatingWebhookConfig", f"error kind: {REGISTRATION} has no kind 'ValidatingWebhookConfig'; did you mean {HOOKS}?"),
        ("admission.k8s.io/v1", HOOKS, f"error apiVersion: {HOOKS} is in {REGISTRATION}/v1, not in 'admission.k8s.io/v1'"),
        (f"{REGISTRATION}/v1/x", HOOKS, f"error apiVersion: {HOOKS} is in {REGISTRATION}/v1, not in '{REGISTRATION}/v1/x'"),
        ("v1", HOOKS, f"error apiVersion: {HOOKS} is in {REGISTRATION}/v1, not in 'v1'"),
        ("apps/v1", "Deployment", ""),
        ("extensions/v1beta1", "Deployment", "error apiVersion: Kubernetes 1.16 removed Deployment of extensions/v1beta1: write apps/v1"),
        ("apps", "Deployment", "error apiVersion: Deployment is in apps/v1, not in 'apps'"),
        ("apps/v1", "Deploymnet", "error kind: apps has no kind 'Deploymnet'; did you mean Deployment?"),
        ("apps.kruise.io/v1beta1", "StatefulSet", ""),
        ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition", "error apiVersion: Kubernetes 1.22 removed CustomResourceDefinition of apiextensions.k8s.io/v1beta1: write apiextensions.k8s.io/v1"),
        ("policy/v1beta1", "PodSecurityPolicy", "warning kind: policy has no kind 'PodSecurityPolicy' in Kubernetes 1.36"),
        ("scheduling.k8s.io/v1alpha9", "PodGroup", "warning apiVersion: PodGroup has no version 'v1alpha9'; write scheduling.k8s.io/v1alpha2"),
        # Kubernetes 1.31, which is supported, serves this version; 1.36 does not.
        ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", ""),
        ("gateway.networking.k8s.io/v1", "HTTPRoute", ""),
        ("builtin", "LabelTransformer", ""),
        ("apis.kcp.io/v1alpha1", "APIBinding", ""),
        ("apis.kcp.io/v1alpha2", "APIExport", ""),
        ("apis.kcp.io/v1", "APIBinding", "error apiVersion: APIBinding has no version 'v1'; write apis.kcp.io/v1alpha1 or apis.kcp.io/v1alpha2"),
        ("tenancy.kcp.io/v1alpha1", "WorkspaceType", ""),
        ("example.org/v1", "Workspace", ""),
        ("config.karmada.io/v1beta1", CUSTOMIZATION, f"error apiVersion: {CUSTOMIZATION} has no version 'v1beta1'; write config.karmada.io/v1alpha1"),
        ("config.karmada.io/v1alpha1", f"{CUSTOMIZATION}s", f"error kind: config.karmada.io has no kind '{CUSTOMIZATION}s'; did you mean {CUSTOMIZATION}?"),
        ("policy.karmada.io/v1alpha1", CUSTOMIZATION, f"error apiVersion: {CUSTOMIZATION} is in config.karmada.io/v1alpha1, not in 'policy.karmada.io/v1alpha1'"),
        ("apps.openyurt.io/v1beta1", "YurtAppOverrider", "error apiVersion: YurtAppOverrider has no version 'v1beta1'; write apps.openyurt.io/v1alpha1"),
        ("apps.openyurt.io/v1beta1", "YurtStaticSet", "error apiVersion: YurtStaticSet has no version 'v1beta1'; write apps.openyurt.io/v1alpha1"),
        ("apps.openyurt.io/v1alpha1", "YurtIngress", ""),
        ("karpenter.sh/v1", "NodePool", ""),
    ],
)  # fmt: skip
def test_an_unserved_kind_or_version_is_a_finding(api_version: str, kind: str, finding: str) -> None:
    found = check_kind(named(api_version, kind))
    assert (f"{found.level} {found.field}: {found.message}" if found else "") == finding


def test_definitions_of_the_files_decide_about_their_kind_in_their_cluster() -> None:
    sets = define("apps.openyurt.io", "YurtAppSet", "v0", "v1", "v2")
    definitions = read_definitions([sets, define("example.org", "Widget", "v1")])
    assert check_kind(named("apps.openyurt.io/v1", "YurtAppSet"), definitions) is None
    for version in ("v0", "v1beta1"):
        found = check_kind(named(f"apps.openyurt.io/{version}", "YurtAppSet"), definitions)
        assert found is not None
        text = f"YurtAppSet has no version '{version}'; write apps.openyurt.io/v1 or apps.openyurt.io/v2"
        assert found.message == text
    assert check_kind(named("apps.openyurt.io/v1", "YurtAppSet", cluster="other"), definitions) is not None
    assert check_kind(named("example.org/v2", "Widget"), definitions) is not None


def test_each_named_schema_exists() -> None:
    served = load_served()
    names = {name for versions in served.names.values() for name in versions.values()} - {""}
    assert len(names) > 100
    assert names <= served.definitions.keys()
