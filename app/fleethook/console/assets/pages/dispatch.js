import { register } from "../behaviours.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 220, HEIGHT = 34, COLUMN = 420, MARGIN = 30, STEPS = 250;

const element = (name, attributes, text) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text; // never markup: names come from clusters
  return made;
};
const shorten = (text) => (text.length > 30 ? `${text.slice(0, 29)}…` : text);

/** Returns the column of each node: consumers left, clusters that do both in the middle, providers right. */
function findColumns(nodes, edges) {
  const consumers = new Set(edges.map((one) => one.consumer)), providers = new Set(edges.map((one) => one.provider));
  return new Map(nodes.map(({ id }) => [id, consumers.has(id) ? (providers.has(id) ? 1 : 0) : 2]));
}

async function layOut(nodes, edges) {
  const { forceCollide, forceLink, forceSimulation, forceX, forceY } = await import("d3-force");
  const columns = findColumns(nodes, edges);
  const counts = [0, 0, 0];
  const placed = nodes.map((one) => {
    const column = columns.get(one.id);
    return { ...one, column, x: column * COLUMN, y: counts[column]++ * (HEIGHT + 10) };
  });
  const links = edges.map((one) => ({ ...one, source: one.consumer, target: one.provider }));
  // The simulation is deterministic, and runs to its end at once: the picture does not move.
  forceSimulation(placed).stop()
    .force("column", forceX((one) => one.column * COLUMN).strength(1))
    .force("middle", forceY(0).strength(0.02))
    .force("links", forceLink(links).id((one) => one.id).strength(0.05))
    .force("apart", forceCollide(HEIGHT * 0.7).iterations(4))
    .tick(STEPS);
  // Rows of a column in the order of the forces, without overlaps.
  for (const column of [0, 1, 2]) {
    const rows = placed.filter((one) => one.column === column).sort((a, b) => a.y - b.y);
    const top = -((rows.length - 1) * (HEIGHT + 10)) / 2;
    rows.forEach((one, index) => { one.x = column * COLUMN; one.y = top + index * (HEIGHT + 10); });
  }
  return { placed, links };
}

function drawEdge({ source, target, exports, resources, has_problem: bad }) {
  const [x1, y1, x2, y2] = [source.x + WIDTH, source.y + HEIGHT / 2, target.x, target.y + HEIGHT / 2];
  const path = element("path", { d: `M${x1} ${y1} C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}`, class: bad ? "problem" : "" });
  path.append(element("title", {}, `${source.label} binds ${exports.join(", ")} of ${target.label}: ${resources.join(", ")}`));
  return path;
}

function drawNode(one, address) {
  const link = element("a", { href: `${address}?focus=${encodeURIComponent(one.id)}`, class: `${one.column ? "provider" : "consumer"}${one.is_focus ? " focus" : ""}` });
  const details = [one.label, one.exports.length ? `exports ${one.exports.join(", ")}` : "", one.webhooks ? `${one.webhooks} webhook configurations` : ""];
  link.append(
    element("title", {}, details.filter(Boolean).join("; ")),
    element("rect", { x: one.x, y: one.y, width: WIDTH, height: HEIGHT, rx: 6 }),
    element("text", { x: one.x + 8, y: one.y + HEIGHT / 2 + 4 }, shorten(one.label || "plain cluster")),
  );
  return link;
}

// The answer to a request, or the reason why there is none, is what a reader asked for.
register("[data-verdict] > h2, .fields [role=alert]", (answer) => {
  answer.tabIndex = -1;
  answer.focus();
  answer.scrollIntoView({ block: "nearest" });
});

// The map of logical clusters. The table below it has the same bindings, for readers without JavaScript.
register("[data-cluster-map]", async (container) => {
  const { nodes, edges } = JSON.parse(container.dataset.clusterMap);
  if (nodes.length === 0) return;
  const { placed, links } = await layOut(nodes, edges);
  const [left, right] = [Math.min(...placed.map((one) => one.x)), Math.max(...placed.map((one) => one.x))];
  const [top, bottom] = [Math.min(...placed.map((one) => one.y)), Math.max(...placed.map((one) => one.y))];
  const width = right - left + WIDTH + 2 * MARGIN, height = bottom - top + HEIGHT + 2 * MARGIN;
  const svg = element("svg", { viewBox: `${left - MARGIN} ${top - MARGIN} ${width} ${height}`, role: "group", "aria-label": "Map of logical clusters" });
  svg.append(...links.map(drawEdge), ...placed.map((one) => drawNode(one, container.dataset.address)));
  container.replaceChildren(svg);
  container.hidden = false;
});
