// The editors of the playground: the script, and the objects.
import { register } from "../behaviours.js";

register("textarea[data-editor]", async (textarea) => {
  // The libraries are large, so only pages with an editor load them.
  const { createEditor } = await import("./text_editor.js");
  const editor = createEditor(textarea, textarea.dataset.editor);
  const line = Number(textarea.dataset.errorLine);
  if (!line) return;
  const message = document.getElementById(textarea.getAttribute("aria-describedby"))?.textContent ?? "";
  editor.showFindings([{ line, severity: "error", message }]);
  editor.goTo(line);
});
