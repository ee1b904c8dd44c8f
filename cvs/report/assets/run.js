"use strict";
const D = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const ROW = 24, TOP = 22, WIDE = 600;
let GUTTER = 210;
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const el = (tag, text, cls) => { const n = document.createElement(tag); if (text !== undefined) n.textContent = text; if (cls) n.className = cls; return n; };
const FEW = 3, MANY = 30, STRIPS = 8, STRIP = 32;
let lanes = [], place = new Map(), folded = new Set(), view = [0, 1], selected = null, hover = null, shown = D.events;
const span = Math.max(1, D.until - D.from);
const drawn = D.drawn ? D.drawn.map(t => (t - D.from) / span) : [0, 1]; // outside of it operations are left out
const byEvent = new Map(D.events.map(e => [e.e, e]));
const bad = new Map();
for (const v of D.violations) if (v.event) { if (!bad.has(v.event)) bad.set(v.event, []); bad.get(v.event).push(v.sentence); }

function head() {
  $("title").textContent = D.title; $("about").textContent = D.about; $("omitted").textContent = D.omitted;
  for (const g of D.granularities) {
    const box = el("div", undefined, "level"); box.append(el("span", g.title, "by"), el("b", g.level));
    const chips = el("div", undefined, "chips");
    for (const p of g.properties) chips.append(el("span", p.name, "chip " + p.verdict));
    box.append(chips); $("levels").append(box);
  }
  const marks = [["applied", "applied"], ["rejected", "rejected"], ["unknown", "unknown"], ["read", "read"], ["base", "base update"]];
  for (const [kind, word] of marks) {
    const c = document.createElement("canvas"), r = devicePixelRatio || 1; c.width = 22 * r; c.height = 12 * r; c.style.width = "22px"; c.style.height = "12px";
    const g = c.getContext("2d"); g.scale(r, r); mark(g, kind, 3, 6, 16); const s = el("span"); s.append(c, word); $("legend").append(s);
  }
  if (!D.violations.length) { $("jump").disabled = true; $("jump").textContent = "No violation"; }
}
function color(kind) { return css({applied: "--applied", rejected: "--rejected", unknown: "--unknown", read: "--read", base: "--base", not_sent: "--soft"}[kind] || "--soft"); }
function mark(g, kind, x, y, w) {
  g.strokeStyle = g.fillStyle = color(kind); g.lineWidth = 1.6; g.setLineDash([]);
  const h = 9, width = Math.max(w, 5);
  if (kind === "base") { g.beginPath(); g.moveTo(x + width / 2, y - 5.5); g.lineTo(x + width / 2 + 5.5, y); g.lineTo(x + width / 2, y + 5.5); g.lineTo(x + width / 2 - 5.5, y); g.fill(); g.fillRect(x, y - .75, width, 1.5); }
  else if (kind === "applied") { g.beginPath(); g.roundRect(x, y - h / 2, width, h, 3); g.fill(); }
  else if (kind === "rejected") { g.strokeRect(x + .5, y - h / 2, width - 1, h); g.beginPath(); g.moveTo(x + 1, y + h / 2); g.lineTo(x + Math.min(width, 9), y - h / 2); g.stroke(); }
  else if (kind === "unknown") { g.setLineDash([3, 2.5]); g.strokeRect(x + .5, y - h / 2, width - 1, h); g.setLineDash([]); }
  else if (kind === "read") { g.beginPath(); g.arc(x + width / 2, y, 4.5, 0, 7); g.stroke(); g.fillRect(x, y - .6, width, 1.2); }
  else { g.beginPath(); g.moveTo(x, y - 4); g.lineTo(x + 8, y + 4); g.moveTo(x + 8, y - 4); g.lineTo(x, y + 4); g.stroke(); }
}
function canvas(c, width, height) {
  const r = devicePixelRatio || 1; c.width = width * r; c.height = height * r; c.style.width = width + "px"; c.style.height = height + "px";
  const g = c.getContext("2d"); g.scale(r, r); g.clearRect(0, 0, width, height); return g;
}
const sizes = new Map(); for (const l of D.lanes) sizes.set(l.group, (sizes.get(l.group) || 0) + 1);
if (D.lanes.length > MANY) for (const l of D.lanes) if (l.kind === "base" && sizes.get(l.group) > FEW) folded.add(l.group);
function lay(wanted, closed) { // rows from lanes: a closed group is one row
  lanes = []; place = new Map(); const head = new Map();
  for (const i of wanted) {
    const l = D.lanes[i];
    if (!closed.has(l.group)) { place.set(i, lanes.length); lanes.push({...l, name: (sizes.get(l.group) > FEW && !head.has(l.group) ? "▾ " : "") + l.name}); head.set(l.group, -1); continue; }
    if (!head.has(l.group)) { head.set(l.group, lanes.length); lanes.push({...l, name: "▸ " + l.group.slice(l.group.indexOf(" ") + 1), many: 0}); }
    const row = lanes[head.get(l.group)]; place.set(i, head.get(l.group)); row.many++; row.violated = row.violated || l.violated;
  }
}
const inner = () => Math.max(50, $("field").clientWidth - GUTTER - 14);
const X = t => GUTTER + (((t - D.from) / span - view[0]) / (view[1] - view[0])) * inner();
const clip = x => Math.max(GUTTER - 6, Math.min(x, GUTTER + inner() + 14));
let spots = [];
function draw() {
  GUTTER = $("field").clientWidth < WIDE ? 120 : 210;
  strip(); // first, because it takes its height from the field
  const w = $("field").clientWidth, h = Math.max(120, $("field").clientHeight), scroll = $("field").scrollTop;
  $("tall").style.height = Math.max(0, lanes.length * ROW + TOP + 10 - h) + "px";
  const g = canvas($("stage"), w, h); spots = [];
  const first = Math.max(0, Math.floor((scroll - TOP) / ROW)), last = Math.min(lanes.length, Math.ceil((scroll + h) / ROW));
  const Y = row => TOP + row * ROW + ROW / 2 - scroll;
  g.font = "12px system-ui, sans-serif"; g.textBaseline = "middle";
  for (let row = first; row < last; row++) {
    const lane = lanes[row];
    if (row && lanes[row - 1].kind !== lane.kind) { g.fillStyle = css("--soft"); g.fillRect(0, Y(row) - ROW / 2, w, 1); }
    g.fillStyle = css("--line"); g.fillRect(GUTTER, Y(row), inner() + 14, 1);
    g.fillStyle = lane.violated ? css("--bad") : css("--ink"); g.fillText((lane.violated ? "✖ " : "") + ending(g, lane.name + (lane.many ? " · " + lane.many.toLocaleString() + " records" : ""), GUTTER - (lane.violated ? 34 : 20)), 10, Y(row));
  }
  missing(g, w, h);
  const visible = shown.filter(e => X(e.t1) >= GUTTER && X(e.t0) <= w).length, faint = Math.min(.22, 40 / Math.max(1, visible));
  g.save(); g.beginPath(); g.rect(GUTTER - 4, 0, w, h); g.clip();
  for (const e of shown) {
    const row = place.get(e.l), to = e.v === undefined ? undefined : place.get(e.v);
    if (row === undefined && to === undefined) continue;
    const a = X(e.t0), b = X(e.t1); if (b < GUTTER - 4 || a > w) continue;
    const x = clip(a), width = Math.max(5, clip(b) - x), wrong = bad.has(e.e), point = e.p === undefined ? x + width : clip(X(e.p));
    if (row !== undefined && to !== undefined && (row < last && to >= first)) { g.strokeStyle = color(e.k); g.globalAlpha = e === selected || e === hover ? .9 : wrong ? Math.max(faint, 8 / visible) : faint; g.lineWidth = 1; g.beginPath(); g.moveTo(point, Y(row)); g.lineTo(point, Y(to)); g.stroke(); g.globalAlpha = 1; }
    for (const at of [row, to]) {
      if (at === undefined || at < first - 1 || at > last) continue;
      mark(g, e.k, at === to && row !== undefined ? point - 5 : x, Y(at), at === to && row !== undefined ? 5 : width);
      if (wrong || e === selected) { g.strokeStyle = wrong ? css("--bad") : css("--ink"); g.lineWidth = 2; g.beginPath(); g.roundRect(x - 4, Y(at) - 9, width + 8, 18, 5); g.stroke(); }
      if (e.s && !lanes[at].many && at === (to === undefined ? row : to) && inner() * (1 / (view[1] - view[0])) / Math.max(1, D.events.length) > 34) { g.fillStyle = css("--soft"); g.fillText(short(e.s, 16), x + width + 5, Y(at)); }
      spots.push([x - 3, Y(at) - 9, width + 6, 18, e]);
    }
  }
  g.restore(); axis(g);
}
function short(text, n) { return text.length > n ? text.slice(0, n - 1) + "…" : text; }
function ending(g, text, width) { // its end tells records apart
  let n = text.length; const cut = () => n < text.length ? text.slice(0, 4) + "…" + text.slice(5 - n) : text;
  while (n > 8 && g.measureText(cut()).width > width) n--;
  return cut();
}
function time(t, step = 1) { // as exactly as a step asks for
  if (D.unit) return D.unit + " " + Math.round(t).toLocaleString();
  const n = Math.round(t - D.from), [size, unit] = n >= 1e9 ? [1e9, " s"] : n >= 1e6 ? [1e6, " ms"] : n >= 1e3 ? [1e3, " µs"] : [1, " ns"];
  const places = Math.max(0, Math.min(9, Math.ceil(Math.log10(size / Math.max(1, step)))));
  return (n / size).toLocaleString("en", {minimumFractionDigits: places, maximumFractionDigits: places}) + unit;
}
function missing(g, w, h) { // says where operations are left out
  if (!D.drawn) return;
  g.font = "12px system-ui, sans-serif";
  for (const [from, to] of [[0, drawn[0]], [drawn[1], 1]]) {
    const a = Math.max(GUTTER, X(D.from + from * span)), b = Math.min(w, X(D.from + to * span)); if (b - a < 1) continue;
    g.fillStyle = css("--wash"); g.fillRect(a, TOP - 4, b - a, h); if (b - a < 90) continue;
    g.fillStyle = css("--soft"); g.textAlign = "center"; g.fillText("not drawn", (a + b) / 2, TOP + ROW / 2); g.textAlign = "start";
  }
}
function axis(g) {
  g.fillStyle = css("--paper"); g.fillRect(0, 0, GUTTER + inner() + 14, TOP - 4); g.fillStyle = css("--soft"); g.font = "11px system-ui, sans-serif";
  const n = Math.max(2, Math.min(6, Math.floor(inner() / 100))), size = view[1] - view[0];
  for (let i = 0; i < n; i++) g.fillText(time(D.from + (view[0] + size * i / n) * span, span * size / n / 4), GUTTER + inner() * i / n, 9);
}
function strip() {
  $("strip").hidden = !D.strips.length; if (!D.strips.length) return;
  const w = $("field").clientWidth, rows = D.strips.slice(0, STRIPS), H = Math.max(STRIP, 96 / Math.max(1, rows.length)), g = canvas($("strip"), w, H * Math.max(1, rows.length)); g.font = "12px system-ui, sans-serif"; g.textBaseline = "middle";
  rows.forEach((s, i) => {
    const y = i * H, top = Math.max(1, ...s.states.map(q => q.lag));
    g.fillStyle = css("--ink"); g.fillText(short(s.title, 27), 10, y + H / 2 - 7); g.fillStyle = css("--soft"); g.fillText(s.of + (s.states.some(q => q.ok !== null) ? " · lag up to " + top : ""), 10, y + H / 2 + 8);
    s.states.forEach((q, n) => {
      const next = n + 1 < s.states.length ? s.states[n + 1].t : D.until, a = clip(X(q.t)), b = clip(X(next)); if (b <= a) return;
      const bad = q.ok === false; g.fillStyle = css(bad ? "--bad" : q.ok ? "--good" : "--soft"); g.globalAlpha = bad ? .85 : .28; g.fillRect(a, y + 4, Math.max(b - a, bad ? 2 : 0), H - 8); g.globalAlpha = 1;
      g.fillStyle = css("--ink"); const height = (H - 12) * q.lag / top; g.fillRect(a, y + H - 4 - height, Math.max(b - a, 1), 1.5);
    });
  });
}
function panel(e) {
  const p = $("panel"); p.replaceChildren();
  if (!e) {
    p.append(el("h2", D.violations.length ? D.violations.length + (D.violations.length > 1 ? " violations" : " violation") : "Nothing is violated"));
    const kinds = new Map(); for (const v of D.violations) kinds.set(v.group, [...(kinds.get(v.group) || []), v]);
    for (const own of kinds.values()) {
      for (const v of own.slice(0, 2)) { if (v.event) { const a = el("a", v.sentence); a.href = "#e" + v.event; p.append(a); } else p.append(el("p", v.sentence, "why")); }
      if (own.length > 2) p.append(el("p", "… and of " + (own.length - 2).toLocaleString() + " more records of this view", "more"));
    }
    if (D.beside.length) { p.append(el("h3", "Not in the recorded order: no level fails by it")); for (const s of D.beside.slice(0, 5)) p.append(el("p", s)); if (D.beside.length > 5) p.append(el("p", "… and " + (D.beside.length - 5).toLocaleString() + " more", "more")); }
    if (D.undecided.length) { p.append(el("h3", "Undecided")); for (const s of D.undecided.slice(0, 20)) p.append(el("p", s)); }
    return;
  }
  const back = el("button", "← " + (D.violations.length ? "all violations" : "the whole")); back.onclick = leave; p.append(back);
  p.append(el("h2", "event " + e.e.toLocaleString() + " · " + e.k));
  for (const s of bad.get(e.e) || []) p.append(el("p", s, "why"));
  const dl = el("dl"); const add = (k, v) => { dl.append(el("dt", k), el("dd", v)); };
  add("time", time(e.t0) + " … " + (e.open ? "never returned" : time(e.t1)));
  for (const [k, v] of e.d) add(k, v);
  p.append(dl);
}
function select(e, move) {
  selected = e; panel(e); if (!e) { draw(); return; }
  if (move) {
    if (place.get(e.l) === undefined && place.get(e.v) === undefined) { $("filter").value = ""; filter(); }
    const at = (e.t0 - D.from) / span, size = (drawn[1] - drawn[0]) * Math.min(1, 60 / Math.max(60, D.events.length)); view = fence(at - size / 2, at + size / 2);
    const row = place.get(e.v === undefined ? e.l : e.v); $("field").scrollTop = Math.max(0, row * ROW - $("field").clientHeight / 2);
  }
  draw();
}
function leave() { selected = null; panel(null); draw(); }
function next(by) { const i = shown.indexOf(selected), e = shown[i < 0 ? (by > 0 ? 0 : shown.length - 1) : i + by]; if (e) { history.replaceState(null, "", "#e" + e.e); select(e, true); } }
function fold() { const all = new Set([...sizes.keys()].filter(group => sizes.get(group) > FEW)); folded = folded.size ? new Set() : all; filter(); }
function fence(a, b) { const size = Math.min(1, Math.max(1e-9, b - a)); a = Math.max(0, Math.min(a, 1 - size)); return [a, a + size]; }
function pan(f) { const d = (view[1] - view[0]) * f; view = fence(view[0] + d, view[1] + d); draw(); }
function zoom(f, at = .5) { const c = view[0] + (view[1] - view[0]) * at, s = (view[1] - view[0]) * f; view = fence(c - s * at, c + s * (1 - at)); draw(); }
function filter() {
  const q = $("filter").value.trim().toLowerCase(); const wanted = Number(q.replace(/[#e,]/g, ""));
  if (q && /^[#e]?[\d,]+$/.test(q) && byEvent.has(wanted) && !D.lanes.some(l => l.name.toLowerCase().includes(q))) { shown = D.events; lay(D.lanes.keys(), folded); select(byEvent.get(wanted), true); return; }
  const hit = new Set(D.lanes.map((l, i) => i).filter(i => !q || D.lanes[i].name.toLowerCase().includes(q)));
  shown = q ? D.events.filter(e => hit.has(e.l) || hit.has(e.v)) : D.events;
  const used = new Set(q ? shown.flatMap(e => e.v === undefined ? [e.l] : [e.l, e.v]) : D.lanes.keys());
  lay([...D.lanes.keys()].filter(i => used.has(i)), q ? new Set() : folded);
  $("count").textContent = q ? shown.length.toLocaleString() + (shown.length === 1 ? " event of " : " events of ") + D.events.length.toLocaleString() : ""; draw();
}
function fromHash() { const m = /^#e(\d+)$/.exec(location.hash); if (m) { const e = byEvent.get(Number(m[1])); if (e) select(e, true); else $("panel").replaceChildren(el("p", "event " + m[1] + " is not drawn; " + D.omitted)); } }
const at = ev => { const r = $("stage").getBoundingClientRect(), x = ev.clientX - r.left, y = ev.clientY - r.top; const s = spots.find(([a, b, w, h]) => x >= a && x <= a + w && y >= b && y <= b + h); return s && s[4]; };
let drag = null;
$("stage").onmousedown = ev => { drag = [ev.clientX, view[0]]; };
window.onmouseup = () => { drag = null; };
$("stage").onmousemove = ev => { if (drag) { const d = (ev.clientX - drag[0]) / inner() * (view[1] - view[0]); view = fence(drag[1] - d, drag[1] - d + view[1] - view[0]); draw(); return; } const e = at(ev) || null; if (e !== hover) { hover = e; if (e || !selected) panel(e || selected); draw(); } };
$("stage").onclick = ev => {
  const box = $("stage").getBoundingClientRect(), lane = lanes[Math.floor((ev.clientY - box.top + $("field").scrollTop - TOP) / ROW)];
  if (ev.clientX - box.left < GUTTER && lane && sizes.get(lane.group) > FEW) { if (!folded.delete(lane.group)) folded.add(lane.group); filter(); return; }
  const e = at(ev); if (e) { location.hash = "e" + e.e; select(e, false); } else leave(); };
$("stage").addEventListener("wheel", ev => { if (ev.ctrlKey || ev.shiftKey) { ev.preventDefault(); zoom(ev.deltaY > 0 ? 1.25 : .8, Math.max(0, Math.min(1, (ev.offsetX - GUTTER) / inner()))); } }, {passive: false});
const KEYS = {j: () => $("jump").click(), n: () => next(1), p: () => next(-1), "+": () => zoom(.7), "-": () => zoom(1.4), f: fold, "/": () => $("filter").focus(), Home: () => $("fit").click(),
  ArrowLeft: () => pan(-.2), ArrowRight: () => pan(.2), ArrowUp: () => $("field").scrollBy(0, -3 * ROW), ArrowDown: () => $("field").scrollBy(0, 3 * ROW), Escape: leave};
window.onkeydown = ev => {
  if (ev.ctrlKey || ev.metaKey || ev.altKey) return;
  if (ev.target.tagName === "INPUT") { if (ev.key === "Escape") { ev.target.value = ""; filter(); } if (ev.key === "Escape" || ev.key === "Enter") $("stage").focus(); return; }
  if (Object.hasOwn(KEYS, ev.key)) { ev.preventDefault(); KEYS[ev.key](); }
};
$("jump").onclick = () => { const v = D.violations.find(v => v.event && byEvent.has(v.event)); if (v) { location.hash = "e" + v.event; select(byEvent.get(v.event), true); } };
$("in").onclick = () => zoom(.6); $("out").onclick = () => zoom(1.6); $("fit").onclick = () => { view = [0, 1]; draw(); };
$("filter").oninput = filter; $("field").onscroll = draw; new ResizeObserver(draw).observe($("field")); window.onhashchange = fromHash;
view = [...drawn]; head(); filter(); panel(null); if (D.query) { $("filter").value = D.query; filter(); } fromHash();
document.body.dataset.ready = String(D.events.length);
