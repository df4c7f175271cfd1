// Sets the theme that the user chose before the page is painted; without a choice, the style follows the system.
const KEY = "fleethook-theme";
const saved = (() => { try { return localStorage.getItem(KEY); } catch { return null; } })();
if (saved === "light" || saved === "dark") document.documentElement.dataset.theme = saved;

addEventListener("DOMContentLoaded", () => {
  const button = document.querySelector("[data-theme-toggle]");
  if (!button) return;
  const isDark = () => (document.documentElement.dataset.theme
    ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; };
  button.hidden = false;
  label();
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try { localStorage.setItem(KEY, theme); } catch { /* Without storage, the choice lasts for this page. */ }
    label();
    document.dispatchEvent(new CustomEvent("fleethook:theme"));
  });
});
