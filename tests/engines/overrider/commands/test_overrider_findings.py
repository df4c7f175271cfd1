from fleethook.cli.output.findings_output import FindingRow
from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.engines.overrider.commands.overrider_findings import lint_overriders
from tests.builders import entry, image, overrider, store_of, yurt_app_set


def test_a_row_names_the_object_and_the_field() -> None:
    objects = yurt_app_set(), overrider(entry("*", items=[image("nginx", "A:1")]))
    documents = [Document(one, "f.yaml", 7) for one in objects]

    (row,) = [one for one in lint_overriders(documents, store_of(*objects), None) if one.code == "image"]

    assert row == FindingRow(
        level="error", code="image", cluster="", kind="YurtAppOverrider", namespace="default", name="demo1",
        webhook="", field="entries[0].items[0].image.imageClaim", text=row.text, place="f.yaml:7",
    )  # fmt: skip
