from pathlib import Path

from app.store.sources.manifests import ManifestSource
from tests.console.visits import console_of, make_context, visit


async def test_the_overview_shows_sources_counts_and_the_equivalent_command(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("kind: [")
    source = ManifestSource(tmp_path, make_context().store)
    source.load()
    app = console_of(manifests=source, command_source="--manifests examples")
    body = (await visit(app, "/")).body.decode()
    assert "<bdi>manifests</bdi>" in body
    assert "failing" in body
    assert "bad.yaml" in body
    assert '<code tabindex="0">fleethook lint --manifests examples</code>' in body
    assert "There are no objects." in body
