"use strict";
// Text goes in by textContent only: nothing that a view or an error is called can become markup.
const ORDER = ["", "converged", "weak", "strong", "complete"];
const DRAWN_MAX = 200;
const byId = (id) => document.getElementById(id);
let status = null;
let chosen = null;

function cell(row, text, className) {
  const td = row.insertCell();
  td.textContent = text;
  if (className) td.className = className;
  return td;
}

function drawViews() {
  const wanted = byId("filter").value.toLowerCase();
  const worst = { broken: 0, degraded: 1, building: 2, paused: 3, live: 4 };
  const found = status.views
    .filter((v) => (v.name + " " + v.state).toLowerCase().includes(wanted))
    .sort((a, b) => worst[a.state] - worst[b.state] || b.lag_ms - a.lag_ms || a.name.localeCompare(b.name));
  const body = byId("views").tBodies[0];
  body.replaceChildren();
  for (const view of found.slice(0, DRAWN_MAX)) {
    const row = body.insertRow();
    row.tabIndex = 0;
    const below = view.audited_level && ORDER.indexOf(view.audited_level) < ORDER.indexOf(view.declared_level);
    cell(row, view.name);
    cell(row, view.state, "state state-" + view.state);
    cell(row, view.declared_level);
    cell(row, view.audited_level || "not yet", below ? "below" : "");
    cell(row, Math.round(view.lag_ms).toLocaleString(), "number");
    cell(row, view.row_count.toLocaleString(), "number");
    cell(row, view.quarantined_count.toLocaleString(), "number");
    cell(row, view.problem);
    const choose = () => { chosen = view.name; drawPlan(); };
    row.onclick = choose;
    row.onkeydown = (press) => { if (press.key === "Enter") choose(); };
  }
  byId("more").textContent = found.length > DRAWN_MAX
    ? `${found.length - DRAWN_MAX} more views match; narrow the filter` : `${found.length} of ${status.views.length} views`;
}

function drawPlan() {
  const view = status.views.find((v) => v.name === chosen);
  byId("plan-name").textContent = view ? view.name : "choose a view";
  byId("plan").textContent = view ? view.plan : "";
}

function drawLine(id, values) {
  const svg = byId(id);
  const top = Math.max(1, ...values);
  const points = values.map((v, i) => `${(i * 600) / Math.max(1, values.length - 1)},${118 - (v / top) * 112}`);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  line.setAttribute("points", points.join(" "));
  svg.replaceChildren(line);
  const caption = svg.previousElementSibling;
  caption.dataset.name = caption.dataset.name || caption.textContent;
  caption.textContent = `${caption.dataset.name}: now ${Math.round(values.at(-1) || 0).toLocaleString()}, highest ${Math.round(top).toLocaleString()}`;
}

function drawEpochs() {
  drawLine("lag", status.epochs.map((e) => e.lag_ms));
  drawLine("rate", status.epochs.map((e, i) => {
    const before = status.epochs[i - 1];
    const seconds = before ? e.committed_at - before.committed_at : e.duration_ms / 1000;
    return seconds > 0 ? e.change_count / seconds : 0;
  }));
  const body = byId("epochs").tBodies[0];
  body.replaceChildren();
  for (const epoch of status.epochs.slice(-15).reverse()) {
    const row = body.insertRow();
    cell(row, epoch.epoch, "number");
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

function draw() {
  byId("pipeline").textContent = status.pipeline;
  const unwell = status.views.filter((v) => v.state === "broken" || v.state === "degraded").length;
  byId("summary").textContent = `${status.leader ? "leads" : "stands by"} · epoch ${status.committed_epoch} · ` +
    `${status.views.length} views, ${unwell ? unwell + " need attention" : "none needs attention"} · ` +
    `${status.queued_change_count.toLocaleString()} changes wait`;
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
}

async function refresh() {
  try {
    status = await (await fetch("status.json")).json();
    draw();
  } catch {
    byId("summary").textContent = "the sidecar does not answer";
  }
  setTimeout(refresh, 2000);
}

byId("filter").oninput = () => { if (status) drawViews(); };
refresh();
