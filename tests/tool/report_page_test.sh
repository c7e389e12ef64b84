#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# report_page_test.sh THERMOCLINE TRACES: lets a browser draw what `thermocline report` writes, without a window, and looks at what it has drawn:
# the page says that it came to its end, every chart has ink in more than one color, and nothing in it went wrong. Exits with 77 where there
# is no Chromium.
set -euo pipefail
thermocline=${1:?the command} traces=${2:?the folder of traces}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
  echo "report_page_test: skipped: there is no Chromium to draw the page"
  exit 77
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Runs behind the page's own script. Colors of opaque pixels, as far as four bits a channel tell them apart.
cat >"$scratch/probe.js" <<'JS'
document.body.dataset.colours = [...document.querySelectorAll("canvas")].map((canvas) => {
  const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer), seen = new Set();
  for (const pixel of pixels) if (pixel >>> 24 === 255) seen.add(pixel & 0xf0f0f0);
  return seen.size;
}).join(" ");
// Recomputed operators are violet, more or less, in the second lane.
const lanes = document.querySelectorAll("canvas")[1], scale = lanes.height / lanes.clientHeight, laneTop = LANE.top + LANE.height + LANE.gap;
const pixel = lanes.getContext("2d").getImageData(0, Math.ceil(laneTop * scale), lanes.width, Math.floor(LANE.height * scale)).data;
let again = 0;
for (let i = 0; i < pixel.length; i += 4) if (pixel[i] > pixel[i + 1] + 15 && pixel[i + 2] > pixel[i + 1] + 15) ++again;
document.body.dataset.again = data.runs[0].recompute === "auto" ? (again > 0 ? "drawn" : "missing") : (again > 0 ? "unasked" : "none");
document.body.dataset.rows = document.querySelectorAll("tbody tr").length;
document.body.dataset.events = data.runs.reduce((sum, run) => sum + run.ops.t.length + 2 * run.buffers.n.length + run.out.t.length + run.in.t.length, 0);
// As by hand: the wheel shows less, the mouse says what is there, a double click shows all again.
const canvas = document.querySelector("canvas"), drawing = () => canvas.toDataURL(), all = drawing();
const by = (Event, kind, more) => canvas.dispatchEvent(new Event(kind, { clientX: canvas.getBoundingClientRect().left + 400, clientY: canvas.getBoundingClientRect().top + 60, bubbles: true, cancelable: true, ...more }));
const began = performance.now();
by(WheelEvent, "wheel", { deltaY: -100 });
document.body.dataset.zoomed = drawing() === all ? "no" : "yes";
by(MouseEvent, "mousemove", {});
document.body.dataset.hovered = !tip.hidden && tip.textContent.includes("on the device") ? "yes" : "no";
by(MouseEvent, "dblclick", {});
document.body.dataset.back = drawing() === all ? "yes" : "no";
document.body.dataset.milliseconds = (performance.now() - began).toFixed(0);
JS

# NAME CANVASES REPORT'S FLAGS...
draw() {
  local name=$1 canvases=$2 page=$scratch/$1.html colours rows property
  shift 2
  "$thermocline" report "$@" -o "$page" 2>"$scratch/said" || {
    cat "$scratch/said" >&2
    exit 1
  }
  {
    sed '/<\/body>/,$d' "$page"
    echo "<script>window.onerror = (what) => { document.body.dataset.error = what; };</script><script>"
    cat "$scratch/probe.js"
    echo "</script></body></html>"
  } >"$scratch/probed.html"
  "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$scratch/profile" --timeout=120000 --dump-dom \
    "file://$scratch/probed.html" >"$scratch/dom" 2>"$scratch/said" || {
    cat "$scratch/said" >&2
    exit 1
  }
  body=$(grep -o '<body[^>]*>' "$scratch/dom" | head -n 1)
  [[ $body == *'data-drawn="yes"'* && $body != *data-error* ]] || {
    echo "report_page_test: $name was not drawn to its end: $body" >&2
    exit 1
  }
  colours=$(sed -n 's/.*data-colours="\([^"]*\)".*/\1/p' <<<"$body")
  awk -v wanted="$canvases" '{ for (i = 1; i <= NF; ++i) if ($i < 3) exit 1; exit NF != wanted }' <<<"$colours" || {
    echo "report_page_test: $name has charts of '$colours' colours, where $canvases of at least 3 were expected" >&2
    exit 1
  }
  for property in zoomed hovered back; do
    [[ $body == *"data-$property=\"yes\""* ]] || {
      echo "report_page_test: $name: not $property by wheel, mouse and double click: $body" >&2
      exit 1
    }
  done
  events=$(sed -n 's/.*data-events="\([^"]*\)".*/\1/p' <<<"$body")
  echo "report_page_test: $name: $events events; zoomed, hovered and back in $(sed -n 's/.*data-milliseconds="\([^"]*\)".*/\1/p' <<<"$body") ms"
  rows=$(sed -n 's/.*data-rows="\([^"]*\)".*/\1/p' <<<"$body")
  ((rows > 20)) || {
    echo "report_page_test: $name has $rows rows in its tables, where more than 20 were expected" >&2
    exit 1
  }
}

draw one 2 "$traces/resnet50_b64.jsonl.gz" --budget 60%
[[ $body == *'data-again="none"'* ]] || {
  echo "report_page_test: one shows what is made again, where nothing is: $body" >&2
  exit 1
}
draw again 2 "$traces/resnet50_b64.jsonl.gz" --budget 50% --exact --recompute auto
[[ $body == *'data-again="drawn"'* ]] || {
  echo "report_page_test: again does not show what is made again: $body" >&2
  exit 1
}
draw two 4 "$traces/resnet50_b64.jsonl.gz" --budget 60% --against "$traces/unet3d_b1_128.jsonl.gz"
# A million events; under sanitizers a third of that.
steps=27
((${THERMOCLINE_TEST_SEEDS:-100} >= 100)) || steps=10
draw long 2 "$traces/cifar_resnet1001_b64.jsonl.gz" --budget 60% --steps $steps --show $((steps - 2))
((events >= (steps - 2) * 40000)) || {
  echo "report_page_test: the long page has $events events" >&2
  exit 1
}
