"""The page of the playground: its form, a run of the script as on the server, and result, changes, cost and export.

The export is a customization with a fixture, which ``fleethook interpret test`` runs.
"""

import re
import shlex
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from difflib import unified_diff
from itertools import islice
from typing import Final, NamedTuple
from urllib.parse import urlencode

import msgspec
import yaml
from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from fleethook.cluster.manifests.yaml_scalars import NoAliasDumper
from fleethook.cluster.store import Stored
from fleethook.console.context import ConsoleContext
from fleethook.console.forms_and_guard import (
    FormError,
    FormFieldError,
    FormFields,
    limit_text,
    read_documents,
    read_value,
)
from fleethook.console.page_frame import Context, render
from fleethook.console.shared_value import KeptValue
from fleethook.engines.interpret.interpret_settings import InterpretSettings
from fleethook.engines.interpret.interpreter_chain import Chain, Explained
from fleethook.engines.interpret.interpreter_fixtures import find_operation, name_results, read_fixture
from fleethook.engines.interpret.lua.customization_rules_and_configmap import FUNCTION_OF, FUNCTIONS, read_customization
from fleethook.engines.interpret.lua.lua_machine import Machine, Usage
from fleethook.engines.interpret.lua.script_layer_and_runner import LuaLayer, Runner, ScriptCall, index_rules
from fleethook.engines.interpret.lua.script_warnings import list_findings, list_unportable
from fleethook.engines.interpret.review.answer_validation import MAX_REPLICAS, list_unknown_members
from fleethook.fixture_format import FixtureError
from fleethook.interpret.interpreter import InterpretError, Question
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.karmada import API_VERSION, CUSTOMIZATION, PATCHING, Operation
from fleethook.work.threads_and_gc import Worker

MAX_TEXT: Final = 512 << 10
"""Characters of one field. Objects of a real fleet rarely have more than 100 KiB."""
MAX_SHOWN: Final = 200_000
"""Characters of a result on the page."""
MAX_DIFF_LINES: Final = 5_000
"""Lines of a document that is compared: the comparison takes quadratic time."""
MAX_RESULT_BYTES: Final = 4 << 20
"""Bytes of a result as JSON. Results of real scripts have a few KiB."""
CUSTOMIZATION_FILE: Final = "customization.yaml"
FIXTURE_FILE: Final = "testdata/playground-test.yaml"

_MAX_LISTED: Final = 20
_UNUSED: Final = Usage(0, 0)
_LINES_AROUND: Final = 3
_LINE: Final = re.compile(r"(?:\ALua script error: line |/[A-Za-z]+:)([0-9]+):")
"""A place in the two forms that problems of rules and errors of scripts have."""
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")
_OBJECT: Final = """\
apiVersion: games.example.com/v1
kind: Game
metadata: {name: chess, namespace: default}
spec: {players: 2}
status: {ready: true}
"""
_ITEMS: Final = """\
- clusterName: member1
  status: {ready: true}
- clusterName: member2
  status: {ready: false}
"""

EXAMPLES: Final[Mapping[str, str]] = {
    "InterpretReplica": "function GetReplicas(obj)\n  return obj.spec.players, nil\nend\n",
    "ReviseReplica": "function ReviseReplica(obj, replicas)\n  obj.spec.players = replicas\n  return obj\nend\n",
    "Retain": "function Retain(desiredObj, observedObj)\n"
    "  desiredObj.spec.players = observedObj.spec.players\n  return desiredObj\nend\n",
    "InterpretStatus": "function ReflectStatus(obj)\n  return {ready = obj.status.ready}\nend\n",
    "AggregateStatus": "function AggregateStatus(obj, items)\n  local ready = true\n  for i = 1, #items do\n"
    "    ready = ready and items[i].status.ready\n  end\n  obj.status = {ready = ready}\n  return obj\nend\n",
    "InterpretHealth": "function InterpretHealth(obj)\n  return obj.status ~= nil and obj.status.ready == true\nend\n",
    "InterpretDependency": "function GetDependencies(obj)\n  return {{apiVersion = 'v1', kind = 'Secret', "
    "namespace = obj.metadata.namespace, name = 'scores'}}\nend\n",
}
"""A script for each operation that most kinds have, with which the form begins."""


