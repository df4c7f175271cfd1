from fleethook.cluster.manifests.manifest_reader import read_documents
from fleethook.cluster.manifests.object_findings import check_objects
from fleethook.cluster.manifests.yaml_reader import Document

TEXT = """
apiVersion: v1
kind: Namespace
metadata:
  name: a
spec: {finalizer: []}
statuses: {}
"""


def test_findings_have_the_lines_of_their_fields() -> None:
    found = check_objects(read_documents(TEXT, source="a.yaml"), {})
    assert [(one.place, one.finding.level, one.text) for one in found] == [
        (
            "a.yaml:6",
            "error",
            "Namespace a: spec.finalizer: is not a field of NamespaceSpec; did you mean finalizers?",
        ),
        ("a.yaml:7", "error", "Namespace a: statuses: is not a field of Namespace; did you mean status?"),
    ]


def test_an_object_of_a_cluster_is_not_checked() -> None:
    (document,) = read_documents(TEXT, source="a.yaml")
    assert list(check_objects([Document(document.object, "cluster", 0)], {})) == []
