// The page: receives the updates of the board, and shows the selected run.

import { drawMean, drawNumber, drawStrip, drawTail, readColours } from "./charts.js";
import { againstTheory, count, milliseconds, number, occupation, percent, verdict, withInterval } from "./format.js";

const MOST_POINTS = 1200; // the same numbers as in board.py
const STRIP_POINTS = 240;

const runs = new Map(); // by id: { run, series, strip }
const at = (id) => document.getElementById(id);
let chosen = null; // the id of the run that is shown
let follow = true; // show the run that started last, until the user selects one
let finished = false;

// --- updates ---

function apply(update) {
  for (const { run, series, strip } of update.runs) {
    const known = runs.get(run.id);
    const kept = known && series === null ? known : { series: series ?? [], strip: [] };
    kept.run = run;
    kept.series.push(...strip);
    if (kept.series.length >= MOST_POINTS) kept.series = kept.series.filter((_, i) => i % 2 === 0);
    kept.strip = [...kept.strip, ...strip].slice(-STRIP_POINTS);
    if (!known && follow && !(chosen && update.ended)) chosen = run.id;
    runs.set(run.id, kept);
  }
  setText("title", update.title);
  document.title = `${update.title} – testbed`;
  finished = update.ended !== null;
  showControls(update.controls);
  showState(update.ended);
  show();
}

function listen() {
  const source = new EventSource("updates");
  source.onmessage = (event) => {
    apply(JSON.parse(event.data));
    // Close before the server does: otherwise the browser would try to reconnect.
    if (finished) source.close();
  };
  source.onerror = () => {
    if (finished) return;
    const state = at("state");
    state.textContent = "✘ Connection lost; reconnecting";
    state.classList.add("lost");
  };
  source.onopen = () => at("state").classList.remove("lost");
}

// --- display ---

function setText(id, text) {
  const element = at(id);
  if (element.textContent !== text) element.textContent = text;
}

function showState(ended) {
  const run = runs.get(chosen)?.run;
  if (ended !== null) setText("state", `■ Ended: ${ended}`);
  else if (!run) setText("state", "● Waiting for the first figures");
  else if (run.state === "finished") setText("state", "● Live; this variant has ended");
  else setText("state", run.horizon === null ? "● Live" : `● Live, ${percent(Math.min(1, run.time / run.horizon), 0)} done`);
}

function cards(run) {
  const unit = run.time_unit_seconds;
  const live = run.state === "running";
  const found = [
    ["mean", `Mean response time${live ? " so far" : ""}`, withInterval(run),
      `${milliseconds(run.mean, unit)} · ${againstTheory(run)}`],
    ["p99", "99 % of jobs within", number(run.quantiles["0.99"], 2),
      `half within ${number(run.quantiles["0.5"], 2)}`],
    ["in-system", `Jobs in the system${live ? "" : ", mean"}`, number(run.in_system, live ? 0 : 1),
      `${run.servers} servers`],
    ["rate", "Jobs per second", count(run.jobs_per_second), `${count(run.completed)} measured`],
    ["probes", "Probes per job", number(run.probes_per_job, 2), ""],
    ["messages", "Messages per job", number(run.messages_per_job, 2), ""],
    ["load", "Load", number(run.load, 3), `stability bound ${number(run.theory?.stability_bound, 3)}`],
    ["verdict", "Verdict", verdict(run), run.checks.filter((check) => !check.passed).map((check) => check.name).join(", ")],
  ];
  if (run.recent_mean !== null && run.horizon === null) {
    found.splice(1, 0, ["recent", `Mean, last ${number(run.recent_seconds, 0)} s`, number(run.recent_mean),
      milliseconds(run.recent_mean, unit)]);
  }
  return found;
}

function showCards(run) {
  const list = at("cards");
  const wanted = cards(run).map(([name, ...texts]) => [`figure-${name}`, ...texts]);
  if (list.dataset.names !== wanted.map(([name]) => name).join()) {
    list.dataset.names = wanted.map(([name]) => name).join();
    list.replaceChildren(...wanted.map(([name]) => {
      const box = document.createElement("div");
      for (const [tag, id, kind] of [["dt", `${name}-name`, ""], ["dd", name, "value"], ["dd", `${name}-note`, "note"]]) {
        const part = document.createElement(tag);
        part.id = id;
        part.className = kind;
        box.append(part);
      }
      return box;
    }));
  }
  for (const [name, label, value, note] of wanted) {
    setText(`${name}-name`, label);
    setText(name, value);
    setText(`${name}-note`, note);
  }
  at("figure-verdict").className = `value ${run.valid ? "good" : "bad"}`;
}

