from pathlib import Path

from fleethook.cluster.manifests.reloaded_manifests import ManifestSource
from tests.console.visits import make_context


def test_the_state_of_the_manifests_is_the_state_of_the_source(tmp_path: Path) -> None:
    context = make_context()
    assert list(context.parts()) == []
    source = ManifestSource([tmp_path], context.store)
    context = make_context(manifests=source)
    assert [(one.name, one.synced) for one in context.parts()] == [("manifests", False)]
    source.load()
    assert [(one.name, one.synced) for one in context.parts()] == [("manifests", True)]
