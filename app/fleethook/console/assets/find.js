import { register } from "./behaviours.js";

// The key / moves the focus into the search field of the frame, unless the user types a text.
register("[data-find]", (field) => {
  document.addEventListener("keydown", (event) => {
    // The first element of the path is in the shadow root of an editor, if there is one.
    const [target] = event.composedPath();
    const types = target instanceof Element && (target.isContentEditable || target.matches("input, textarea, select"));
    if (event.key !== "/" || event.ctrlKey || event.altKey || event.metaKey || types) return;
    event.preventDefault();
    field.focus();
    field.select();
  });
});