// Fill a table; cells are [text, class]. Rows stay the same elements, so that focus and selection are kept.
function fillTable(id, headings, rows) {
  const table = at(id);
  const head = table.tHead;
  if (!head.rows.length) {
    const row = head.insertRow();
    for (const [text, kind = ""] of headings) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = text;
      cell.className = kind;
      row.append(cell);
    }
  }
  const body = table.tBodies[0];
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, i) => {
    const row = body.rows[i] ?? body.insertRow();
    cells.forEach(([content, kind = ""], j) => {
      const cell = row.cells[j] ?? row.insertCell();
      cell.dataset.heading = headings[j][0];
      if (cell.className !== kind) cell.className = kind;
      if (content instanceof Element) {
        if (cell.firstChild !== content) cell.replaceChildren(content);
      } else if (cell.textContent !== content) cell.textContent = content;
    });
  });
  return body;
}

const choices = new Map();

function choice(run) {
  let label = choices.get(run.id);
  if (!label) {
    label = document.createElement("label");
    const input = document.createElement("input");
    input.type = "radio";
    input.name = "chosen";
    input.value = run.id;
    input.addEventListener("change", () => {
      follow = false;
      chosen = run.id;
      show();
    });
    label.append(input, run.name);
    choices.set(run.id, label);
  }
  label.firstChild.checked = run.id === chosen;
  return label;
}

function showVariants() {
  const all = [...runs.values()].map(({ run }) => run);
  const body = fillTable(
    "variants",
    [["variant"], ["load", "number"], ["mean response time", "number"], ["against theory"], ["p99", "number"],
      ["probes per job", "number"], ["messages per job", "number"], ["verdict"]],
    all.map((run) => [
      [choice(run)], [number(run.load, 2), "number"], [withInterval(run), "number"], [againstTheory(run), "wide"],
      [number(run.quantiles["0.99"], 2), "number"], [number(run.probes_per_job, 2), "number"],
      [number(run.messages_per_job, 2), "number"], [verdict(run), `nowrap ${run.valid ? "good" : "bad"}`],
    ]),
  );
  all.forEach((run, i) => body.rows[i].classList.toggle("chosen", run.id === chosen));
}

function showVerdict(run) {
  const failed = run.checks.filter((check) => !check.passed).length;
  setText("verdict-summary", run.checks.length
    ? `${verdict(run)}: ${run.checks.length - failed} of ${run.checks.length} checks passed.` : "No check has been made yet.");
  fillTable(
    "checks", [["check"], ["result"], ["figure"], ["limit"], ["explanation"]],
    run.checks.map((check) => [
      [check.name, "nowrap"], [check.passed ? "✔ passed" : "✘ failed", `nowrap ${check.passed ? "good" : "bad"}`],
      [check.figure], [check.limit], [check.explanation],
    ]),
  );
  const list = at("incidents");
  run.incidents.slice(list.children.length).forEach((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    list.append(item);
  });
  while (list.children.length > run.incidents.length) list.lastChild.remove();
}

function showProcesses(run) {
  at("processes-section").hidden = run.processes.length === 0;
  const alive = (process) => (process.alive === null ? "ended" : process.alive ? "✔ running" : "✘ dead");
  fillTable(
    "processes",
    [["process"], ["state"], ["pid", "number"], ["restarts", "number"], ["CPU, fraction of a core", "number"],
      ["timer lateness, median", "number"], ["timer lateness, p99", "number"]],
    run.processes.map((process) => [
      [process.name, "nowrap"], [alive(process), "nowrap"], [process.pid === null ? "–" : String(process.pid), "number"],
      [String(process.restarts), "number"], [percent(process.cpu_share), "number"],
      [`${number(1000 * process.lateness_p50, 2)} ms`, "number"], [`${number(1000 * process.lateness_p99, 2)} ms`, "number"],
    ]),
  );
  const counted = [...Object.entries(run.outcomes).map(([name, value]) => [`jobs ${name}`, value]), ...Object.entries(run.counters)];
  fillTable("counters", [["counter"], ["count", "number"]], counted.map(([name, value]) => [[name], [count(value), "number"]]));
}

