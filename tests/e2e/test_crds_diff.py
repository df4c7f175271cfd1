"""``fleethook crds diff`` with a real apiserver, and the refusals of `apply` that follow from it."""

import json
from typing import Any

from tests.e2e.cluster import CRDS, Api
from tests.e2e.test_crds_apply import Release, administrator, release, run

__all__ = ["administrator", "release", "run"]  # fixtures


def changes(result: Any, names: list[str]) -> dict[str, Any]:
    """Return the changes of CRDs by name, without CRDs of other tests."""
    return {one["name"]: one for one in json.loads(result.stdout) if one["name"] in names}


def test_a_server_is_compared_by_crd_and_version(run: Any, release: Release) -> None:
    added = changes(run("diff", release.members(), "-o", "json", code=1), release.names)
    assert {name: one["change"] for name, one in added.items()} == dict.fromkeys(release.names, "added")
    run("apply", release.members())
    # Members that the server adds are no difference.
    assert changes(run("diff", release.members(), "-o", "json", code=None), release.names) == {}
    upgraded = release.members("v1alpha1", "v1alpha2", "v1beta1")
    found = changes(run("diff", upgraded, "-o", "json", code=1), release.names)
    assert list(found) == [release.bindings]
    versions = [(one["name"], one["change"], one["fields"]) for one in found[release.bindings]["versions"]]
    assert versions == [("v1alpha2", "changed", ["storage"]), ("v1beta1", "added", [])]


def test_a_stored_version_is_not_dropped(run: Any, admin: Api, release: Release) -> None:
    run("apply", release.members("v1alpha1", "v1alpha2"))
    before = admin[f"{CRDS}/{release.bindings}"]
    dropping = release.members("v1alpha1", "v1beta1")
    (found,) = changes(run("diff", dropping, "-o", "json", code=1), release.names).values()
    assert found["lost"] == ["v1alpha2"]
    refused = run("apply", dropping, code=24).stderr
    assert f"objects may be stored in versions that the tarball does not have ({release.bindings}: v1alpha2)" in refused
    assert "or give --force" in refused
    # The server decides, and keeps the version as long as its status names it.
    forced = run("apply", dropping, "--force", code=21).stderr
    assert "status.storedVersions" in forced
    assert admin[f"{CRDS}/{release.bindings}"]["spec"]["versions"] == before["spec"]["versions"]


def test_a_crd_missing_in_the_release_is_reported_and_stays(run: Any, admin: Api, release: Release) -> None:
    run("apply", release.members())
    gone = "crds/bases/work/works.yaml"
    less = {name: body for name, body in release.members().items() if name != gone}
    found = changes(run("diff", less, "-o", "json", code=1), release.names)
    assert {name: one["change"] for name, one in found.items()} == {release.names[4]: "removed"}
    run("apply", less)
    assert admin[f"{CRDS}/{release.names[4]}"]
