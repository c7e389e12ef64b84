"use strict";
// The page around the charts: tiles, tables, and the difference of two runs.
const number = (text) => element("td", { class: "n" }, text);
// A column of numbers that is the same in every row says nothing, and is left out.
const table = (heads, rows) => {
  const constant = (at) => at > 0 && heads[at][1] && rows.length > 2 && rows.every((row) => row.children[at].textContent === rows[0].children[at].textContent);
  const gone = heads.map((_, at) => at).filter(constant).reverse();
  for (const row of rows) for (const at of gone) row.children[at].remove();
  return element("table", {},
    element("thead", {}, element("tr", {}, ...heads.filter((_, at) => !gone.includes(at)).map(([name, right]) => element("th", right ? { class: "n" } : {}, name)))),
    element("tbody", {}, ...rows));
};
const tile = (value, name) => element("div", { class: "tile" }, element("b", {}, value), element("span", {}, name));
const section = (title, ...children) => element("section", {}, element("h2", {}, title), ...children);
const legendItem = (colour, name, kind) => element("span", {}, element("i", { class: kind || "", style: (kind ? "border-color:" : "background:") + colour }), name);

function tiles(run) {
  const s = run.summary;
  const made = [tile(s.step_ms.toPrecision(4) + " ms", "a step" + (run.learned ? ", by plan" : "")), tile(s.slowdown.toFixed(2) + " \u00d7", "unlimited memory, " + s.compute_ms.toPrecision(4) + " ms")];
  if (s.bound_ms !== null) made.push(tile((s.step_ms / s.bound_ms).toFixed(2) + " \u00d7", "the least any swapping " + (run.recomputes ? "alone " : "") + "takes, " + s.bound_ms.toPrecision(4) + " ms"));
  made.push(tile(bytes(s.peak_live), "alive at most"), tile(bytes(run.budget), "budget (" + (100 * run.budget / s.peak_live).toFixed(0) + " % of that)"),
    tile(bytes(s.evicted), "out in the last step, " + bytes(s.restored) + " in"), tile(bytes(s.peak_host), "pinned host memory at most"));
  if (run.recomputes) made.push(tile(s.again.ms.toPrecision(3) + " ms", "of the last step makes again what was dropped: " + quantity(s.again.operators, "operator")), tile(bytes(s.dropped.bytes), "dropped in the last step, in " + quantity(s.dropped.contents, "buffer")));
  if (s.split) made.push(tile("in parts", s.split));
  return element("div", { class: "tiles" }, ...made);
}

function charts(run) {
  const memory = new Chart(run, 320, drawMemory, hoverMemory), lanes = new Chart(run, run.lanes.length * (LANE.height + LANE.gap) + 24, drawLanes, hoverLanes);
  const view = new View(run, [memory, lanes]), legend = element("div", { class: "legend" });
  const fill = () => legend.replaceChildren(...run.groups.map((name, k) => [name, k]).filter(([, k]) => run.groupOf.includes(k)).map(([name, k]) => legendItem(PALETTE[k % PALETTE.length], name)),
    legendItem("var(--ink)", "held on the device", "solid"), legendItem("var(--live)", "live on it", "solid"), legendItem(OUT, "evicted", "solid"), ...(run.recomputes ? [legendItem("var(--again)", "dropped", "solid")] : []), legendItem("var(--budget)", "budget", "dash"));
  fill();
  const choice = (what, name) => element("button", { type: "button", "aria-pressed": String(what === (run.hasTags ? "tag" : "class")), onclick: (e) => {
    run.groupBy(what);
    for (const other of e.target.parentNode.querySelectorAll("[aria-pressed]")) other.setAttribute("aria-pressed", String(other === e.target));
    fill();
    view.draw();
  } }, name);
  const controls = element("div", { class: "controls" }, ...(run.hasTags ? [choice("tag", "by tag")] : []), choice("class", "by class"), choice("name", "by operator"),
    element("button", { type: "button", onclick: () => view.set(0, run.length) }, "whole window"),
    element("button", { type: "button", onclick: () => view.set(run.stepEnds.length > 1 ? run.stepEnds[run.stepEnds.length - 2] : 0, run.length) }, "last step"));
  run.view = view;
  return [element("section", {}, element("div", { class: "head" }, element("h2", {}, "Memory over time, by what produced it"), controls), legend, memory.canvas,
    element("p", { class: "hint" }, "Stacked: what the program holds, wherever it is. Wheel to zoom, drag to move, double-click for everything. Vertical lines end steps.")),
  element("section", {}, element("h2", {}, run.recomputes ? "Computing, what is made again, and the link both ways" : "Computing, and the link both ways"), lanes.canvas,
    element("p", { class: "hint" }, "Hover a copy for its buffer, who produced it, and when it was evicted." + (run.recomputes ? " Hover what is made again for what it makes and why, and for how long copies would take." : "")))];
}

