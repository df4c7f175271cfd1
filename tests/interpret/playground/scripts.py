"""Questions of the playground, and the customizations and interpreters of the examples as such questions."""

from typing import Any

from app.interpret.playground.question import PlaygroundQuestion

GAME: dict[str, Any] = {
    "apiVersion": "games.example.com/v1",
    "kind": "Game",
    "metadata": {"name": "chess", "namespace": "default"},
    "spec": {"players": 2},
}
HEADER = (
    "from fleethook.interpret import interpreter\n\n"
    'game = interpreter("games.example.com/v1", "Game")\n\n\n'
    "@game.healthy\ndef healthy(observed):\n"
)
FIRST_LINE = 8
"""The first line of the body of `python`."""


def lua(body: str, operation: str = "InterpretHealth", **members: Any) -> PlaygroundQuestion:
    """Return a question to a Lua function with a body on its second line."""
    code = f"function InterpretHealth(obj)\n{body}\nend\n"
    return PlaygroundQuestion("lua", code, operation, **{"desired": GAME, **members})


def python(*lines: str) -> PlaygroundQuestion:
    """Return a question to a Python function."""
    body = "".join(f"    {line}\n" for line in lines)
    return PlaygroundQuestion("python", HEADER + body, "InterpretHealth", desired=GAME)
