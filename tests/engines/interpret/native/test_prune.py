"""Members that a member cluster does not get."""

from fleethook.engines.interpret.native import prune


def test_prune_removes_both_of_two_adjacent_tokens() -> None:
    secrets = [{"name": "sa-token-a"}, {"name": "sa-token-b"}, {"name": "mine"}]
    document = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa"}, "secrets": secrets}
    assert prune.prune(document)["secrets"] == [{"name": "mine"}]


def test_prune_compares_group_and_kind() -> None:
    labels = {"job-name": "x", "controller-uid": "y"}
    template = {"metadata": {"labels": labels}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": {"template": template}}
    assert prune.prune(job)["spec"]["template"]["metadata"]["labels"] == {}
    other = {**job, "apiVersion": "batch.volcano.sh/v1alpha1"}
    assert prune.prune(other)["spec"]["template"]["metadata"]["labels"] == labels
