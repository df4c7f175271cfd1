"""Dependencies of Kubernetes' own kinds."""

from app.interpret.native import dependencies


def test_dependencies_are_sorted() -> None:
    volumes = [{"configMap": {"name": name}} for name in ("c", "a", "b")] + [{"secret": {"secretName": "s"}}]
    document = {"metadata": {"namespace": "n"}, "spec": {"template": {"spec": {"volumes": volumes}}}}
    assert [one["name"] for one in dependencies.workload(document)] == ["a", "b", "c", "s"]
