"""Tests mirror `app/`: each module with a function has a test file at the same path."""

import ast
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]

# The modules without a test file of their own, by the reason. Do not add any: write the test file, or move the tests that
# exist under another name. Remove a module from the list when it gets its file.
EXCEPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "tests/api tests these through the application, because they only act together with a connection": (
        "api/call_metrics.py",
        "api/closing.py",
        "api/codec.py",
        "api/metrics.py",
        "api/read_timeout.py",
        "api/review_lines.py",
        "api/routes.py",
    ),
    "the tests/cli/test_crds_*_command.py files run whole commands, which use several of these modules each": (
        "cli/crds_arguments.py",
        "cli/crds_cache.py",
        "cli/crds_controller.py",
        "cli/crds_output.py",
        "cli/crds_process.py",
        "cli/crds_progress.py",
        "cli/crds_release.py",
        "cli/crds_server.py",
    ),
    "tests/cli runs the commands that use these modules, and compares output and exit codes": (
        "cli/server_process.py",
    ),
    "tests/crds/apply/test_apply.py tests these against a server": (
        "crds/apply/api_requests.py",
        "crds/apply/crd_client.py",
        "crds/apply/established.py",
        "crds/apply/instances.py",
        "crds/apply/plan.py",
        "crds/apply/target.py",
    ),
    "tests/crds/archive/test_archive.py and test_tar.py test these by tarballs": (
        "crds/archive/names.py",
        "crds/archive/tree.py",
    ),
    "tests/crds/cache/test_cache.py and test_links.py test these by a cache on disk": (
        "crds/cache/layout.py",
        "crds/cache/locks.py",
        "crds/cache/metadata.py",
        "crds/cache/permissions.py",
        "crds/cache/staging.py",
    ),
    "tests/crds/controller/test_controller.py tests these by a running controller": (
        "crds/controller/applier.py",
        "crds/controller/metrics.py",
        "crds/controller/verifier_process.py",
    ),
    "tests/crds/test_fetch.py, tests/conformance and the tests of the callers test these": (
        "crds/descriptors.py",
        "crds/failures.py",
    ),
    "tests/crds/download/test_download.py tests these by requests to a server": (
        "crds/download/connection.py",
        "crds/download/dial.py",
        "crds/download/errors.py",
        "crds/download/partial.py",
        "crds/download/tls_context.py",
        "crds/download/transfer.py",
    ),
    "tests/crds/instance/test_validation.py and tests/conformance test these": (
        "crds/instance/http_validation.py",
        "crds/instance/source_warnings.py",
    ),
    "tests/crds/provenance/test_verify.py tests these by signed attestations": (
        "crds/provenance/attestation.py",
        "crds/provenance/identity.py",
        "crds/provenance/signature.py",
        "crds/provenance/sigstore_logs.py",
        "crds/provenance/statement.py",
        "crds/provenance/trust_root.py",
    ),
    "tests/conformance/test_builtin_versions.py compares these with kube-apiserver": (
        "dispatch/builtin_conversion/autoscaler_metrics.py",
        "dispatch/builtin_conversion/autoscalers.py",
        "dispatch/builtin_conversion/devices.py",
    ),
    "tests/conformance and tests/dispatch/cel test these by their callers": ("dispatch/cel/errors.py",),
    "tests/conformance/test_interpreter.py and tests/interpret/test_registration.py test these": (
        "interpret/fixtures.py",
        "interpret/layers.py",
        "interpret/registrar.py",
    ),
    "tests/interpret/lua/test_vm.py, test_runner.py and tests/conformance test these by scripts": (
        "interpret/lua/cursor.py",
        "interpret/lua/layer.py",
        "interpret/lua/malloc_trim.py",
        "interpret/lua/refusal_events.py",
    ),
    "tests/conformance and the tests of all engines use these types": (
        "model/crd.py",
        "model/openyurt.py",
    ),
    "tests/conformance/test_overrider.py, test_render_properties.py and the tests of the callers test these": (
        "overrider/converge.py",
        "overrider/outdated_workloads.py",
        "overrider/status_reporter.py",
        "overrider/workload_client.py",
    ),
    "tests/records, tests/cli/test_{replay,diff,explain,render}.py and tests/conformance/test_records.py test these": (
        "cli/diff_output.py",
        "cli/explain_inputs.py",
        "cli/replay_input.py",
        "cli/replay_output.py",
        "overrider/rollout/owner_write.py",
        "records/changes.py",
        "records/describe.py",
        "records/format.py",
        "records/hashing.py",
        "records/metrics.py",
        "records/patches.py",
        "records/quoted_values.py",
        "records/recorded_calls.py",
        "records/setup.py",
    ),
}


def has_behaviour(source: str) -> bool:
    """Return whether a module has a function with a statement, so that it is more than types and constants."""
    functions = (one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    return any(not _is_declaration(statement) for function in functions for statement in function.body)


def _is_declaration(statement: ast.stmt) -> bool:
    """Return whether a statement is a docstring, ``...`` or ``pass``, as in protocols."""
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def find_untested(root: Path = ROOT) -> set[str]:
    """Return the paths below `app/` of the modules with behaviour that have no test file at the mirrored path."""
    modules = (module.relative_to(root / "app") for module in (root / "app").rglob("*.py"))
    return {
        module.as_posix()
        for module in modules
        if module.name not in ("__init__.py", "__main__.py")
        and not (root / "tests" / module.with_name(f"test_{module.name}")).exists()
        and has_behaviour((root / "app" / module).read_text(encoding="utf-8"))
    }


def test_each_module_with_behaviour_has_a_test_file() -> None:
    missing = sorted(find_untested().difference(*EXCEPTIONS.values()))
    assert missing == [], "write tests/PATH/test_MODULE.py for these modules of app/"


def test_each_exception_is_still_needed() -> None:
    listed = [module for modules in EXCEPTIONS.values() for module in modules]
    unneeded = sorted(set(listed) - find_untested())
    assert unneeded == [], "remove these modules from EXCEPTIONS: they have a test file, no behaviour, or are gone"
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def double(number):\n    return 2 * number\n", True),
        ("class One:\n    async def two(self):\n        return 2\n", True),
        ('class Reader(Protocol):\n    def read(self):\n        """Read."""\n        ...\n', False),
        ("from enum import Enum\n\nLIMIT = 3\n\nclass Colour(Enum):\n    RED = 1\n", False),
    ],
)
def test_only_modules_with_a_function_have_behaviour(source: str, *, expected: bool) -> None:
    assert has_behaviour(source) is expected


def test_a_module_without_a_test_file_is_found(tmp_path: Path) -> None:
    for path in ("app/__init__.py", "app/a/b.py", "app/a/c.py", "app/a/d.py", "tests/a/test_b.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("def run():\n    return 1\n", encoding="utf-8")
    (tmp_path / "app/a/d.py").write_text("LIMIT = 3\n", encoding="utf-8")
    assert find_untested(tmp_path) == {"a/c.py"}
