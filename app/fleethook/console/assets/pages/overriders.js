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

/**
 * Keeps the text of a field in this tab over a reload, puts a kept one into the field, and returns the text of the page.
 * Links to several parts of an overrider have the same form, and so the same draft.
 */
function keepDraft(textarea) {
  const base = document.getElementById("changed");
  const key = `fleethook-draft:${textarea.form.getAttribute("action")}`;
  const stored = textarea.value;
  const storage = (() => { try { return sessionStorage; } catch { return null; } })();
  const draft = storage?.getItem(key);
  textarea.value = draft ?? stored;
  base.hidden = !draft || storage.getItem(`${key}#base`) === stored;
  textarea.addEventListener("input", () => {
    if (textarea.value === stored) { storage?.removeItem(key); return; }
    if (!storage?.getItem(key)) storage?.setItem(`${key}#base`, stored);
    storage?.setItem(key, textarea.value);
  });
  return stored;
}

/** Marks the effect as that of another text, from an input until the answer to it. */
function markOldEffect(form) {
  const pending = document.getElementById("pending");
  let isNewer = false;
  const mark = () => {
    pending.textContent = "The effect below is that of an earlier text.";
    document.getElementById("report").classList.add("old");
  };
  form.addEventListener("input", () => { isNewer = true; mark(); });
  document.addEventListener("htmx:before:request", () => { isNewer = false; });
  document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
    // A refusal replaces nothing.
    if (ctx.response.status >= 400) return;
    if (isNewer) mark(); else pending.textContent = "";
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (event.submitter?.hasAttribute("formaction")) save(form.elements.text.value); else form.dispatchEvent(new Event("retry"));
  });
}

/** Downloads a text without a request: a console that does not answer would replace the page by an error of the browser. */
function save(text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
  link.download = "overrider.yaml";
  link.click();
  URL.revokeObjectURL(link.href);
}

register("textarea[data-yaml-editor]", async (textarea) => {
  const stored = keepDraft(textarea);
  markOldEffect(textarea.form);
  // The libraries are large, so only this page loads them.
  const { createEditor } = await import("./text_editor.js");
  const findings = textarea.dataset.yamlEditor;
  const editor = createEditor(textarea);
  const update = () => editor.showFindings(readFindings(document, findings));
  update();
  const note = document.getElementById("draft");
  // The line of the part that a link led to is that of the stored text.
  const place = document.getElementById("at");
  const showStored = (isStored) => {
    note.hidden = isStored;
    if (place) place.hidden = !isStored;
    if (isStored && place) editor.goTo(Number(textarea.dataset.line));
  };
  showStored(textarea.value === stored);
  if (textarea.value !== stored) textarea.dispatchEvent(new Event("input", { bubbles: true }));
  note.querySelector("button").addEventListener("click", () => { editor.replaceText(stored); showStored(true); });
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