@dataclass(frozen=True)
class PlaygroundForm:
    """The fields of the form, as the user typed them; the objects are YAML or JSON."""

    operation: str = Operation.HEALTH.value
    code: str = ""
    desired: str = ""
    observed: str = ""
    items: str = ""
    """AggregateStatus: the AggregatedStatusItems, as documents or as a list."""
    replicas: str = ""
    """ReviseReplica: the desired number."""


@dataclass(frozen=True)
class PlaygroundResult:
    """The part of the page about a script: its results or an error, with its cost."""

    error: FormError | None = None
    results: JSONObject = field(default_factory=dict)
    """By their names in fixtures."""
    seconds: float = 0
    usage: Usage = _UNUSED
    printed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """Members of the result that Karmada drops, and suspicious code in the script with its line."""
    text: str = ""
    """The results as YAML."""
    is_cut: bool = False
    """Whether `text` lacks its end."""
    diff: tuple[tuple[str, str], ...] = ()
    """The lines that differ from the object, each with its sign: ``+``, ``-``, ``@`` or a space."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The texts for ``fleethook interpret test`` by their paths."""


def fill_form(operation: str) -> PlaygroundForm:
    """Return the form with the example for an operation. Operations without an example get that for health."""
    name = operation if operation in EXAMPLES else Operation.HEALTH.value
    return PlaygroundForm(
        operation=name,
        code=EXAMPLES[name],
        desired=_OBJECT,
        observed=_OBJECT.replace("players: 2", "players: 4") if name == Operation.RETAIN else "",
        items=_ITEMS if name == Operation.AGGREGATE_STATUS else "",
        replicas="4" if name == Operation.REVISE_REPLICA else "",
    )


class StoredScript(NamedTuple):
    """The script of a customization, and an object of its kind without a spec, as YAML."""

    code: str
    example: str


def find_script(customization: Stored | None, operation: str) -> StoredScript | None:
    """Return the script of a customization for an operation, None without one; its fields may have any type."""
    function = next((script_function for script_function in FUNCTIONS if script_function.operation == operation), None)
    if not isinstance(customization, dict) or function is None:
        return None
    spec = as_object(customization.get("spec"))
    code = as_object(as_object(spec.get("customizations")).get(function.member)).get("luaScript")
    target = as_object(spec.get("target"))
    example: JSONObject = {name: str(target.get(name) or "") for name in ("apiVersion", "kind")}
    text = write_yaml({**example, "metadata": {"name": "example", "namespace": "default"}})
    return StoredScript(code, text) if isinstance(code, str) else None


def playground_url(operation: str, customization: str) -> str:
    """Return the address of the playground with the script of a customization for an operation."""
    return f"/interpreters/playground?{urlencode({'operation': operation, 'customization': customization})}"


def number_lines(code: str, line: int) -> tuple[tuple[int, str], ...]:
    """Return the lines of a script around the line that an error names."""
    lines = code.splitlines()
    first = max(1, line - _LINES_AROUND)
    return tuple(enumerate(lines[first - 1 : line + _LINES_AROUND], first))


def run_form(form: PlaygroundForm) -> PlaygroundResult:
    """Ask the script of a form, and return its result or its error. Blocks until the script ends."""
    try:
        code, fixture = read_form(form)
        question = read_fixture(fixture).question
        customization = build_customization(code, question)
    except FormFieldError as problem:
        return PlaygroundResult(error=problem.error)
    except FixtureError as error:
        return PlaygroundResult(error=FormError("desired", str(error)))
    result = run_script(customization, question)
    if result.error is not None:
        return result
    text = write_yaml(result.results)
    return replace(
        result,
        text=text[:MAX_SHOWN],
        is_cut=len(text) > MAX_SHOWN,
        diff=compare(question, result.results),
        files={
            CUSTOMIZATION_FILE: write_yaml(customization),
            FIXTURE_FILE: write_yaml(fixture | {"output": result.results}),
        },
    )