function holders(run) {
  const b = run.buffers, alive = run.alive(run.peakAt), most = alive.length ? b.n[alive[0]] : 1;
  const rows = alive.slice(0, 15).map((i) => element("tr", {}, number(bytes(b.n[i])), element("td", {}, element("span", { class: "bar", style: "width:" + (60 * b.n[i] / most).toFixed(0) + "px;background:" + PALETTE[b.c[i] % PALETTE.length] })),
    element("td", {}, run.owner(i)), number(String(b.u[i])), number(String(run.gaps(i).length))));
  return section("Top holders at the peak (" + bytes(run.peak) + " at " + ms(run.peakAt) + ")",
    table([["bytes", true], [""], ["produced by"], ["uses", true], ["parts back", true]], rows));
}

// By producer: what of the peak each holds.
function peakBy(run) {
  const sums = new Map();
  for (const i of run.alive(run.peakAt)) {
    const name = run.owner(i), had = sums.get(name) || { bytes: 0, count: 0 };
    had.bytes += run.buffers.n[i];
    had.count += 1;
    sums.set(name, had);
  }
  return sums;
}

function producers(run) {
  const sums = [...peakBy(run).entries()].sort((x, y) => y[1].bytes - x[1].bytes);
  const most = sums.length ? sums[0][1].bytes : 1;
  const rows = sums.slice(0, 15).map(([name, s]) => element("tr", {}, number(bytes(s.bytes)), element("td", {}, element("span", { class: "bar", style: "width:" + (60 * s.bytes / most).toFixed(0) + "px;background:#4e79a7" })),
    element("td", {}, name), number(String(s.count)), number((100 * s.bytes / run.peak).toFixed(1) + " %")));
  return section("The peak by producer", table([["bytes", true], [""], ["operator"], ["buffers", true], ["of the peak", true]], rows));
}

function stayed(run) {
  const b = run.buffers, left = new Set();
  for (const i of run.out.b) if (i >= 0) left.add(i);
  if (run.recomputes) for (const i of run.drops.b) if (i >= 0) left.add(i);
  const never = run.alive(run.peakAt).filter((i) => !left.has(i)), total = never.reduce((sum, i) => sum + b.n[i], 0);
  const reason = (i) => b.n[i] < run.minOffload ? "smaller than min_offload_bytes (" + bytes(run.minOffload) + ")" : run.summary.evicted === 0 ? "nothing had to leave" : "in use, or others left in its place";
  const rows = never.slice(0, 10).map((i) => element("tr", {}, number(bytes(b.n[i])), element("td", {}, run.owner(i)), element("td", {}, reason(i))));
  const p = run.pinned;
  return section("What stayed on the device",
    element("p", { class: "hint" }, (p.buffers === 0 ? "Pinned by the library: nothing. " : "Pinned by the library: " + quantity(p.buffers, "buffer") + ", " + bytes(p.bytes) + ". ") + "Of what was alive at the peak, " + bytes(total) + " in " + quantity(never.length, "buffer") + " did not leave in this window; the largest:"),
    table([["bytes", true], ["produced by"], ["why"]], rows));
}

// What runs again, by operator; and the contents that it makes, by who produced them first.
function madeAgain(run) {
  const sums = new Map(), s = run.summary, d = run.drops;
  const of = (name) => { if (!sums.has(name)) sums.set(name, { runs: 0, time: 0, contents: 0, bytes: 0, copies: 0 }); return sums.get(name); };
  for (let i = 0; i < run.again.t.length; ++i) { const one = of(run.names[run.again.n[i]]); one.runs += 1; one.time += run.again.d[i]; }
  for (let k = 0; k < d.k.length; ++k) {
    if (d.k[k] < 0 || d.b[k] < 0) continue;
    const one = of(run.producer(run.buffers.p[d.b[k]]));
    one.contents += 1;
    one.bytes += d.n[k];
    one.copies += d.copies[k];
  }
  const all = [...sums.entries()].sort((x, y) => y[1].time - x[1].time), most = all.length ? all[0][1].time : 1;
  const rows = all.slice(0, 15).map(([name, one]) => element("tr", {}, element("td", {}, name), number(String(one.runs)), number(ms(one.time)), element("td", {}, element("span", { class: "bar", style: "width:" + (60 * one.time / (most || 1)).toFixed(0) + "px;background:var(--again)" })),
    number(String(one.contents)), number(bytes(one.bytes)), number(ms(one.copies))));
  const because = new Map();
  for (const w of run.again.w) because.set(w, (because.get(w) || 0) + 1);
  const reasons = [...because.entries()].map(([w, n]) => run.reasons.again[w].replaceAll("_", " ") + " " + n).join(", ");
  return section("What was made again instead of copied",
    element("p", { class: "hint" }, s.dropped.contents === 0 ? "Nothing was dropped in the last step: the plan found copies alone faster, or nothing had to leave, or no plan was in force yet." :
      "In the last step the contents of " + quantity(s.dropped.contents, "buffer") + " (" + bytes(s.dropped.bytes) + ") were dropped without a copy" + (s.dropped.unneeded ? ", of which " + s.dropped.unneeded + " were not read again" : "") + ". " + quantity(s.again.operators, "operator") + " ran again, in " + s.again.ms.toPrecision(3) + " ms. " +
      "The plan drops what makes the step faster than copying it does: the last column is what copies out and back would take of the link." + (reasons ? " Ran again (drawn steps): " + reasons + "." : "")),
    table([["operator"], ["ran again", true], ["time", true], [""], ["buffers", true], ["bytes", true], ["copies", true]], rows));
}

