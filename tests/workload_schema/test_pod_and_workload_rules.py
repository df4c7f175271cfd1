"""Rules about pods; tests/conformance/workload_rules.yaml has one row or more for each rule."""

from fleethook.workload_schema import check_workload
from fleethook.workload_schema.pool_value_marks import POOL_MARK
from tests.workload_rules import make_workload


def test_the_mark_of_a_pool_is_valid_where_a_name_is() -> None:
    mounted = {"name": f"data-{POOL_MARK}", "emptyDir": {}}
    row = {
        "set": {
            "$pod/volumes": [mounted],
            "$app/volumeMounts": [{"name": mounted["name"], "mountPath": f"/{POOL_MARK}", "subPath": POOL_MARK}],
            "$app/env": [{"name": f"A_{POOL_MARK}", "value": POOL_MARK}],
            "$pod/nodeSelector": {f"example.com/{POOL_MARK}": POOL_MARK},
            "$pod/tolerations": [{"key": POOL_MARK, "value": POOL_MARK}],
            "/spec/template/metadata/annotations": {f"example.com/{POOL_MARK}": POOL_MARK},
        }
    }
    assert check_workload(make_workload(row), "Deployment") == []
