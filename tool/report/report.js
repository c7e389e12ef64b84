"use strict";
// Draws what tool/report_data.cc writes. Times are tenths of microseconds from the window's beginning. Whatever is
// narrower than a pixel is summed up per pixel, so that a million events draw as fast as a thousand.
const data = JSON.parse(document.getElementById("data").textContent);
const PALETTE = ["#8a97a8", "#bab0ac", "#4e79a7", "#59a14f", "#b07aa1", "#f2a541", "#76b7b2", "#d98c8c", "#9c755f", "#c9a227", "#86bcb6", "#d37295", "#8cd17d", "#fabfd2", "#a0cbe8", "#ffbe7d", "#7c6a9c"];
const OUT = "#e15759", IN = "#3f9b57";
// Of the page's scheme, light or dark: report.css has them.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const colours = {};
const readColours = () => { for (const name of ["ink", "soft", "panel", "grid", "lane", "mark", "halo", "budget", "live", "again"]) colours[name] = colour(name); };
readColours();
const tip = document.getElementById("tip");

const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null) made.setAttribute(key, value);
  }
  for (const child of children) made.append(child);
  return made;
};
const bytes = (n) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; Math.abs(n) >= 1024 && at < 4; ++at) n /= 1024;
  return (at === 0 ? n : n.toFixed(at > 2 ? 2 : 1)) + " " + units[at];
};
const quantity = (count, one) => count + " " + one + (count === 1 ? "" : "s");
const ms = (tenths) => {
  const value = tenths / 1e4;
  return value >= 100 ? value.toFixed(1) + " ms" : value >= 1 ? value.toFixed(2) + " ms" : (value * 1e3).toFixed(1) + " \u00b5s";
};
// The last index whose value is not above `x`; -1: none.
const floorIndex = (sorted, x) => {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= x) low = middle + 1; else high = middle;
  }
  return low - 1;
};
const running = (deltas) => { let sum = 0; return Float64Array.from(deltas, (d) => (sum += d)); };

class Run {
  constructor(raw) {
    Object.assign(this, raw);
    this.ops.t = running(this.ops.t);
    this.recomputes = raw.recompute === "auto";
    this.lanes = LANES.filter(([, key]) => key !== "again" || this.recomputes);
    for (const [, key] of this.lanes) if (key !== "ops") this[key].t = running(this[key].t);
    const b = this.buffers;
    const order = [];
    for (let i = 0; i < b.n.length; ++i) {
      order.push([b.t[i], i, 1]);
      order.push([b.t[i] + b.d[i], i, -1]);
    }
    order.sort((x, y) => x[0] - y[0] || x[2] - y[2]);
    this.changes = order;
    let live = 0;
    this.peak = 0;
    this.peakAt = 0;
    for (const [at, i, sign] of order) {
      live += sign * b.n[i];
      if (live > this.peak) { this.peak = live; this.peakAt = at; }
    }
    this.ops.here = this.liveOnDevice();
    this.hasTags = this.tags.length > 1;
    this.groupBy(this.hasTags ? "tag" : "class");
  }
  // The live bytes that are on the device, in MiB, at each operator.
  liveOnDevice() {
    let at = 0, live = 0;
    return this.ops.t.length === 0 ? [] : Array.from(this.ops.t, (t, i) => {
      while (at < this.changes.length && this.changes[at][0] <= t) { live += this.changes[at][2] * this.buffers.n[this.changes[at][1]]; ++at; }
      return Math.max(0, live / 1048576 - this.ops.evicted[i] - (this.recomputes ? this.ops.dropped[i] : 0));
    });
  }
  // Colors and names of what memory is stacked by.
  groupBy(what) {
    const b = this.buffers;
    if (what === "class") {
      this.groups = this.classes;
      this.groupOf = b.c;
      return;
    }
    if (what === "tag") {
      // The first word: "activation layers.0.attn" is an activation.
      const kinds = this.tags.map((tag) => tag.split(" ")[0] || "without a tag");
      this.groups = [...new Set(b.g.map((tag) => kinds[tag]))].sort();
      this.groupOf = b.g.map((tag) => this.groups.indexOf(kinds[tag]));
      return;
    }
    const total = new Map();
    for (let i = 0; i < b.n.length; ++i) total.set(b.p[i], (total.get(b.p[i]) || 0) + b.n[i] * b.d[i]);
    const largest = [...total.entries()].sort((x, y) => y[1] - x[1]).slice(0, PALETTE.length - 1).map((x) => x[0]);
    this.groups = largest.map((p) => this.producer(p)).concat(total.size > largest.length ? ["others"] : []);
    const place = new Map(largest.map((p, i) => [p, i]));
    this.groupOf = b.p.map((p) => place.has(p) ? place.get(p) : largest.length);
  }
  // Of a buffer: who produced it, and what the program calls it.
  owner(i) {
    const tag = this.tags[this.buffers.g[i]];
    return this.producer(this.buffers.p[i]) + (tag ? " (" + tag + ")" : "");
  }
  producer(p) { return p < 0 ? "from before" : this.names[p]; }
  // An operator, and of a part of one which.
  operatorTitle(i) {
    const parts = this.ops.parts ? this.ops.parts[i] : 0;
    return this.names[this.ops.n[i]] + (parts ? " part " + (this.ops.part[i] + 1) + " of " + parts : "");
  }
  // What runs again, and for what: of its group, the contents that are made.
  madeBy(i) {
    const group = this.again.k[i], d = this.drops, found = [];
    for (let k = 0; k < d.k.length; ++k) if (d.k[k] === group) found.push(k);
    return found;
  }
  content(k) { return this.drops.b[k] < 0 ? "a buffer" : "buffer " + this.buffers.id[this.drops.b[k]]; }
  alive(at) {
    const found = [], b = this.buffers;
    for (let i = 0; i < b.n.length; ++i) if (b.t[i] <= at && at < b.t[i] + b.d[i] + (b.d[i] === 0)) found.push(i);
    return found.sort((x, y) => b.n[y] - b.n[x]);
  }
  // Stretches [from, to) in which all or a part of the buffer was evicted: from the end of the copy out to the copy back.
  gaps(buffer) {
    const found = [];
    for (let i = 0; i < this.in.t.length; ++i) {
      const out = this.in.r[i];
      if (this.in.b[i] === buffer && out >= 0) found.push([this.out.t[out] + this.out.d[out], this.in.t[i], this.in.n[i]]);
    }
    return found;
  }
}