function steps(run) {
  const rows = run.steps.map((s) => element("tr", { class: s.shown ? "on" : null }, number(String(s.index)), number(s.ms.toFixed(2) + " ms"), number(bytes(s.out)), number(bytes(s.in)), ...(run.recomputes ? [number(s.again_ms.toFixed(2) + " ms")] : []), number(String(s.maps))));
  const f = run.fragmentation;
  return section("Steps", table([["step", true], ["time", true], ["out", true], ["in", true], ...(run.recomputes ? [["made again", true]] : []), ["maps", true]], rows),
    element("p", { class: "hint" }, "Marked: those drawn above. Fragmentation at the end: " + bytes(f.blocks - f.live) + " lost by rounding up to whole pages, " + bytes(f.free) + " free but kept for the next allocation."));
}

function difference(a, b) {
  const change = (x, y, show) => element("td", { class: "n " + (y > x ? "more" : y < x ? "less" : "") }, y === x ? "same" : (y > x ? "+" : "\u2212") + show(Math.abs(y - x)));
  const rows = [["a step", a.summary.step_ms, b.summary.step_ms, (n) => n.toFixed(2) + " ms"], ["with unlimited memory", a.summary.compute_ms, b.summary.compute_ms, (n) => n.toFixed(2) + " ms"],
    ["alive at most", a.summary.peak_live, b.summary.peak_live, bytes], ["budget", a.budget, b.budget, bytes], ["out, last step", a.summary.evicted, b.summary.evicted, bytes], ["in, last step", a.summary.restored, b.summary.restored, bytes],
    ...(a.recomputes ? [["dropped, last step", a.summary.dropped.bytes, b.summary.dropped.bytes, bytes], ["made again, last step", a.summary.again.ms, b.summary.again.ms, (n) => n.toFixed(2) + " ms"]] : []),
    ["pinned host memory", a.summary.peak_host, b.summary.peak_host, bytes]].map(([name, x, y, show]) => element("tr", {}, element("td", {}, name), number(show(x)), number(show(y)), change(x, y, show)));
  const pa = peakBy(a), pb = peakBy(b), names = new Set([...pa.keys(), ...pb.keys()]);
  const of = (sums, name) => (sums.get(name) || { bytes: 0 }).bytes;
  const byProducer = [...names].sort((x, y) => Math.abs(of(pb, y) - of(pa, y)) - Math.abs(of(pb, x) - of(pa, x))).slice(0, 20)
    .map((name) => element("tr", {}, element("td", {}, name), number(bytes(of(pa, name))), number(bytes(of(pb, name))), change(of(pa, name), of(pb, name), bytes)));
  return element("div", { class: "two" }, section("Difference", table([["what"], ["A", true], ["B", true], ["B against A", true]], rows)),
    section("Difference of the peaks, by producer", table([["operator"], ["A", true], ["B", true], ["B against A", true]], byProducer)));
}

function show() {
  const runs = data.runs.map((raw) => new Run(raw)), page = document.getElementById("page"), two = runs.length > 1;
  page.replaceChildren(element("h1", {}, two ? "A: " + runs[0].title + "  \u00b7  B: " + runs[1].title : runs[0].title),
    element("p", { class: "under" }, "on " + runs[0].device + ", policy " + runs[0].policy + (runs[0].recomputes ? ", recompute auto" : "") + "; replayed through the library on a simulated device, of " + quantity(runs[0].steps.length, "step") + " the last " + (runs[0].stepEnds.length === 1 ? "is" : runs[0].stepEnds.length + " are") + " drawn. thermocline " + data.version));
  if (two) page.append(difference(runs[0], runs[1]));
  runs.forEach((run, i) => {
    if (two) page.append(element("h1", { style: "margin-top:24px" }, "AB"[i] + ": " + run.title));
    page.append(tiles(run), ...charts(run), ...(run.recomputes ? [madeAgain(run)] : []), element("div", { class: "two" }, holders(run), producers(run)), element("div", { class: "two" }, stayed(run), steps(run)));
  });
  const draw = () => runs.forEach((run) => run.view.draw());
  window.addEventListener("resize", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); });
  window.addEventListener("beforeprint", draw);
  draw();
  document.body.dataset.drawn = "yes";
}
show();
