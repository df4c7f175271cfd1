"""Dependencies of Kubernetes' own kinds."""

from typing import Any

from fleethook.engines.interpret.native import dependencies


def test_dependencies_are_sorted() -> None:
    volumes = [{"configMap": {"name": name}} for name in ("c", "a", "b")] + [{"secret": {"secretName": "s"}}]
    document = {"metadata": {"namespace": "n"}, "spec": {"template": {"spec": {"volumes": volumes}}}}
    assert [one["name"] for one in dependencies.workload(document)] == ["a", "b", "c", "s"]


def test_an_ingress_depends_on_the_services_of_its_backends() -> None:
    paths = [{"backend": {"service": {"name": name}}} for name in ("b", "a", "b")]
    resource = {"backend": {"resource": {"apiGroup": "x.org", "kind": "Bucket", "name": "k"}}}
    spec = {
        "tls": [{"secretName": "t"}, {}],
        "defaultBackend": {"service": {"name": "d"}},
        "rules": [{"http": {"paths": [*paths, resource]}}, {"host": "h"}],
    }
    found = dependencies.ingress({"metadata": {"namespace": "n"}, "spec": spec})
    assert [(one["kind"], one["name"]) for one in found] == [
        ("Secret", "t"), ("Service", "a"), ("Service", "b"), ("Service", "d"),
    ]  # fmt: skip


def test_a_persistent_volume_depends_on_the_secrets_of_its_sources() -> None:
    def list_names(source: dict[str, Any], claim: str = "") -> list[tuple[str, str]]:
        found = dependencies.persistent_volume({"spec": {**source, "claimRef": {"namespace": claim}}})
        return [(one["namespace"], one["name"]) for one in found]

    uses = ("controllerPublish", "nodeStage", "nodePublish", "controllerExpand", "nodeExpand")
    csi = {f"{use}SecretRef": {"namespace": "n", "name": use} for use in uses}
    assert list_names({"csi": csi}) == [("n", use) for use in sorted(uses)]
    for source in ("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"):
        assert list_names({source: {"secretRef": {"name": "s"}}}, "claimed") == [("claimed", "s")]
        assert list_names({source: {"secretRef": {"name": "s", "namespace": "own"}}}, "claimed") == [("own", "s")]
    assert list_names({"azureFile": {"secretName": "s", "secretNamespace": "n"}}) == [("n", "s")]
    assert list_names({"azureFile": {"secretName": "s"}}, "claimed") == [("claimed", "s")]
    assert list_names({"azureFile": {"secretName": "s"}}) == list_names({"hostPath": {"path": "/p"}}) == []
