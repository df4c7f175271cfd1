from fleethook.model.karmada import OPERATIONS, PATCHING, Operation, operation_named, proposed_name


def test_each_operation_has_one_row() -> None:
    assert [row.operation for row in OPERATIONS] == list(Operation)


def test_operations_are_found_by_both_names() -> None:
    for operation in Operation:
        assert operation_named(operation.value) is operation
        assert operation_named(proposed_name(operation)) is operation
    assert operation_named("Explore") is None


def test_operations_that_change_the_object_respond_with_a_patch() -> None:
    assert {Operation.REVISE_REPLICA, Operation.RETAIN, Operation.AGGREGATE_STATUS, Operation.PRUNE} == PATCHING