class Chart {
  constructor(run, height, draw, hover) {
    Object.assign(this, { run, height, drawInto: draw, hover });
    this.canvas = element("canvas", { style: "height:" + height + "px" });
    this.left = 76;
    this.canvas.addEventListener("mousemove", (e) => this.moved(e));
    this.canvas.addEventListener("mouseleave", () => { tip.hidden = true; });
    this.canvas.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    this.canvas.addEventListener("mousedown", (e) => { this.dragged = { x: e.offsetX, from: this.view.from, to: this.view.to }; });
    window.addEventListener("mouseup", () => { this.dragged = null; });
    this.canvas.addEventListener("dblclick", () => this.view.set(0, run.length));
  }
  get width() { return this.canvas.clientWidth; }
  x(t) { return this.left + (t - this.view.from) / (this.view.to - this.view.from) * (this.width - this.left - 8); }
  t(x) { return this.view.from + (x - this.left) / (this.width - this.left - 8) * (this.view.to - this.view.from); }
  draw() {
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = this.width * scale;
    this.canvas.height = this.height * scale;
    const g = this.canvas.getContext("2d");
    g.scale(scale, scale);
    g.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    this.drawInto(g, this);
  }
  wheel(e) {
    e.preventDefault();
    const at = this.t(e.offsetX), by = e.deltaY > 0 ? 1.25 : 0.8;
    this.view.set(at - (at - this.view.from) * by, at + (this.view.to - at) * by);
  }
  moved(e) {
    if (this.dragged && e.buttons) {
      const d = this.dragged, by = (d.x - e.offsetX) / (this.width - this.left - 8) * (d.to - d.from);
      this.view.set(d.from + by, d.to + by);
      return;
    }
    const text = e.offsetX < this.left ? null : this.hover(this.t(e.offsetX), e.offsetY, this);
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    tip.style.left = Math.min(e.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(e.clientY + 14, window.innerHeight - tip.offsetHeight - 8) + "px";
  }
}

// What all charts of a run show; they move together.
class View {
  constructor(run, charts) {
    Object.assign(this, { from: 0, to: run.length, run, charts });
    for (const chart of charts) chart.view = this;
  }
  set(from, to) {
    const least = this.run.length / 1e5, span = Math.max(least, Math.min(to - from, this.run.length));
    this.from = Math.max(0, Math.min(from, this.run.length - span));
    this.to = this.from + span;
    this.draw();
  }
  draw() { for (const chart of this.charts) chart.draw(); }
}

const nice = (x) => {
  const power = Math.pow(10, Math.floor(Math.log10(x)));
  return [1, 2, 5, 10].map((f) => f * power).find((f) => f >= x);
};

function drawTimeAxis(g, chart, top, bottom) {
  const { run, view } = chart;
  g.textAlign = "center";
  const every = nice((view.to - view.from) / 8);
  for (let t = Math.ceil(view.from / every) * every; t <= view.to; t += every) {
    const x = chart.x(t);
    g.fillStyle = colours.soft;
    g.fillText((t / 1e4).toFixed(every < 1e3 ? 2 : every < 1e4 ? 1 : 0) + " ms", Math.min(x, chart.width - 24), bottom + 14);
    g.fillStyle = colours.grid;
    g.fillRect(x, top, 1, bottom - top);
  }
  for (const end of run.stepEnds) {
    if (end < view.from || end > view.to) continue;
    g.fillStyle = colours.mark;
    g.fillRect(chart.x(end) - 0.5, top, 1, bottom - top);
  }
}

// Per pixel column, the most of each group while its time lasts.
function stack(run, view, columns) {
  const groups = run.groups.length, now = new Float64Array(groups), total = new Float64Array(columns);
  const columnsOf = Array.from({ length: groups }, () => new Float64Array(columns));
  const b = run.buffers;
  let at = 0, sum = 0;
  const take = () => {
    const [, i, sign] = run.changes[at++];
    now[run.groupOf[i]] += sign * b.n[i];
    sum += sign * b.n[i];
  };
  while (at < run.changes.length && run.changes[at][0] <= view.from) take();
  for (let c = 0; c < columns; ++c) {
    const end = view.from + (c + 1) / columns * (view.to - view.from);
    const keep = () => { total[c] = sum; for (let k = 0; k < groups; ++k) columnsOf[k][c] = now[k]; };
    keep();
    while (at < run.changes.length && run.changes[at][0] < end) {
      take();
      if (sum > total[c]) keep();
    }
  }
  return columnsOf;
}

function drawMemory(g, chart) {
  const { run, view } = chart, top = 8, bottom = chart.height - 20, room = bottom - top;
  const most = Math.max(run.peak, Math.min(run.budget, run.peak * 1.15)) * 1.05, y = (n) => bottom - n / most * room;
  drawTimeAxis(g, chart, top, bottom);
  g.textAlign = "right";
  const every = Math.pow(2, Math.ceil(Math.log2(most / 6)));
  for (let n = 0; n <= most; n += every) {
    g.fillStyle = colours.grid;
    g.fillRect(chart.left, y(n), chart.width - chart.left - 8, 1);
    g.fillStyle = colours.soft;
    g.fillText(n === 0 ? "0" : bytes(n).replace(".00", "").replace(".0 ", " "), chart.left - 8, y(n) + 4);
  }
  const columns = Math.max(1, Math.floor(chart.width - chart.left - 8)), stacked = stack(run, view, columns);
  const base = new Float64Array(columns);
  stacked.forEach((group, k) => {
    g.fillStyle = PALETTE[k % PALETTE.length];
    g.beginPath();
    g.moveTo(chart.left, y(base[0]));
    for (let c = 0; c < columns; ++c) { g.lineTo(chart.left + c, y(base[c] + group[c])); g.lineTo(chart.left + c + 1, y(base[c] + group[c])); }
    for (let c = columns - 1; c >= 0; --c) { g.lineTo(chart.left + c + 1, y(base[c])); g.lineTo(chart.left + c, y(base[c])); }
    g.fill();
    for (let c = 0; c < columns; ++c) base[c] += group[c];
  });
  drawHeld(g, chart, y);
  if (run.budget <= most) {
    g.strokeStyle = g.fillStyle = colours.budget;
    g.lineWidth = 2.5;
    g.setLineDash([7, 4]);
    g.beginPath();
    g.moveTo(chart.left, y(run.budget));
    g.lineTo(chart.width - 8, y(run.budget));
    g.stroke();
    g.setLineDash([]);
    g.textAlign = "left";
    g.font = "600 11px system-ui, 'DejaVu Sans', sans-serif";
    g.lineWidth = 3;
    g.strokeStyle = colours.panel;
    const text = "budget " + bytes(run.budget);
    g.strokeText(text, chart.left + 6, y(run.budget) - 5);
    g.fillText(text, chart.left + 6, y(run.budget) - 5);
  }
}

// Per pixel column the least and the most of a value that holds until the next operator has another.
function spans(run, view, columns, value) {
  const { t } = run.ops, least = new Float64Array(columns), most = new Float64Array(columns);
  let i = Math.max(0, floorIndex(t, view.from));
  for (let c = 0; c < columns; ++c) {
    const end = view.from + (c + 1) / columns * (view.to - view.from);
    least[c] = most[c] = value[i];
    while (i + 1 < t.length && t[i + 1] < end) {
      const v = value[++i];
      if (v < least[c]) least[c] = v; else if (v > most[c]) most[c] = v;
    }
  }
  return { least, most };
}

// What the device held, and what was evicted. Filled columns, for a stroke of thousands of overlapping lines takes a
// browser half a second.
function drawHeld(g, chart, y) {
  const { run, view } = chart, columns = Math.max(1, Math.floor(chart.width - chart.left - 8));
  const line = ({ least, most }, colour, thick) => {
    g.fillStyle = colour;
    for (let c = 0; c < columns; ++c) {
      const before = Math.max(0, c - 1), high = y(Math.max(most[c], least[before]) * 1048576), low = y(Math.min(least[c], most[before]) * 1048576);
      g.fillRect(chart.left + c, high - thick / 2, 1, low - high + thick);
    }
  };
  const held = spans(run, view, columns, run.ops.held);
  line(held, colours.halo, 3.5);
  line(held, colours.ink, 1.5);
  line(spans(run, view, columns, run.ops.here), colours.live, 1.5);
  line(spans(run, view, columns, run.ops.evicted), OUT, 1.5);
  if (run.recomputes) line(spans(run, view, columns, run.ops.dropped), colours.again, 1.5);
}

// Where contents are recomputed, what runs again has a lane of its own.
const LANES = [["computing", "ops", "#4e79a7"], ["made again", "again", null], ["out to host", "out", OUT], ["in to device", "in", IN]];
const LANE = { height: 26, gap: 8, top: 6 };

function drawLanes(g, chart) {
  const { run, view } = chart, bottom = chart.height - 20;
  drawTimeAxis(g, chart, 2, bottom);
  run.lanes.forEach(([name, key, ofLane], at) => {
    const colour = ofLane || colours.again;
    const top = LANE.top + at * (LANE.height + LANE.gap), lane = run[key];
    g.fillStyle = colours.soft;
    g.textAlign = "right";
    g.fillText(name, chart.left - 8, top + LANE.height / 2 + 4);
    g.fillStyle = colours.lane;
    g.fillRect(chart.left, top, chart.width - chart.left - 8, LANE.height);
    const columns = Math.max(1, Math.floor(chart.width - chart.left - 8)), busy = new Float64Array(columns);
    const perColumn = (view.to - view.from) / columns, wide = [];
    for (let i = Math.max(0, floorIndex(lane.t, view.from)); i < lane.t.length && lane.t[i] < view.to; ++i) {
      const from = (lane.t[i] - view.from) / perColumn, to = (lane.t[i] + lane.d[i] - view.from) / perColumn;
      if (to - from > 3) { wide.push(i); continue; }
      for (let c = Math.max(0, Math.floor(from)); c < Math.min(columns, Math.ceil(to)); ++c) {
        busy[c] += Math.max(0, Math.min(to, c + 1) - Math.max(from, c));
      }
    }
    g.fillStyle = colour;
    for (let c = 0; c < columns; ++c) {
      if (busy[c] <= 0) continue;
      g.globalAlpha = Math.min(1, 0.15 + 0.85 * busy[c]);
      g.fillRect(chart.left + c, top, 1, LANE.height);
    }
    g.globalAlpha = 1;
    g.textAlign = "left";
    for (const i of wide) {
      const x = Math.max(chart.left, chart.x(lane.t[i])), end = Math.min(chart.width - 8, chart.x(lane.t[i] + lane.d[i]));
      g.fillStyle = key === "ops" ? PALETTE[run.opClass[lane.n[i]] % PALETTE.length] : colour;
      g.fillRect(x, top, Math.max(0.5, end - x - 0.6), LANE.height);
      const text = key === "ops" ? run.operatorTitle(i) : key === "again" ? run.names[lane.n[i]] : lane.b[i] < 0 ? "" : "buffer " + run.buffers.id[lane.b[i]];
      if (end - x > 40 && g.measureText(text).width < end - x - 8) {
        g.fillStyle = "#fff";
        g.fillText(text, x + 4, top + LANE.height / 2 + 4);
      }
    }
  });
}

const aboutBuffer = (run, i) => {
  const b = run.buffers;
  const text = "buffer " + b.id[i] + ", " + bytes(b.n[i]) + "\nproduced by " + run.owner(i) + " (" + run.classes[b.c[i]] + ")\nalive " + ms(b.d[i]) + ", used " + quantity(b.u[i], "time");
  const gaps = run.gaps(i);
  return text + (gaps.length === 0 ? "" : gaps.slice(0, 4).map(([from, to, n]) => "\nevicted " + ms(from) + " \u2013 " + ms(to) + " (" + bytes(n) + ")").join("") + (gaps.length > 4 ? "\nand " + quantity(gaps.length - 4, "more part") : "")) + aboutDrops(run, i);
};
const aboutDrops = (run, i) => {
  if (!run.recomputes) return "";
  const d = run.drops, all = d.b.map((b, k) => b === i ? k : -1).filter((k) => k >= 0);
  return all.slice(0, 4).map((k) => "\ndropped at " + ms(d.t[k]) + (d.k[k] < 0 ? ", not read again" : ", made again by " + ms(d.t[k] + d.d[k]))).join("");
};

function aboutRerun(run, i) {
  const { n, d, t, w, before } = run.again, made = run.madeBy(i);
  const copies = made.reduce((sum, k) => sum + run.drops.copies[k], 0);
  return run.names[n[i]] + " again\n" + ms(d[i]) + " at " + ms(t[i]) + ", before operator " + before[i] + "\nbecause: " + run.reasons.again[w[i]].replaceAll("_", " ") +
    made.slice(0, 4).map((k) => "\nfor " + run.content(k) + ", " + bytes(run.drops.n[k]) + ", dropped " + ms(run.drops.d[k]) + " before").join("") +
    (made.length > 4 ? "\nand " + quantity(made.length - 4, "more buffer") : "") + (made.length === 0 ? "" : "\ncopied out and back instead: " + ms(copies) + " of the link");
}

function hoverMemory(t, y, chart) {
  const { run } = chart, held = run.alive(t), at = Math.max(0, floorIndex(run.ops.t, t));
  const live = held.reduce((sum, i) => sum + run.buffers.n[i], 0), of = new Map();
  for (const i of held) of.set(run.groupOf[i], (of.get(run.groupOf[i]) || 0) + run.buffers.n[i]);
  const groups = [...of.entries()].sort((a, b) => b[1] - a[1]).slice(0, 5);
  return ms(t) + ", while " + run.operatorTitle(at) + "\nalive " + bytes(live) + " in " + quantity(held.length, "buffer") + "\non the device " + bytes(run.ops.held[at] * 1048576) + ", evicted " + bytes(run.ops.evicted[at] * 1048576) + (run.recomputes ? ", dropped " + bytes(run.ops.dropped[at] * 1048576) : "") +
    "\n" + groups.map(([k, n]) => bytes(n) + "  " + run.groups[k]).join("\n");
}

function hoverLanes(t, y, chart) {
  const { run } = chart, at = Math.floor((y - LANE.top) / (LANE.height + LANE.gap));
  if (at < 0 || at >= run.lanes.length) return null;
  const key = run.lanes[at][1], lane = run[key], i = floorIndex(lane.t, t);
  if (i < 0 || t > lane.t[i] + lane.d[i]) return null;
  if (key === "ops") return run.operatorTitle(i) + "\noperator " + (run.firstOperator + i) + ", " + ms(lane.d[i]) + "\nat " + ms(lane.t[i]);
  if (key === "again") return aboutRerun(run, i);
  const what = (key === "out" ? "out to the host" : "back to the device") + ": " + bytes(lane.n[i]) + " in " + ms(lane.d[i]) + (lane.w[i] < 0 ? "" : "\nbecause: " + run.reasons[key][lane.w[i]].replaceAll("_", " "));
  const buffer = lane.b[i];
  return what + (buffer < 0 ? "" : "\n" + aboutBuffer(run, buffer));
}
