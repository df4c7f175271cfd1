import "htmx.org";
import "./connection.js";
import "./copy.js";
import "./find.js";
import "./pages/overview.js";
import "./pages/playground.js";
import { apply } from "./behaviours.js";

const start = () => apply(document.body);
if (document.readyState === "loading") addEventListener("DOMContentLoaded", start); else start();
// htmx adds fragments; a mutation observer sees them whatever the version of htmx calls its event.
new MutationObserver((changes) => {
  for (const change of changes) for (const node of change.addedNodes) if (node instanceof Element) apply(node);
}).observe(document.documentElement, { childList: true, subtree: true });
