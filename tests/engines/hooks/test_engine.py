from fleethook.engines.hooks.engine import ENGINE, list_rights


def test_a_leader_may_create_both_configurations_of_rules() -> None:
    rights = list_rights()
    assert [(one.verb, one.resource) for one in rights] == [
        ("create", "mutatingwebhookconfigurations"),
        ("create", "validatingwebhookconfigurations"),
    ]
    assert ENGINE.rights.endswith(":list_rights")
