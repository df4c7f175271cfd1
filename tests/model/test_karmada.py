from fleethook.model.karmada import Operation, operation_named, proposed_name


def test_operations_are_found_by_both_names() -> None:
    for operation in Operation:
        assert operation_named(operation.value) is operation
        assert operation_named(proposed_name(operation)) is operation
    assert operation_named("Explore") is None