def read_form(form: PlaygroundForm) -> tuple[str, JSONObject]:
    """Return the script of a form, and its question as a fixture without the answer; raises FormFieldError."""
    if not form.code.strip():
        raise FormFieldError("code", "the script is empty")
    try:
        operation = find_operation(form.operation)
    except FixtureError as error:
        raise FormFieldError("operation", str(error)) from None
    code = limit_text("code", form.code, most=MAX_TEXT).replace("\r\n", "\n")
    given: JSONObject = {
        "name": f"{operation} as in the playground",
        "operation": operation.value,
        "desiredObj": read_value("desired", form.desired, most=MAX_TEXT),
        "observedObj": read_value("observed", form.observed, most=MAX_TEXT),
        "statusItems": _read_items(form.items) if operation is Operation.AGGREGATE_STATUS else None,
        "inputReplicas": _read_replicas(form.replicas) if operation is Operation.REVISE_REPLICA else None,
        "output": {},
    }
    return code, {name: value for name, value in given.items() if value is not None}


def _read_items(text: str) -> list[JSON]:
    """Return the items of documents or of a list, as ``fleethook interpret run --status-file`` does."""
    found = [document.value for document in read_documents("items", text, most=MAX_TEXT)]
    return found[0] if len(found) == 1 and isinstance(found[0], list) else found


def _read_replicas(text: str) -> int:
    try:
        found = int(text.strip() or 0)
    except ValueError:
        found = -1
    if not 0 <= found <= MAX_REPLICAS:
        raise FormFieldError("replicas", f"{text[:20]!r} is not a number of replicas")
    return found


def build_customization(code: str, question: Question) -> JSONObject:
    """Return the ResourceInterpreterCustomization with a script for a question.

    Raises:
        FormFieldError: A customization has no rule for the operation.
    """
    function = FUNCTION_OF.get(question.operation)
    if function is None:
        text = f"a customization has no rule for {question.operation}: choose another operation"
        raise FormFieldError("desired", text)
    kind = question.kind
    name = _NOT_IN_NAMES.sub("-", f"{kind.kind}-{kind.group or 'core'}".lower()).strip("-")
    return {
        "apiVersion": API_VERSION,
        "kind": CUSTOMIZATION.kind,
        "metadata": {"name": name},
        "spec": {
            "target": {"apiVersion": kind.api_version, "kind": kind.kind},
            "customizations": {function.member: {"luaScript": code}},
        },
    }


def compare(question: Question, results: JSONObject) -> tuple[tuple[str, str], ...]:
    """Return the lines that an operation changes in its object; none for an operation that changes nothing."""
    if question.operation not in PATCHING:
        return ()
    [after] = (write_yaml(value).splitlines() for value in results.values())
    before = write_yaml(question.object).splitlines()
    if max(len(before), len(after)) > MAX_DIFF_LINES:
        return (("@", f"the objects have more than {MAX_DIFF_LINES} lines, so they are not compared"),)
    lines = islice(unified_diff(before, after, lineterm=""), 2, None)
    return tuple((line[0], line if line[0] == "@" else line[1:]) for line in lines)


class _Dumper(NoAliasDumper):
    """Writes texts of several lines as literal blocks, so that scripts stay readable."""


def _represent_text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def write_yaml(value: JSON) -> str:
    """Return a value as YAML with literal blocks."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text


class _MeasuredRunner(Runner):
    """Runs scripts with their full limits on this thread, and keeps the resources that the last call used."""

    usage = _UNUSED
    lines: tuple[str, ...] = ()

    def run(self, call: ScriptCall, *, at_once: bool = True) -> list[JSON]:
        """Return the results of a script's function; raises LuaError."""
        del at_once
        return self.run_now(call)

    def _keep(self, machine: Machine) -> None:
        self.usage, self.lines = machine.usage(), tuple(machine.printed())


