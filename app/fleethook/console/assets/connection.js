// Says when the console does not answer for a part of a page, or refuses it: the page then shows old data. Parts are tried
// again until they have an answer.
const RETRY_MS = 2000;
/** The parts without an answer, each with the time of its first failure, the message and the timer of the next try. */
const failing = new Map();

const parse = (text) => new DOMParser().parseFromString(text, "text/html");
const readAlert = (page) => [...page.querySelectorAll("main [role=alert]:not([hidden])")].at(-1)?.textContent.trim();
const now = () => `${new Date().toISOString().slice(0, 19)}Z`;

function showFailures() {
  const bar = document.getElementById("connection");
  const [first] = failing.values();
  bar.hidden = !first;
  if (first && bar.textContent !== first.message) bar.textContent = first.message;
}

function recover(part) {
  clearTimeout(failing.get(part)?.timer);
  failing.delete(part);
  showFailures();
}

function fail(part, reason) {
  const former = failing.get(part);
  clearTimeout(former?.timer);
  const since = former?.since ?? now();
  const problem = reason ? `refuses this page since ${since}: ${reason}` : `does not answer since ${since}`;
  const message = `The console ${problem}. The page shows old data, keeps your text, and tries again every ${RETRY_MS / 1000} s.`;
  failing.set(part, { since, message, timer: setTimeout(() => tryAgain(part), RETRY_MS) });
  showFailures();
}

function tryAgain(part) {
  if (part.isConnected) part.dispatchEvent(new Event("retry")); else recover(part);
}

// A swap may remove the part, and its later events then do not reach the window.
addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
  if (ctx.response?.status < 400) recover(ctx.sourceElement);
});

addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
  const { response, request, sourceElement: part } = ctx;
  const hasFailed = String(ctx.status).startsWith("error");
  if (response && response.status < 400 && !hasFailed) return;
  // A newer request has replaced an aborted one.
  if (hasFailed && String(ctx.status).includes("AbortError") && request.signal.reason !== "timeout") return;
  fail(part, hasFailed ? "" : readAlert(parse(ctx.text)) || String(response.status));
});
