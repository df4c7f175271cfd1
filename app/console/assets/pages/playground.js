import { register } from "../behaviours.js";

// After an error, the editor selects the line that the error names.
register("textarea[data-error-line]", (editor) => {
  const line = Number(editor.dataset.errorLine);
  if (line < 1) return;
  const lines = editor.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  editor.focus();
  editor.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
  editor.scrollTop = (editor.scrollHeight / lines.length) * Math.max(0, line - 4);
});
