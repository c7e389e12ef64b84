// SPDX-License-Identifier: Apache-2.0
// report_script_test.js THERMOCLINE TRACES: runs the script of what `thermocline report` writes on elements that only note what is done to
// them, where there is no browser (report_page_test.sh has one draw it): it comes to its end, draws what was asked for, and says what lies under
// the pointer in each lane.
"use strict";
const { execFileSync } = require("child_process"), vm = require("vm"), assert = require("assert");
const [, , thermocline, traces] = process.argv;

class Element {
  constructor(tag, text = "") { Object.assign(this, { tag, text, children: [], dataset: {}, attributes: {}, style: {}, filled: [], clientWidth: 1000, clientHeight: 200, offsetWidth: 10, offsetHeight: 10 }); }
  append(...more) {
    for (const child of more.map((one) => typeof one === "string" ? new Element("text", one) : one)) {
      child.parentNode = this;
      this.children.push(child);
    }
  }
  replaceChildren(...more) { this.children = []; this.append(...more); }
  remove() { this.parentNode.children = this.parentNode.children.filter((child) => child !== this); }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener() {}
  get textContent() { return this.text + this.children.map((child) => child.textContent).join(""); }
  getContext() {
    const filled = this.filled;
    return new Proxy({}, { get: (state, name) => name in state ? state[name] : name === "fillRect" ? () => filled.push(state.fillStyle) : name === "measureText" ? (text) => ({ width: 6 * text.length }) : () => {} });
  }
}

function draw(...flags) {
  const page = execFileSync(thermocline, ["report", `${traces}/resnet50_b64.jsonl.gz`, "--show", "1", "-o", "-", ...flags], { encoding: "utf8", maxBuffer: 1 << 28 });
  const known = { data: new Element("script", /<script id="data"[^>]*>([^]*?)<\/script>/.exec(page)[1]), tip: new Element("div"), page: new Element("main") }, made = [];
  const scope = vm.createContext({
    document: { getElementById: (id) => known[id], createElement: (tag) => { made.push(new Element(tag)); return made[made.length - 1]; }, body: new Element("body") },
    window: { addEventListener() {}, matchMedia: () => ({ addEventListener() {} }), devicePixelRatio: 1 },
    getComputedStyle: () => ({ getPropertyValue: (name) => name }),
  });
  vm.runInContext(page.split("<script>\n")[1].split("</script>")[0], scope);
  assert.strictEqual(vm.runInContext("document.body.dataset.drawn", scope), "yes");
  // Under the pointer, in the middle of the longest of a lane.
  const under = (lane) => vm.runInContext(`(() => {
    const run = new Run(JSON.parse(document.getElementById("data").textContent).runs[0]), at = run.lanes.findIndex(([, key]) => key === "${lane}");
    if (at < 0) return null;
    const { t, d } = run["${lane}"], i = d.indexOf(Math.max(...d));
    return hoverLanes(t[i] + d[i] / 2, LANE.top + at * (LANE.height + LANE.gap) + 1, { run });
  })()`, scope);
  return { under, text: known.page.textContent, colours: made.filter((one) => one.tag === "canvas").map((one) => new Set(one.filled)) };
}

const plain = draw("--budget", "60%");
assert.match(plain.under("ops"), /^convolution\w*\noperator \d+, /);
assert.match(plain.under("out"), /^out to the host: .*\nbecause: /);
assert.match(plain.under("in"), /^back to the device: [^]*\nproduced by [^]*\nevicted /);
assert.strictEqual(plain.under("again"), null);
assert.ok(plain.colours.every((colours) => colours.size >= 3 && !colours.has("--again")));
assert.ok(!plain.text.includes("made again"));

const joint = draw("--budget", "50%", "--exact", "--recompute", "auto");
assert.match(joint.under("again"), / again\n.*, before operator \d+\nbecause: planned\nfor buffer \d+, .* dropped .* before[^]*\ncopied out and back instead: .* ms of the link$/);
assert.match(joint.under("ops"), /^convolution/);
assert.ok(joint.colours.every((colours) => colours.has("--again")), "in the chart of memory, and in its lane");
assert.match(joint.text, /In the last step the contents of \d+ buffers \(1\.\d+ GiB\) were dropped without a copy/);
assert.match(joint.text, /What was made again instead of copied[^]*operatorran againtime/);
