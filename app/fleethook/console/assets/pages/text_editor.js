// CodeMirror over a text field. The field stays the source: forms send it, and htmx hears its input events.
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, indentOnInput, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { lua } from "@codemirror/legacy-modes/mode/lua";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { tags } from "@lezer/highlight";
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from "@codemirror/view";

const theme = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--card)", border: "1px solid var(--muted)", borderRadius: ".35rem" },
  "&.cm-focused": { outline: "3px solid var(--focus)", outlineOffset: "2px" },
  ".cm-scroller": { maxHeight: "36rem", minHeight: "min(var(--rows), 12rem)", overflow: "auto", fontFamily: "ui-monospace, 'DejaVu Sans Mono', monospace" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--back)", color: "var(--muted)", borderRight: "1px solid var(--line)" },
  // Selected text is drawn below the lines, so the line of the cursor has a colour that lets it through.
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "transparent" },
  "&.cm-focused .cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--mark) 60%, transparent)" },
  "&.cm-focused .cm-activeLineGutter": { backgroundColor: "var(--mark)", color: "var(--text)" },
  ".cm-tooltip": { backgroundColor: "var(--card)", color: "var(--text)", border: "1px solid var(--line)" },
  // The defaults are images from data: URLs, which the content security policy forbids.
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--warn)" },
  ".cm-lint-marker-error": { content: "none", borderRadius: "50%", backgroundColor: "var(--bad)" },
  ".cm-lint-marker-warning": { content: "none", backgroundColor: "var(--warn)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--mark)" },
});

// The colours follow the theme of the page, light or dark.
const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--link)" },
  { tag: [tags.string, tags.attributeValue], color: "var(--good)" },
  { tag: [tags.comment, tags.meta], color: "var(--muted)" },
  { tag: [tags.keyword, tags.typeName, tags.labelName], color: "var(--warn)" },
]);

/** Replaces selected text. Chromium would keep its colours by inline styles, which the content security policy forbids. */
function replaceSelection(event, view) {
  if (event.inputType !== "insertText" || event.data === null || view.composing || view.state.selection.main.empty) return false;
  event.preventDefault();
  view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
  return true;
}

const languages = { lua: () => StreamLanguage.define(lua), yaml };

/** Returns the text of a field's label, without the text in the field itself. */
function nameOf(textarea) {
  const texts = [...(textarea.labels?.[0]?.childNodes ?? [])].filter((one) => !one.contains(textarea));
  return texts.map((one) => one.textContent).join("").trim() || "Text";
}

export function createEditor(textarea, name = "yaml") {
  // The content security policy allows no style elements. In a shadow root, CodeMirror adopts style sheets instead.
  const host = document.createElement("div");
  host.className = "editor";
  host.style.setProperty("--rows", `${1.5 * textarea.rows}em`);
  // A click into a label focuses its field, so the editor is not in the label.
  (textarea.closest("label") ?? textarea).after(host);
  const root = host.attachShadow({ mode: "open" });
  const label = nameOf(textarea);
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: textarea.value,
      extensions: [
        lineNumbers(), highlightActiveLine(), highlightActiveLineGutter(), history(), drawSelection(), indentOnInput(), languages[name](), lintGutter(), theme,
        syntaxHighlighting(colours),
        // Tab keeps moving the focus: keyboard users must be able to leave the editor.
        keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap]),
        EditorView.contentAttributes.of({ "aria-label": label, "aria-multiline": "true", tabindex: "0" }),
        EditorView.lineWrapping,
        EditorView.domEventHandlers({ beforeinput: replaceSelection }),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          textarea.value = update.state.doc.toString();
          textarea.dispatchEvent(new Event("input", { bubbles: true }));
        }),
      ],
    }),
  });
  textarea.hidden = true;
  // A browser does not send a form whose required field is empty and hidden, and says nothing; the server names the field.
  textarea.required = false;
  const lineAt = (number) => view.state.doc.line(Math.min(Math.max(number, 1), view.state.doc.lines));
  return {
    showFindings(findings) {
      const diagnostics = findings.map(({ line, severity, message }) => {
        const { from, to } = lineAt(line);
        return { from, to, severity, message };
      });
      view.dispatch(setDiagnostics(view.state, diagnostics.sort((one, other) => one.from - other.from)));
    },
    replaceText(text) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      view.focus();
    },
    goTo(line) {
      const { from } = lineAt(line);
      view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
      view.focus();
    },
  };
}
