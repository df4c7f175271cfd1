// The editor of overriders: a YAML editor over the text field, with the findings of the report at their lines.
import { register } from "../behaviours.js";

/** Reads the findings of the report: the server writes them as list elements with a line. */
function readFindings(document, selector) {
  return [...document.querySelectorAll(`${selector} [data-line]`)].map((one) => ({
    line: Number(one.dataset.line),
    severity: one.dataset.level === "error" ? "error" : "warning",
    message: one.querySelector("[data-message]").textContent,
  }));
}

register("textarea[data-yaml-editor]", async (textarea) => {
  // The libraries are large, so only this page loads them.
  const { createEditor } = await import("./text_editor.js");
  const findings = textarea.dataset.yamlEditor;
  const editor = createEditor(textarea);
  const update = () => editor.showFindings(readFindings(document, findings));
  update();
  // Each answer replaces the report, whatever the version of htmx calls its event.
  new MutationObserver((changes) => {
    const isReport = (node) => node instanceof Element && (node.matches(findings) || node.querySelector(findings));
    if (changes.some((change) => [...change.addedNodes].some(isReport))) update();
  }).observe(document.body, { childList: true, subtree: true });
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("[data-go-to]") : null;
    if (!link) return;
    event.preventDefault();
    editor.goTo(Number(link.dataset.goTo));
  });
});

// A button with data-copy-from="ID" copies the present text of an element; it is hidden without JavaScript.
register("[data-copy-from]", (button) => {
  if (!navigator.clipboard) return;
  button.hidden = false;
  const label = button.textContent;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copyFrom);
    await navigator.clipboard.writeText(source ? source.value ?? source.textContent : "");
    button.textContent = source ? "Copied" : "Correct the text first";
    setTimeout(() => { button.textContent = label; }, 1500);
  });
});
