"""The operations of policies. tests/e2e/test_policies.py evaluates them."""

from fleethook.engines.overrider.policies.form import compile_form
from tests.builders import container, entry, patch, pod_template, yurt_app_set
from tests.engines.overrider.policies.compiling import plan_of

SPEC = "/spec/template/spec"
SUBJECT = yurt_app_set(
    template=pod_template(
        containers=[container(env=[{"name": "A", "value": "1"}]), container("side")], nodeSelector={"zone": "a"}
    )
)


def text_of(*patches: dict[str, object]) -> str:
    form = compile_form(plan_of(entry("*", patches=[*patches]), subject=SUBJECT), number=0, texts=0)
    return "\n".join([*(one["expression"] for one in form.variables), form.expression])


def test_a_container_is_found_by_name() -> None:
    text = text_of(patch("replace", f"{SPEC}/containers/0/image", "nginx:2"))
    assert '.indexOf("nginx")' in text
    assert "/containers/0" not in text


def test_the_containers_of_the_template_are_put_in_order() -> None:
    text = text_of(patch("replace", f"{SPEC}/containers/0/image", "nginx:2"))
    assert f'"op": dyn("replace"), "path": dyn("{SPEC}/containers"), "value": ' in text


def test_a_removed_element_is_removed_if_it_exists() -> None:
    text = text_of(patch("remove", f"{SPEC}/containers/[name=side]"))
    assert 'indexOf("side")' in text
    assert '"op": dyn("remove")' in text


def test_an_added_map_merges_with_that_of_another_client() -> None:
    text = text_of(patch("add", f"{SPEC}/securityContext", {"runAsUser": 1}))
    assert f'"path": dyn("{SPEC}/securityContext"), "value": dyn({{"runAsUser": dyn(1)}})' in text
    assert f'"path": dyn("{SPEC}/securityContext/runAsUser"), "value": dyn(1)' in text


def test_a_map_is_removed_only_without_keys_of_other_clients() -> None:
    text = text_of(patch("remove", f"{SPEC}/nodeSelector"))
    assert 'exists(k, !(k in ["zone"]))' in text
    assert f'"op": dyn("remove"), "path": dyn("{SPEC}/nodeSelector/zone")' in text


def test_an_added_variable_follows_its_predecessor() -> None:
    text = text_of(patch("add", f"{SPEC}/containers/0/env/-", {"name": "B", "value": "2"}))
    assert ".max()" in text
    assert 'indexOf("A")' in text
