from app.dispatch.cel.protobuf_types import build_checked_pool, get_message_type, qualify_name


def test_the_type_checker_knows_the_members_of_requests() -> None:
    pool = build_checked_pool()
    request = pool.FindMessageTypeByName("kubernetes.AdmissionRequest")

    assert {"operation", "userInfo", "subResource"} <= set(request.fields_by_name)
    assert "object" not in request.fields_by_name
    assert request.fields_by_name["userInfo"].message_type.full_name == "kubernetes.UserInfo"
    assert request.fields_by_name["userInfo"].message_type.fields_by_name["groups"].is_repeated


def test_expressions_cannot_read_the_value_of_a_quantity() -> None:
    checked = build_checked_pool().FindMessageTypeByName("kubernetes.Quantity")

    assert list(checked.fields_by_name) == []
    assert get_message_type("Quantity")(nanos="7").SerializeToString()


def test_addresses_are_outside_kubernetes_package() -> None:
    assert qualify_name("net.IP") == "net.IP"
    assert qualify_name("URL") == "kubernetes.URL"
