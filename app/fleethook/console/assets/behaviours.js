// Behaviour of elements by their data attributes. htmx adds elements later, so each behaviour runs on every new fragment.
const behaviours = [];

/** Calls `start(element)` once for each element that matches `selector`, now and after each htmx swap. */
export function register(selector, start) {
  behaviours.push([selector, start, new WeakSet()]);
}

export function apply(root) {
  for (const [selector, start, started] of behaviours) {
    const own = root.matches?.(selector) ? [root] : [];
    for (const element of [...own, ...root.querySelectorAll(selector)]) {
      if (started.has(element)) continue;
      started.add(element);
      start(element);
    }
  }
}