function describeCharts({ run, series, strip }) {
  setText("mean-summary", `${withInterval(run)} time units; ${againstTheory(run)}.`);
  const theory = run.theory?.response_tail.length ? "" : ` No predicted curve: ${run.theory?.reason ?? "no distribution is derived"}.`;
  setText("tail-summary", `Half of the jobs take longer than ${number(run.quantiles["0.5"], 2)}, 1 % longer than `
    + `${number(run.quantiles["0.99"], 2)}, 0.1 % longer than ${number(run.quantiles["0.999"], 2)} time units.${theory}`);
  const numbers = series.map((point) => point.in_system);
  setText("number-summary", numbers.length ? `Between ${number(Math.min(...numbers), 0)} and ${number(Math.max(...numbers), 0)}; `
    + `at the end ${number(numbers.at(-1), 0)}.` : "No data yet.");
  const events = {};
  for (const point of strip) for (const [kind, n] of Object.entries(point.events)) events[kind] = (events[kind] ?? 0) + n;
  const happened = Object.entries(events).map(([kind, n]) => `${count(n)} ${kind}`).join(", ");
  setText("strip-summary", `At the end: ${occupation(run, strip.at(-1)?.queues)}.${happened ? ` Events shown: ${happened}.` : ""}`);
}

// A chart is drawn only while it is visible: drawing takes most of the page's CPU time.
const drawings = {
  "mean-plot": ({ run, series }) => drawMean("mean-plot", run, series),
  "tail-plot": ({ run }) => drawTail("tail-plot", [...runs.values()].map((other) => other.run), run),
  "number-plot": ({ run, series }) => drawNumber("number-plot", run, series),
  "strip-plot": ({ run, strip }) => drawStrip("strip-plot", run, strip),
};
const visible = new Set();
const stale = new Set(Object.keys(drawings));

function drawStale() {
  const shown = runs.get(chosen);
  if (!shown || document.hidden) return;
  for (const id of [...stale]) {
    if (visible.has(id)) {
      stale.delete(id);
      drawings[id](shown);
    }
  }
  // Plotly measures text in this element: hide it from screen readers.
  at("js-plotly-tester")?.setAttribute("aria-hidden", "true");
}

function show() {
  const shown = runs.get(chosen);
  if (!shown) return;
  const { run } = shown;
  setText("subtitle", `${run.name}: ${run.policy}, ${run.servers} servers, ${1000 * run.time_unit_seconds} ms per time unit`);
  at("comparison").hidden = runs.size < 2;
  showVariants();
  showCards(run);
  showVerdict(run);
  showProcesses(run);
  describeCharts(shown);
  Object.keys(drawings).forEach((id) => stale.add(id));
  drawStale();
}

// --- controls of a long-running cluster ---

let controlled = false;

function showControls(controls) {
  at("controls").hidden = controls === null || finished;
  const run = runs.get(chosen)?.run;
  if (controls === null || !run) return;
  setText("load-bound", `now ${number(run.load, 2)}; stability bound ${number(run.theory?.stability_bound, 2)}`);
  if (controlled) return; // keep what the user is about to choose
  controlled = true;
  at("policy").replaceChildren(...controls.policies.map((name) => new Option(name, name, false, name === run.policy)));
  at("load").value = run.load;
  setText("load-chosen", number(run.load, 2));
}

async function change(key, value, form) {
  const button = form.querySelector("button");
  button.disabled = true;
  setText("answer", "…");
  try {
    const answer = await fetch("set", {
      method: "POST", body: JSON.stringify({ key, value }),
      headers: { "X-Testbed-Secret": document.querySelector("meta[name=testbed-secret]").content },
    });
    const { changed, message } = answer.ok ? await answer.json() : { changed: false, message: await answer.text() };
    setText("answer", `${changed ? "✔" : "✘"} ${message}`);
  } catch (error) {
    setText("answer", `✘ ${error.message}`);
  }
  button.disabled = false;
}

at("load").addEventListener("input", () => setText("load-chosen", number(Number(at("load").value), 2)));
at("load-form").addEventListener("submit", (event) => {
  event.preventDefault();
  change("workload.load", Number(at("load").value), event.target);
});
at("policy-form").addEventListener("submit", (event) => {
  event.preventDefault();
  change("dispatch.policy", at("policy").value, event.target);
});

// --- start ---

const observer = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) visible.add(target.id);
    else visible.delete(target.id);
  }
  drawStale();
}, { rootMargin: "100px" });
Object.keys(drawings).forEach((id) => observer.observe(at(id)));
document.addEventListener("visibilitychange", drawStale);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readColours();
  show();
});
readColours();
listen();