def run_script(customization: JSONObject, question: Question) -> PlaygroundResult:
    """Return the results of a script, or its error, by the chain that the server asks, with the server's limits."""
    parsed_rules = read_customization(customization)
    if parsed_rules.problems:
        return PlaygroundResult(error=_make_error(parsed_rules.problems[0].text))
    runner = _MeasuredRunner()
    chain = Chain([LuaLayer("lua", lambda: index_rules(parsed_rules.rules), runner)])
    error, results, dropped, started = None, {}, list[str](), time.perf_counter()
    try:
        explained = chain.begin(question)
    except InterpretError as problem:
        error = _make_error(str(problem))
    else:
        assert isinstance(explained, Explained)  # the runner does not wait
        results = name_results(question, explained.answer)
        dropped = [f"Karmada drops: {member}" for member in list_unknown_members(question.operation, explained.answer)]
    seconds = time.perf_counter() - started
    if len(msgspec.json.encode(results)) > MAX_RESULT_BYTES:
        error, results = _make_error(f"the result has more than {MAX_RESULT_BYTES >> 20} MiB"), {}
    suspicious = (text for rule in parsed_rules.rules for text in (*list_findings(rule), *list_unportable(rule)))
    warnings = (*dropped, *suspicious)[:_MAX_LISTED]
    return PlaygroundResult(error, results, seconds, runner.usage, runner.lines, warnings)


def _make_error(message: str) -> FormError:
    return FormError("code", message, find_line(message))


def find_line(message: str) -> int:
    """Return the line of the script that a message names first, 0 if it names none."""
    found = _LINE.search(message)
    return int(found[1]) if found else 0


router: Final = APIRouter(prefix="/playground")

_WORKER: Final = KeptValue(lambda _context: Worker(name="playground"))
"""Runs scripts, so that neither the event loop nor the worker of the other pages waits for them."""


def make_run_command(context: ConsoleContext, operation: str, *files: str) -> str:
    """Return the command that asks the same question."""
    python = [
        word
        for source in context.settings.section(InterpretSettings).interpreters
        for word in ("--interpreters", source)
    ]
    options = shlex.join(["--operation", operation, *files, "--desired-file", "object.yaml", *python])
    return f"fleethook interpret run {options} {context.command_source}".strip()


@router.get("")
async def show_playground(
    request: Request, context: Context, operation: str = Operation.HEALTH.value, customization: str = ""
) -> HTMLResponse:
    """Show the playground with the script of a customization for an operation, or with an example."""
    form = fill_form(operation)
    if not customization:
        return await _render(request, context, form, None)
    stored = context.store.get("", CUSTOMIZATION, "", customization)
    script = find_script(stored, form.operation)
    if script is None:
        raise HTTPException(404, f"{CUSTOMIZATION.kind} {customization} has no script for {form.operation}")
    return await _render(request, context, replace(form, code=script.code, desired=script.example), None)


@router.post("")
async def run_playground(request: Request, context: Context, fields: FormFields) -> HTMLResponse:
    """Run the typed script, and show its result."""
    form = _read_form(fields)
    result = await _WORKER.find(request).run("", run_form, form)
    return await _render(request, context, form, result)


def _read_form(fields: Mapping[str, str]) -> PlaygroundForm:
    known = asdict(PlaygroundForm())
    return PlaygroundForm(**{name: fields.get(name, default) for name, default in known.items()})


async def _render(
    request: Request, context: ConsoleContext, form: PlaygroundForm, result: PlaygroundResult | None
) -> HTMLResponse:
    error = None if result is None else result.error
    return render(
        request,
        "interpreters/playground.html",
        command=make_run_command(context, form.operation, "-f", "customization.yaml"),
        command_title="The same on the command line, with the export and the object in files",
        status=422 if error else 200,
        form=form,
        result=result,
        error=error,
        lines=number_lines(form.code, error.line) if error and error.field == "code" and error.line else (),
        operations=tuple(Operation),
        examples=tuple(EXAMPLES),
        tab="playground",
    )
