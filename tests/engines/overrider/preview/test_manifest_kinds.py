"""Tests of manifests that misspell a kind or a version of OpenYurt."""

import pytest

from fleethook.engines.overrider.preview.manifest_kinds import check_kind


@pytest.mark.parametrize(
    ("api_version", "kind", "field", "message"),
    [
        (
            "apps.openyurt.io/v1alpha1",
            "YurtAppOverider",
            "kind",
            "apps.openyurt.io has no kind 'YurtAppOverider'; did you mean YurtAppOverrider?",
        ),
        (
            "apps.openyurt.io/v2",
            "YurtAppSet",
            "apiVersion",
            "YurtAppSet has no version 'v2'; write apps.openyurt.io/v1alpha1 or apps.openyurt.io/v1beta1",
        ),
        ("apps/v1", "YurtAppDaemon", "apiVersion", "YurtAppDaemon is in apps.openyurt.io/v1alpha1, not in 'apps/v1'"),
    ],
)
def test_a_misspelled_kind_or_version_is_reported(api_version: str, kind: str, field: str, message: str) -> None:
    finding = check_kind({"apiVersion": api_version, "kind": kind})
    assert finding is not None
    assert (finding.code, finding.field, finding.message) == ("unknown-kind", field, message)


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("apps.openyurt.io/v1alpha1", "YurtAppOverrider"),
        ("apps.openyurt.io/v1beta1", "YurtAppSet"),
        ("apps.openyurt.io/v1beta2", "NodePool"),
        # The other kinds of the group, OpenYurt 1.4 to 1.7.
        ("apps.openyurt.io/v1alpha1", "NodeBucket"),
        ("apps.openyurt.io/v1alpha1", "UnitedDeployment"),
        ("apps.openyurt.io/v1alpha1", "YurtIngress"),
        ("apps.openyurt.io/v1alpha1", "YurtStaticSet"),
        ("apps.openyurt.io/v1alpha1", "Anything"),
        ("karpenter.sh/v1", "NodePool"),
        ("apps/v1", "Deployment"),
    ],
)
def test_other_kinds_are_not_reported(api_version: str, kind: str) -> None:
    assert check_kind({"apiVersion": api_version, "kind": kind}) is None
