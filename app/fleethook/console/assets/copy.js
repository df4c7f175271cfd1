import { register } from "./behaviours.js";

// A button with data-copy="TEXT" copies the text; it is hidden without JavaScript.
register("[data-copy]", (button) => {
  if (!navigator.clipboard) return;
  button.hidden = false;
  const label = button.textContent;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 1500);
  });
});
