import msgspec
import pytest

from fleethook.cli.output.report import ObjectRow, count_levels, describe_object

ROW = ObjectRow("error", "lost", "", "YurtAppSet", "shop", "web")


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (ROW, "YurtAppSet shop/web"),
        (msgspec.structs.replace(ROW, namespace=""), "YurtAppSet web"),
        (msgspec.structs.replace(ROW, cluster="root:org"), "YurtAppSet shop/web of root:org"),
    ],
)
def test_a_row_names_its_object(row: ObjectRow, text: str) -> None:
    assert describe_object(row) == text


@pytest.mark.parametrize(
    ("levels", "text"),
    [
        ([], "0 errors, 0 warnings"),
        (["error"], "1 error, 0 warnings"),
        (["warning", "note", "warning", "error", "error"], "2 errors, 2 warnings"),
    ],
)
def test_notes_are_neither_errors_nor_warnings(levels: list[str], text: str) -> None:
    assert count_levels([msgspec.structs.replace(ROW, level=level) for level in levels]) == text
