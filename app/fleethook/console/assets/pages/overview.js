import { register } from "../behaviours.js";

const COLOURS = ["--link", "--warn", "--good", "--bad", "--focus", "--muted"];
// Each line is drawn over the ones before it: through its gaps, equal lines stay visible.
const DASHES = [[], [8, 8], [3, 5], [12, 4, 2, 4]];
const HEIGHT = 140;

const format = (value) => (value === null || value === undefined ? "not measured" : String(Number(value.toPrecision(3))));

/** Returns the places of values without a neighbour, which no line connects: they are dots. */
const findDots = (values) => values.flatMap((one, at) => (one != null && values[at - 1] == null && values[at + 1] == null ? [at] : []));

/** Returns a time in UTC as `2026-11-25 21:37:05`, the form of the tables. */
const formatTime = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ");

/** Returns the labels of a time axis: the time, and below it the date where a new one begins. */
function labelTimes(ticks, step) {
  return ticks.map((tick, index) => {
    const [date, time] = formatTime(tick).split(" ");
    if (step >= 86400) return date;
    const shown = step < 60 ? time : time.slice(0, 5);
    return index === 0 || formatTime(ticks[index - 1]).slice(0, 10) !== date ? `${shown}\n${date}` : shown;
  });
}

function makeOptions(uPlot, host, chart) {
  const style = getComputedStyle(host);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  return {
    title: chart.title, width: host.clientWidth, height: HEIGHT,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [{ ...axis, space: 80, values: (_, ticks, _axis, _space, step) => labelTimes(ticks, step) }, { ...axis, size: 60, values: (_, ticks) => ticks.map(format) }],
    // Without a pointer, the legend has the last values. Lines differ by their dashes, too: colours alone do not suffice.
    series: [{ label: "Time (UTC)", value: (_, seconds) => formatTime(seconds ?? chart.times.at(-1)) }, ...chart.lines.map((one, index) => ({
      label: `${one.name} (${chart.unit})`, stroke: colour(COLOURS[index % COLOURS.length]), width: 2,
      dash: DASHES[index % DASHES.length], points: { show: true, size: 7, filter: () => findDots(one.values) }, value: (_, value, _series, at) => format(at === null ? one.values.at(-1) : value),
    }))],
  };
}

register("[data-chart]", async (host) => {
  const { default: uPlot } = await import("uplot");
  const chart = JSON.parse(host.dataset.chart);
  const data = [chart.times, ...chart.lines.map((one) => one.values)];
  let plot = null;
  const draw = () => {
    plot?.destroy();
    plot = new uPlot(makeOptions(uPlot, host, chart), data, host);
  };
  host.setAttribute("role", "img");
  host.setAttribute("aria-label", `${chart.title}; the table below has the figures`);
  draw();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  document.addEventListener("fleethook:theme", draw);
  dark.addEventListener("change", draw);
  const sizes = new ResizeObserver(() => {
    if (host.isConnected) { if (host.clientWidth !== plot.width) plot.setSize({ width: host.clientWidth, height: HEIGHT }); return; }
    // htmx has replaced the chart. The observer reports the size 0 of a removed element.
    plot.destroy(); sizes.disconnect();
    document.removeEventListener("fleethook:theme", draw);
    dark.removeEventListener("change", draw);
  });
  sizes.observe(host);
});
