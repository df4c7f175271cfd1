from fleethook.console.users.access import LOCAL_USER, OpenAuthorizer
from fleethook.model.openyurt import NODE_POOL


async def test_a_console_on_loopback_permits_everything() -> None:
    authorizer = OpenAuthorizer()
    user = await authorizer.authenticate(None)
    assert user == LOCAL_USER
    assert await authorizer.permits(user, NODE_POOL, "")
    assert not authorizer.needs_credentials
