"""A file that a command does not use is an error or a note, and mistakes in files are named by each command."""

from pathlib import Path

import pytest

from tests.cli.commands import invoke
from tests.cli.interpreting import CUSTOMIZATION, DATABASE, GAME

HOOK = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hooks}
webhooks:
- name: w.example.org
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  namespaceSelector: {team: web}
  sideEffects: None
  admissionReviewVersions: [v1]
"""
FILES = {
    "empty.yaml": "",
    "map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\n",
    "hook.yaml": HOOK,
    "group.yaml": HOOK.replace("admissionregistration.", "admission."),
    "game.yaml": CUSTOMIZATION,
    "object.yaml": GAME,
    "rules.py": "from fleethook.admission import validate\n@validate('v1', 'Pod')\ndef a(pod): pass\n",
    "karmada.yaml": "apiVersion: operator.karmada.io/v1alpha1\nkind: Karmada\nmetadata: {name: k}\nspec: {crdTarbal: {}}\n",
}
SELECTOR = "hook.yaml:9: ValidatingWebhookConfiguration hooks: webhooks[0].namespaceSelector.team: is not a field of "


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("interpret run --operation InterpretHealth object.yaml game.yaml", 0, ""),
        (f"interpret run --operation InterpretHealth object.yaml {DATABASE} game.yaml", 0, ""),
        ("rules test rules.py", 2, "fleethook: rules.py: is not used: it has no tests"),
        ("rules check rules.py -f map.yaml", 0, "note: map.yaml: this command does not read any ConfigMap"),
        ("render hook.yaml", 2, "note: hook.yaml: this command does not read any ValidatingWebhookConfiguration"),
        ("explain --request map.yaml -f hook.yaml", 0, f"warning: {SELECTOR}"),
        (
            "explain --request map.yaml -f group.yaml",
            0,
            "in admissionregistration.k8s.io/v1, not in 'admission.k8s.io/v1'",
        ),
        ("explain --request map.yaml -f hook.yaml --strict", 1, f"fleethook: {SELECTOR}"),
        ("webhook test -f hook.yaml --objects map.yaml --strict", 1, f"fleethook: {SELECTOR}"),
        ("explain --request map.yaml -f hook.yaml --old map.yaml", 2, "fleethook: CREATE does not use --old: "),
        ("webhook test -f hook.yaml --objects map.yaml", 1, f"warning: {SELECTOR}"),
        ("lint rule.py", 2, "fleethook: rule.py: cannot be read: No such file or directory"),
        ("explain --request empty.yaml -f hook.yaml", 2, "nothing to explain: there is no object in empty.yaml"),
        ("rules apply rules.py map.yaml", 2, "fleethook: map.yaml: it is no file of Python: give manifests by -f"),
        ("crds verify map.yaml", 23, "fleethook: map.yaml: "),
        ("crds fetch -f karmada.yaml -f map.yaml", 2, "fleethook: map.yaml: is not used: it has no Karmada"),
        ("crds fetch -f karmada.yaml", 2, "warning: karmada.yaml:4: Karmada k: spec.crdTarbal: is not a field of spec"),
    ],
)
def test_no_file_and_no_mistake_is_ignored_silently(words: str, code: int, text: str) -> None:
    result = invoke(words.split())
    assert (result.exit_code, text in result.stderr) == (code, True), result.stderr
