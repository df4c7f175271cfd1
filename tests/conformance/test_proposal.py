from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.manifests.manifest_files import read_documents
from fleethook.cluster.store import key_of
from fleethook.model.openyurt import YURT_APP_OVERRIDER
from tests.builders import request, store_of, validate_overrider

HERE = Path(__file__).parent
EXAMPLES = HERE.parent.parent / "examples"


def read(path: Path) -> list[dict[str, Any]]:
    return [document.object for document in read_documents(path.read_text(), source=path.name)]


AS_WRITTEN = {made["metadata"]["name"]: made for made in read(HERE / "proposal_as_written.yaml")}
EXAMPLE_OBJECTS = [made for path in sorted((EXAMPLES / "yurtappoverrider").rglob("*.yaml")) for made in read(path)]


@pytest.mark.parametrize(
    ("story", "field", "meant"),
    [
        ("story-2", "entries[0].pools", "each pool takes a dash: - beijing, - hangzhou"),
        ("story-2", "entries[1].pools", "each pool takes a dash: - shanghai"),
        ("story-2", "subject.nameSpace", "a subject is always in the namespace of its overrider; remove it"),
        ("story-3", "entries[0].pools", "each pool takes a dash: - hangzhou"),
        ("story-4", "entries[0].pools", "each pool takes a dash: - hangzhou"),
        ("story-5", "entries[1].patches[1].path", "to append, use operation add"),
        ("story-5", "entries[2].patches[1].path", "to append, use operation add"),
    ],
)
def test_the_stories_as_written_are_refused_with_a_suggestion(story: str, field: str, meant: str) -> None:
    answer = validate_overrider(request(AS_WRITTEN[story]), store=store_of())
    assert not answer.allowed
    assert meant in {cause.field: cause.message for cause in answer.causes}[field]


@pytest.mark.parametrize(
    "example",
    [made for made in EXAMPLE_OBJECTS if key_of(made).group_kind == YURT_APP_OVERRIDER],
    ids=lambda made: f"{made['metadata']['namespace']}/{made['metadata']['name']}",
)
def test_the_corrected_stories_are_admitted_without_a_warning(example: dict[str, Any]) -> None:
    namespace = example["metadata"]["namespace"]
    answer = validate_overrider(request(example, namespace=namespace), store=store_of(*EXAMPLE_OBJECTS))
    # Stories 1 and 2 set replicas as the proposal does, which conflicts with OpenYurt 1.4.
    warnings = [one for one in answer.warnings if "replicas differ from spec.topology.pools" not in one]
    assert (answer.allowed, warnings, answer.message) == (True, [], "")
