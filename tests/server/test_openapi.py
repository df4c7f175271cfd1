"""Requests that schemathesis makes from /openapi.json, to every route of a real server."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from fleethook.app import create_app
from fleethook.settings import Settings
from tests.hypothesis_profiles import examples
from tests.serving import Server, serving

# Hypothesis' own warnings and those of requests are not the server's.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

DOCUMENT: dict[str, Any] = create_app(Settings(), log=None).openapi()
OPERATIONS = [
    (method, path, mode)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
    for mode in ("positive", "negative")
    # A request without parameters and body cannot be wrong.
    if mode == "positive" or "parameters" in operation or "requestBody" in operation
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("openapi"), FLEETHOOK_LOG_REVIEWS="false") as started:
        yield started


@pytest.fixture(scope="module")
def described(server: Server) -> Any:
    import schemathesis  # noqa: PLC0415 - its import takes longer than most tests

    schema = schemathesis.openapi.from_dict(DOCUMENT)
    schema.config.update(base_url=f"https://localhost:{server.port}", tls_verify=str(server.authority))
    return schema


@pytest.mark.parametrize(("method", "path", "mode"), OPERATIONS)
def test_every_answer_conforms_to_openapi(described: Any, method: str, path: str, mode: str) -> None:
    """Requests conform to the description, or deliberately do not."""
    from schemathesis import checks  # noqa: PLC0415 - see above
    from schemathesis.generation import GenerationMode  # noqa: PLC0415 - see above
    from schemathesis.specs.openapi import checks as openapi  # noqa: PLC0415 - see above

    expected = [
        checks.not_a_server_error,
        openapi.status_code_conformance,
        openapi.content_type_conformance,
        openapi.response_headers_conformance,
        openapi.response_schema_conformance,
    ]
    operation = described[path][method.upper()]

    @settings(
        max_examples=examples(15),
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=GenerationMode(mode)))
    def ask(case: Any) -> None:
        case.call_and_validate(checks=expected)

    ask()


def test_every_path_parameter_is_defined() -> None:
    for path, operations in DOCUMENT["paths"].items():
        named = {part[1:-1] for part in path.split("/") if part.startswith("{")}
        for operation in operations.values():
            defined = {found["name"] for found in operation.get("parameters", []) if found["in"] == "path"}
            assert defined == named, path
