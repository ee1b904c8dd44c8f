"use strict";
// Text goes in by textContent only: nothing that a view or an error is called can become markup.
const ORDER = ["", "converged", "weak", "strong", "complete"];
const DRAWN_MAX = 200;
const EPOCHS_A_LIFE = 1e10; // the same number as in cvs/programs/epoch.py: incarnations count anew
const byId = (id) => document.getElementById(id);
let status = null;
let chosen = null;

function cell(row, text, className, label) {
  const td = row.insertCell();
  td.textContent = text;
  if (className) td.className = className;
  if (label) td.dataset.label = label;
  return td;
}

function drawViews() {
  const wanted = byId("filter").value.toLowerCase();
  const worst = { broken: 0, degraded: 1, building: 2, paused: 3, live: 4 };
  const found = status.views
    .filter((v) => (v.name + " " + v.state).toLowerCase().includes(wanted))
    .sort((a, b) => worst[a.state] - worst[b.state] || b.lag_ms - a.lag_ms || a.name.localeCompare(b.name, undefined, { numeric: true }));
  const body = byId("views").tBodies[0];
  body.replaceChildren();
  for (const view of found.slice(0, DRAWN_MAX)) {
    const row = body.insertRow();
    row.tabIndex = 0;
    const below = view.audited_level && ORDER.indexOf(view.audited_level) < ORDER.indexOf(view.declared_level);
    cell(row, view.name);
    cell(row, view.state, "state state-" + view.state);
    cell(row, view.declared_level, "level", "declared");
    cell(row, view.audited_level || "not yet", below ? "level below" : "level", "audited");
    const stands = ["paused", "broken"].includes(view.state) || !status.watermark;
    cell(row, stands ? "-" : Math.round(view.lag_ms).toLocaleString(), "number", "lag ms");
    cell(row, view.row_count.toLocaleString(), "number", "rows");
    cell(row, view.quarantined_count.toLocaleString(), "number", "quarantined");
    cell(row, view.problem);
    const choose = () => { chosen = view.name; drawPlan(); };
    row.onclick = choose;
    row.onkeydown = (press) => { if (press.key === "Enter") choose(); };
  }
  byId("more").textContent = found.length > DRAWN_MAX
    ? `${found.length - DRAWN_MAX} more views match; narrow the filter` : `${found.length} of ${status.views.length} views`;
}

function drawPlan() {
  const view = status.views.find((v) => v.name === chosen) || status.views[0];
  byId("plan-name").textContent = view ? view.name : "no view yet";
  byId("plan").textContent = view ? view.plan : "";
}

// One line over time; x is the commit's time, so a pause shows as a gap in width, not as nothing.
function drawLine(id, points, unit) {
  const figure = byId(id);
  const values = points.map((p) => p[1]);
  const top = Math.max(1, ...values);
  const first = points.length ? points[0][0] : 0;
  const span = points.length > 1 ? points.at(-1)[0] - first : 1;
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  line.setAttribute("points", points.map(([t, v]) => `${((t - first) * 600) / span},${118 - (v / top) * 112}`).join(" "));
  figure.querySelector("svg").replaceChildren(line);
  const shown = (v) => Math.round(v).toLocaleString();
  figure.querySelector(".now").textContent = values.length ? `${shown(values.at(-1))} ${unit}` : "nothing yet";
  figure.querySelector(".top").textContent = `${shown(top)} ${unit}`;
  figure.querySelector(".ago").textContent = points.length > 1 ? `${ago(span)} ago` : "";
}

function place(epoch) {
  const before = Math.floor(epoch / EPOCHS_A_LIFE);
  return (epoch % EPOCHS_A_LIFE).toLocaleString() + (before ? ` of incarnation ${before + 1}` : "");
}

function ago(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

function drawEpochs() {
  drawLine("lag", status.epochs.map((e) => [e.committed_at, e.lag_ms]), "ms");
  drawLine("rate", status.epochs.slice(1).map((e, i) => {
    const seconds = e.committed_at - status.epochs[i].committed_at;
    return [e.committed_at, seconds > 0 ? e.change_count / seconds : 0];
  }), "/s");
  const body = byId("epochs").tBodies[0];
  body.replaceChildren();
  for (const epoch of status.epochs.slice(-15).reverse()) {
    const row = body.insertRow();
    cell(row, (epoch.epoch % EPOCHS_A_LIFE).toLocaleString(), "number");
    cell(row, new Date(epoch.committed_at * 1000).toLocaleTimeString());
    cell(row, epoch.change_count.toLocaleString(), "number");
    cell(row, Math.round(epoch.duration_ms).toLocaleString(), "number");
    const parts = cell(row, "");
    for (const [name, ms] of epoch.phases_ms) {
      const bar = document.createElement("span");
      bar.className = "bar";
      bar.style.width = `${Math.max(1, (140 * ms) / Math.max(1, epoch.duration_ms))}px`;
      bar.title = `${name} ${Math.round(ms)} ms`;
      parts.append(bar);
    }
    const words = document.createElement("span");
    words.className = "quiet";
    words.textContent = epoch.phases_ms.map(([name, ms]) => `${name} ${Math.round(ms)}`).join(" · ");
    parts.append(words);
  }
}

function health(unwell) {
  if (unwell) return `${unwell} to look after`;
  if (!status.views.length) return "none applied yet";
  return status.problems.length ? "none broken, see the problems" : "all well";
}

function draw() {
  byId("pipeline").textContent = status.pipeline;
  document.body.classList.remove("silent");
  byId("building").hidden = !status.building;
  byId("building").querySelector("progress").value = status.build_part;
  byId("building").querySelector("span").textContent = `a build goes on: ${status.building}`;
  const unwell = status.views.filter((v) => v.state === "broken" || v.state === "degraded").length;
  const fresh = status.watermark ? `shows what was written ${ago(Math.max(0, Date.now() / 1000 - status.watermark))} ago` : "nothing shown yet";
  byId("summary").textContent = `${status.leader ? "leads" : "stands by"} · epoch ${place(status.committed_epoch)} · ` +
    `${status.views.length.toLocaleString()} ${status.views.length === 1 ? "view" : "views"}, ${health(unwell)} · ` +
    `${fresh} · ${status.queued_change_count.toLocaleString()} changes wait`;
  document.title = unwell || status.problems.length ? `▲ cvs ${status.pipeline}` : `cvs ${status.pipeline}`;
  const problems = byId("problems");
  problems.hidden = status.problems.length === 0;
  problems.querySelector("ul").replaceChildren(...status.problems.map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  }));
  drawViews();
  drawPlan();
  drawEpochs();
  document.body.dataset.drawn = status.views.length;
}

async function refresh() {
  try {
    status = await (await fetch("status.json")).json();
    draw();
  } catch {
    byId("summary").textContent = "the sidecar does not answer: what is below is old";
    document.title = "✖ cvs does not answer";
    document.body.classList.add("silent");
  }
  setTimeout(refresh, 2000);
}

byId("filter").oninput = () => { if (status) drawViews(); };
refresh();
