from collections.abc import Sequence

from fleethook.engines.interpret.argocd.checks import HealthCheck, Place
from fleethook.engines.interpret.argocd.conversion import Conversion, HealthTest, convert_checks
from fleethook.engines.interpret.fixtures import read_fixtures
from fleethook.engines.interpret.lua.rules import read_customization
from fleethook.model.gvk import GroupVersionKind, parse_api_version
from fleethook.model.karmada import Operation

SCRIPT = "return {status = obj.status.health}"


def check(pattern: str, script: str = SCRIPT, *, source: str = "health.lua") -> HealthCheck:
    return HealthCheck(pattern, script, Place(source, 1, 1))


def kind(name: str) -> GroupVersionKind:
    api_version, _, short = name.rpartition("/")
    return GroupVersionKind(*parse_api_version(api_version), short)


def make_test(name: str, status: str) -> HealthTest:
    found = kind(name)
    document = {"apiVersion": found.api_version, "kind": found.kind, "status": {"health": status}}
    return HealthTest(f"{status}.yaml", found, document, status, Place("health_test.yaml", 2))


def convert(
    checks: Sequence[HealthCheck], tests: Sequence[HealthTest] = (), kinds: Sequence[str] = ()
) -> tuple[list[str], list[tuple[str, str, str]]]:
    """Return the converted kinds, and level, code and kind of each remark except the one about the mapping."""
    found = convert_checks(checks, tests, [kind(one) for one in kinds])
    remarks: list[tuple[str, str, str]] = [
        (one.level, one.code, one.subject) for one in found.remarks if one.code != "mapping"
    ]
    return list_kinds(found), remarks


def list_kinds(found: Conversion) -> list[str]:
    return [f"{one.kind.api_version}/{one.kind.kind}" for one in found.converted]


def test_each_version_of_a_kind_gets_a_customization_with_its_tests() -> None:
    tests = [make_test("a.io/v1/A", "Suspended"), make_test("a.io/v2/A", "Degraded"), make_test("a.io/v1/A", "")]
    found = convert_checks([check("a.io/A")], tests, [kind("a.io/v3/A"), kind("a.io/v1/A"), kind("a.io/v1/B")])
    assert list_kinds(found) == ["a.io/v1/A", "a.io/v2/A", "a.io/v3/A"]
    assert [one.folder for one in found.converted] == ["a.io/v1/A", "a.io/v2/A", "a.io/v3/A"]
    assert [one.customization["metadata"]["name"] for one in found.converted] == ["a-v1.a.io", "a-v2.a.io", "a-v3.a.io"]
    [rule] = read_customization(found.converted[0].customization).rules
    assert (rule.kind, rule.function.operation) == (kind("a.io/v1/A"), Operation.HEALTH)
    fixtures = list(read_fixtures(found.converted[0].build_fixtures()))
    assert [(one.name, one.output, one.question.object) for one in fixtures] == [
        ("Suspended.yaml is Suspended", {"healthy": True}, tests[0].object),
        (".yaml is without status", {"healthy": False}, tests[2].object),
    ]
    assert [one.code for one in found.remarks] == ["mapping"]


def test_a_script_outside_of_a_directory_of_its_kind_is_for_the_given_kinds() -> None:
    given = HealthCheck("a.io/A", SCRIPT, Place("mine.lua", 1, 1), (kind("a.io/v1/A"), kind("b.io/v1/B")))
    found = convert_checks([given], [make_test("b.io/v1/B", "Healthy")], [kind("a.io/v2/A")])
    assert list_kinds(found) == ["a.io/v1/A", "b.io/v1/B"]
    assert [len(one.tests) for one in found.converted] == [0, 1]
    assert [one.code for one in found.remarks] == ["mapping"]


def test_wildcards_are_converted_for_the_kinds_of_the_input_without_a_check_of_their_own() -> None:
    checks = [check("*.io/*"), check("a.io/A"), check("{b,c}.io/C?t"), check("*.org/*")]
    tests = [make_test("a.io/v1/A", "Healthy"), make_test("b.io/v1/Cat", "Healthy"), make_test("d.com/v1/D", "Healthy")]
    kinds, remarks = convert(checks, tests, ["b.io/v1/Dog", "c.io/v2/Cut", "v1/Pod"])
    # The pattern *.io/* comes before {b,c}.io/C?t.
    assert kinds == ["a.io/v1/A", "b.io/v1/Cat", "b.io/v1/Dog", "c.io/v2/Cut"]
    assert remarks == [
        ("warning", "wildcard", "*.io/*"),
        ("error", "wildcard", "*.org/*"),
        ("error", "wildcard", "{b,c}.io/C?t"),
        ("warning", "other-kind", "d.com/D"),
    ]


def test_a_kind_without_a_known_version_is_an_error_and_known_kinds_have_theirs() -> None:
    kinds, remarks = convert([check("a.io/A"), check("Pod"), check("cert-manager.io/Certificate")])
    assert kinds == ["v1/Pod", "cert-manager.io/v1/Certificate"]
    assert remarks == [
        ("note", "replaces", "Pod"),
        ("error", "no-version", "a.io/A"),
        ("note", "replaces", "cert-manager.io/Certificate"),
    ]


def test_a_script_that_cannot_run_is_an_error_at_its_line_and_others_are_converted() -> None:
    checks = [
        check("a.io/Syntax", "local x =\nreturn x"),
        check("a.io/Refused", "return\nsetmetatable({}, {})"),
        check("a.io/Locals", "".join(f"local a{number}\n" for number in range(201))),
        check("a.io/Fine", "local s = string.rep('x', 2)\nreturn {status = s}"),
        check("a.io/../../etc", SCRIPT),
        check("a.io/Fine", SCRIPT, source="other.lua"),
    ]
    kinds = [f"a.io/v1/{name}" for name in ("Syntax", "Refused", "Locals", "Fine")]
    found = convert_checks(checks, [make_test("a.io/v1/Fine", "Healthy")], [*map(kind, kinds), kind("../x/v1/Fine")])
    assert list_kinds(found) == ["a.io/v1/Fine"]
    assert [(one.level, one.code, one.subject, one.place) for one in found.remarks if one.code != "mapping"] == [
        ("error", "invalid-kind", "a.io/../../etc", Place("health.lua", 1, 1)),
        ("warning", "duplicate", "a.io/Fine", Place("other.lua", 1, 1)),
        ("warning", "unportable", "a.io/Fine", Place("health.lua", 1)),
        ("error", "refused", "a.io/Locals", Place("health.lua", 1, 1)),
        ("error", "refused", "a.io/Refused", Place("health.lua", 2)),
        ("error", "syntax", "a.io/Syntax", Place("health.lua", 2)),
    ]
    assert found.converted[0].tests == []  # The test may be about either script.
