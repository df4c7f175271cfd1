"""Tests of the table in mistakes.md: each row is a mistake, with its level at admission and in files."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.engines.overrider.rules.findings_in_files import check_documents
from fleethook.engines.overrider.rules.schema_and_binding_rules import check_overrider
from tests.builders import container, entry, overrider, pod_template, store_of, yurt_app_set

TABLE = Path(__file__).with_name("mistakes.md")
SUBJECT = yurt_app_set(template=pod_template(containers=[container("app", "nginx:1.25")]))
GOOD = overrider(entry("*", items=[{"image": {"containerName": "app", "imageClaim": "nginx:1.26"}}]))
WORDS = {"refused": "error", "warning": "warning", "error": "error", "-": None}


class Row(NamedTuple):
    where: str
    written: str
    admission: str
    files: str
    message: str


def rows() -> list[Row]:
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.read_text().splitlines()]
    found = [Row(*row) for row in cells if len(row) == len(Row._fields)]
    return [row._replace(written=row.written.strip("`")) for row in found if row.admission in WORDS]


def document(where: str, written: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, dict[str, Any]] = {
        "overrider": {**GOOD, **written},
        "subject": {**GOOD, "subject": {"kind": "YurtAppSet", "name": "demo", **written}},
        "entry": overrider(written),
        "item": overrider(entry("*", items=[written])),
        "patch": overrider(entry("*", patches=[written])),
        "YurtAppSet": {**SUBJECT, "spec": {**SUBJECT["spec"], **written}},
    }
    return made[where]


def test_the_table_has_rows_of_each_object() -> None:
    found = rows()
    assert {row.where for row in found} == {"overrider", "subject", "entry", "item", "patch", "YurtAppSet"}
    assert len(found) > 50


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.where} {row.written}")
def test_a_row_of_the_table_is_right(row: Row) -> None:
    made = document(row.where, yaml.safe_load(row.written))
    others = [] if row.where == "YurtAppSet" else [SUBJECT]
    store = store_of(*others, made)
    namespace = made["metadata"].get("namespace", "")
    in_files = check_documents([Document(one, "f.yaml", 1) for one in (*others, made)], store)
    assert {one.finding.text: one.level for one in in_files}.get(row.message) == WORDS[row.files]
    if WORDS[row.admission] is not None:
        found = check_overrider(made, cluster="", namespace=namespace, store=store)
        assert {one.text: one.level for one in found}.get(row.message) == WORDS[row.admission]


def test_a_good_overrider_has_no_finding() -> None:
    assert check_documents([Document(one, "f.yaml", 1) for one in (SUBJECT, GOOD)], store_of(SUBJECT, GOOD)) == []
