"""Questions of the playground."""

from typing import Any

from fleethook.engines.interpret.pages.playground_answer import PlaygroundQuestion

GAME: dict[str, Any] = {
    "apiVersion": "games.example.com/v1",
    "kind": "Game",
    "metadata": {"name": "chess", "namespace": "default"},
    "spec": {"players": 2},
}


def lua(body: str, operation: str = "InterpretHealth", **members: Any) -> PlaygroundQuestion:
    """Return a question to a Lua function with a body on its second line."""
    code = f"function InterpretHealth(obj)\n{body}\nend\n"
    return PlaygroundQuestion(code, operation, **{"desired": GAME, **members})
