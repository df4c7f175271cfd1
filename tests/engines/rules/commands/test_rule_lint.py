from pathlib import Path

import pytest

from fleethook.cluster.manifests.manifest_files import read_python
from fleethook.cluster.store import Store
from fleethook.engines.rules.commands.rule_lint import CODES, lint_rules


@pytest.mark.parametrize(
    ("decorator", "codes"),
    [
        ('mutate("batch/v1", "Job", on=("CREATE", "UPDATE"))', ["immutable-members"]),
        ('mutate("batch/v1", "*", on="UPDATE")', ["immutable-members"]),
        ('mutate("*/*", "*", on="UPDATE")', ["immutable-members"]),
        ('mutate("batch/v1", "Job")', []),
        ('mutate("apps/v1", "Deployment", on="UPDATE")', []),
        ('mutate("v1", "Pod", on="UPDATE", subresource="status")', []),
        ('validate("batch/v1", "Job", on="UPDATE")', []),
        ('validate("v1", "Pod", namespaces="*")', ["system-pods"]),
        ('validate("v1", "Pod", namespaces="*", failure_policy="Ignore")', []),
        ('validate("v1", "Pod", namespaces=["kube-system", "shop"])', ["system-pods"]),
        ('validate("v1", "Pod")', []),
        ('validate("v1", "Pod", on="CREATE", subresource="binding", namespaces="*")', ["system-pods"]),
        ('validate("v1", "Pod", on="UPDATE", subresource="status", namespaces="*")', ["system-pods"]),
        ('validate("v1", "serviceaccounts", on="CREATE", subresource="token", namespaces="*")', ["system-pods"]),
        ('validate("v1", "Pod", on="UPDATE", subresource="resize", namespaces="*")', []),
        ('validate("*/*", "*", namespaces="*")', ["system-pods"]),
        ('validate("*/*", "*", subresource="*", on="*", namespaces="*")', ["system-pods"]),
        ('validate("v1", "ConfigMap", namespaces="*")', []),
        ('validate("apps/v1", "*")', ["stops-controllers"]),
        ('validate("apps/v1", "*", failure_policy="Ignore")', []),
        ('mutate("apps/v1", "*")', []),
        ('validate("*/*", "deployments")', ["stops-controllers"]),
        # The code stops-control-plane of fleethook.engines.dispatch.lint has these.
        ('validate("*/*", "*")', []),
        ('validate("coordination.k8s.io/v1", "Lease", namespaces="*")', []),
        ('validate("coordination.k8s.io/v1", "Lease")', ["stops-controllers"]),
        ('validate("coordination.k8s.io/v1", "Lease", namespaces="shop")', []),
    ],
)
def test_rules_that_harm_a_cluster_have_warnings(tmp_path: Path, decorator: str, codes: list[str]) -> None:
    file = tmp_path / "rules.py"
    file.write_text(f"from fleethook.admission import mutate, validate\n@{decorator}\ndef a(request): pass\n")
    rows = lint_rules(read_python(file).documents, Store(), None)
    assert [(one.level, one.code, one.name, one.place) for one in rows] == [
        ("warning", code, "a", f"{file}:2") for code in codes
    ]
    assert {*codes} <= CODES.keys()
