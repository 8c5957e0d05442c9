// The charts, drawn with Plotly. Lines differ in dash pattern or marks, not only in colour.

const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const PATTERNS = { stolen: "/", shared: "\\", rerouted: "x", replicated: ".", cancelled: "-" };
const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false };

let colours = {};

export function readColours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["text", "quiet", "surface", "grid", "line", "accent", "theory", "band",
    "heat-0", "heat-1", "heat-2", "heat-3", "heat-4",
    "other-1", "other-2", "other-3", "other-4", "other-5", "other-6"];
  colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

const axis = (title, more = {}) => ({
  title: { text: title, standoff: 6 }, gridcolor: colours.grid, zerolinecolor: colours.grid, linecolor: colours.line,
  fixedrange: true, automargin: true, ...more,
});

const layout = (x, y, more = {}) => ({
  paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
  font: { color: colours.text, size: 13, family: "system-ui, sans-serif" },
  margin: { l: 8, r: 8, t: 8, b: 8 }, dragmode: false, hovermode: "closest",
  hoverlabel: { bgcolor: colours.surface, bordercolor: colours.line, font: { color: colours.text } },
  legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12 } },
  xaxis: x, yaxis: y, ...more,
});

const narrow = () => innerWidth < 640;

const draw = (id, traces, plan) => Plotly.react(id, traces, plan, CONFIG);

// Mean response time so far, its interval, and the theory's mean.
export function drawMean(id, run, points) {
  const drawn = points.filter((point) => point.mean !== null);
  const banded = drawn.filter((point) => point.half_width !== null);
  const x = drawn.map((point) => point.time);
  const traces = [];
  if (banded.length) {
    const times = banded.map((point) => point.time);
    const upper = banded.map((point) => point.mean + point.half_width);
    const lower = banded.map((point) => Math.max(0, point.mean - point.half_width));
    traces.push({
      x: [...times, ...times.toReversed()], y: [...upper, ...lower.toReversed()], fill: "toself",
      fillcolor: colours.band, line: { width: 0 }, mode: "lines", name: "95 % interval", hoverinfo: "skip",
    });
  }
  traces.push({ x, y: drawn.map((point) => point.mean), mode: "lines", name: "mean so far",
    line: { color: colours.accent, width: 2.5 } });
  if (run.horizon === null) {
    traces.push({ x, y: drawn.map((point) => point.recent), mode: "lines", name: "recent mean",
      line: { color: colours.quiet, width: 1.5, dash: "dot" } });
  }
  if (run.theory?.mean) {
    const ends = [Math.max(run.since, x[0] ?? 0), run.horizon ?? x.at(-1) ?? 1];
    traces.push({ x: ends, y: [run.theory.mean, run.theory.mean], mode: "lines", name: `theory (${run.theory.kind})`,
      line: { color: colours.theory, width: 2, dash: "dash" } });
  }
  draw(id, traces, layout(axis("time (time units)"), axis("response time (time units)", { rangemode: "tozero" })));
}

// P(response time > t) of every run; the chosen one is thicker, its prediction is dashed with open marks.
export function drawTail(id, runs, chosen) {
  const traces = runs.filter((run) => run.response_tail.length).map((run) => {
    const i = runs.indexOf(run) % DASHES.length;
    const strong = run.id === chosen.id;
    return {
      x: run.response_tail.map((point) => point[0]), y: run.response_tail.map((point) => point[1]), name: run.name,
      mode: "lines", opacity: strong ? 1 : 0.75,
      line: { color: colours[`other-${i + 1}`], width: strong ? 3 : 1.5, dash: DASHES[i], shape: "linear" },
    };
  });
  const least = Math.min(1e-3, ...runs.flatMap((run) => run.response_tail.map((point) => point[1])));
  const times = runs.flatMap((run) => run.response_tail.map((point) => point[0]));
  const theory = (chosen.theory?.response_tail ?? []).filter((point) => point[1] >= least / 2);
  if (theory.length) {
    traces.push({ x: theory.map((point) => point[0]), y: theory.map((point) => point[1]), mode: "lines+markers",
      name: `theory (${chosen.theory.kind})`, line: { color: colours.theory, width: 2, dash: "dash" },
      marker: { symbol: "circle-open", size: 7, color: colours.theory } });
  }
  const powers = { type: "log", exponentformat: "power", minor: { showgrid: false }, dtick: 1 };
  const longest = Math.max(1, ...times, ...theory.map((point) => point[0]));
  draw(id, traces, layout(
    axis("t (time units)", { ...powers, range: [-1.3, Math.log10(longest) + 0.05] }),
    axis("fraction of jobs", { ...powers, range: [Math.log10(least) - 0.1, 0.1] }),
    // On a phone the legend has a line for each curve: make the chart higher, so that the plot keeps its size.
    narrow() ? { height: 290 + 22 * traces.length } : {},
  ));
}

// The number in system over time.
export function drawNumber(id, run, points) {
  draw(id, [{
    x: points.map((point) => point.time), y: points.map((point) => point.in_system), mode: "lines", name: "jobs",
    line: { color: colours.accent, width: 2 }, fill: "tozeroy", fillcolor: colours.band,
  }], layout(axis("time (time units)"), axis("jobs in the system", { rangemode: "tozero" }), { showlegend: false }));
}

// The queue lengths of all servers over time, and below them the events between two points.
export function drawStrip(id, run, strip) {
  const drawn = strip.filter((point) => point.queues.length);
  const x = drawn.map((point) => point.time);
  const rows = drawn[0]?.queues.length ?? 0;
  const most = Math.max(3, ...drawn.map((point) => Math.max(...point.queues)));
  const kinds = [...new Set(drawn.flatMap((point) => Object.keys(point.events)))].sort();
  const traces = [{
    type: "heatmap", x, y: Array.from({ length: rows }, (_, row) => row * run.servers_per_row),
    z: Array.from({ length: rows }, (_, row) => drawn.map((point) => point.queues[row])), zmin: 0, zmax: most,
    colorscale: [0, 0.2, 0.45, 0.7, 1].map((at, i) => [at, colours[`heat-${i}`]]),
    colorbar: { title: { text: "tasks", side: "right" }, thickness: 12, outlinewidth: 0,
      tickformat: "d", y: kinds.length ? 0.64 : 0.5, len: kinds.length ? 0.72 : 1 },
    hovertemplate: "server %{y}, time %{x:.1f}: %{z} tasks<extra></extra>",
  }];
  // Each bar spans the time since the previous point.
  const width = x.map((time, i) => time - (x[i - 1] ?? Math.max(0, 2 * time - (x[i + 1] ?? time))));
  const middle = x.map((time, i) => time - width[i] / 2);
  kinds.forEach((kind, i) => traces.push({
    type: "bar", name: kind, x: middle, width, y: drawn.map((point) => point.events[kind] ?? 0), yaxis: "y2",
    marker: { line: { width: 0 },
      pattern: { shape: PATTERNS[kind], solidity: 0.3, size: 6, fgcolor: colours.surface, bgcolor: colours[`other-${i + 1}`] } },
    hovertemplate: `%{y} ${kind} about time %{x:.1f}<extra></extra>`,
  }));
  const plan = layout(
    axis("time (time units)", { anchor: kinds.length ? "y2" : "y", showgrid: false }),
    axis("server", { domain: [kinds.length ? 0.3 : 0, 1], showgrid: false }),
    { barmode: "stack", bargap: 0, showlegend: kinds.length > 0 },
  );
  if (kinds.length) plan.yaxis2 = axis("events", { domain: [0, 0.22], rangemode: "tozero" });
  draw(id, traces, plan);
}

