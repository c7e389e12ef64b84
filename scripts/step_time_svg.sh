#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Draws the time of a training step over the memory budget from the rows of ./dev bench offload and ./dev bench recompute, for light and dark
# pages:
#
#   scripts/step_time_svg.sh bench/results/offload.json bench/results/recompute.json > docs/step_time.svg
#
# One panel a workload that has rows at more than two budgets. Across: the budget, of the step's peak. Up: the step's time, in times of what it takes
# with all memory. Lines carry their names and last values at their ends.
set -euo pipefail
[[ $# -eq 2 && -r $1 && -r $2 ]] || {
  echo "usage: step_time_svg.sh BENCH_OFFLOAD.json BENCH_RECOMPUTE.json > picture.svg" >&2
  exit 2
}
jq -r --slurpfile recompute "$2" '
  def round1: . * 10 | round / 10;
  {width: 300, height: 190, left: 46, right: 140, top: 112, gap: 62} as $at
  | {resnet50_b64: "ResNet-50, batch 64", gpt2_b8: "GPT-2 124M, batch 8", cifar_resnet1001_b64: "ResNet-1001 (CIFAR), batch 64",
     unet3d_b1_128: "3D U-Net, 128³", nmt_b128_t50: "LSTM translation, batch 128", vgg16_b32: "VGG-16, batch 32"} as $titles
  | [{key: "lru", name: "LRU"}, {key: "reactive", name: "reactive"}, {key: "learned", name: "learned"}, {key: "bound", name: "swap bound"},
     {key: "joint", name: "recomputing"}] as $series
  | def panels:
      [.rows[] | select(.outcome == "ok" and $titles[.workload] != null)] | group_by(.workload)
      | map({workload: .[0].workload,
             lines: ([.[] | {key: .policy, x: .budget_percent, y: (.steady_step_ms / .compute_step_ms)}]
                     + [.[] | {key: "bound", x: .budget_percent, y: (.bound_ms / .compute_step_ms)}]
                     + [.[0].workload as $w | $recompute[0].rows[] | select(.workload == $w and .joint.step_ms != null)
                        | {key: "joint", x: .budget_percent, y: (.joint.step_ms / .compute_ms)}]
                     | group_by(.key) | map({key: .[0].key, value: (unique_by(.x) | sort_by(-.x))}) | from_entries)})
      | map(select(.lines.bound | length > 2))
      | sort_by(.workload as $w | $titles | keys_unsorted | index($w));
  # Names at line ends, at least 15 apart: pushed down by the one above, then up by the end of the panel.
  def spread: sort_by(.at) | reduce .[] as $l ([]; . + [$l + {at: ([$l.at, ((last | .at) // -1000) + 15] | max)}])
      | reverse | reduce .[] as $l ([]; . + [$l + {at: ([$l.at, ((last | .at) // ($at.height + 11)) - 15] | min)}]);
  # Two digits behind the point.
  def fixed: . * 100 | round | tostring | "\(.[:-2]).\(.[-2:])";
  def panel($i):
    ($at.left + ($i % 2) * ($at.width + $at.left + $at.right)) as $x0
    | ($at.top + ($i / 2 | floor) * ($at.height + $at.gap + 26)) as $y0
    | ([.lines[][] | .y] | max) as $most
    | (if $most > 2.5 then 1 elif $most > 1.3 then 0.25 else 0.05 end) as $tick
    | (((($most - 0.001) / $tick | floor) + 1) * $tick) as $top
    | ([.lines[][] | .x] | min) as $least
    | def px: $x0 + (80 - .) / (80 - $least) * $at.width | round1;
      def py: $y0 + $at.height - (. - 1) / ($top - 1) * $at.height | round1;
      def path: map("\(.x | px),\(.y | py)") | join(" ");
    "<text class=\"title\" x=\"\($x0)\" y=\"\($y0 - 14)\">\($titles[.workload])</text>",
    (range(0; ($top - 1) / $tick + 0.5) | 1 + . * $tick
     | "<line class=\"grid\" x1=\"\($x0)\" x2=\"\($x0 + $at.width)\" y1=\"\(py)\" y2=\"\(py)\"/>",
       "<text class=\"axis\" text-anchor=\"end\" x=\"\($x0 - 7)\" y=\"\(py + 4)\">\(. * 100 | round / 100)×</text>"),
    (.lines.bound | "<polygon class=\"never\" points=\"\(path) \(last.x | px),\($y0 + $at.height) \($x0),\($y0 + $at.height)\"/>"),
    ([.lines[][] | {x}] | unique[] | "<text class=\"axis\" text-anchor=\"middle\" x=\"\(.x | px)\" y=\"\($y0 + $at.height + 18)\">\(.x) %</text>"),
    (.lines as $lines | $series[] | select($lines[.key]) | .key as $key | $lines[$key]
     | "<polyline class=\"line \($key)\" points=\"\(path)\"/>",
       (.[] | select($key != "bound") | "<circle class=\"dot \($key)\" cx=\"\(.x | px)\" cy=\"\(.y | py)\" r=\"2.6\"/>")),
    ([.lines as $lines | $series[] | select($lines[.key]) | . + {end: ($lines[.key] | last)} | . + {at: (.end.y | py - $y0)}]
     | spread[] | "<text class=\"name \(.key)\" x=\"\($x0 + $at.width + 8)\" y=\"\($y0 + .at + 4 | round1)\">\(.name) \(.end.y | fixed)×</text>");
  panels as $panels
  | (2 * ($at.left + $at.width + $at.right)) as $w
  | ($at.top + (($panels | length) / 2 | ceil) * ($at.height + $at.gap + 26) - 20) as $h
  | "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 \($w) \($h)\" font-family=\"-apple-system, Segoe UI, Helvetica, Arial, DejaVu Sans, sans-serif\" font-size=\"12\" role=\"img\" aria-label=\"Step time over memory budget\">",
    "<style>",
    "text { fill: #1f2328 } .axis, .note { fill: #59636e } .title { font-weight: 600; font-size: 13px } .grid { stroke: #d1d9e0; stroke-width: 1 }",
    ".line { fill: none; stroke-width: 2 } .never { fill: #818b98; fill-opacity: 0.18 } .bound { stroke-dasharray: 4 3 } .name { font-weight: 600 }",
    ".line.lru { stroke: #bc4c00 } .dot.lru, .name.lru { fill: #bc4c00 } .line.reactive { stroke: #8250df } .dot.reactive, .name.reactive { fill: #8250df }",
    ".line.learned { stroke: #0969da; stroke-width: 2.6 } .dot.learned, .name.learned { fill: #0969da } .line.bound { stroke: #59636e } .name.bound { fill: #59636e }",
    ".line.joint { stroke: #1a7f37; stroke-width: 2.6 } .dot.joint, .name.joint { fill: #1a7f37 }",
    "@media (prefers-color-scheme: dark) {",
    "text { fill: #f0f6fc } .axis, .note { fill: #9198a1 } .grid { stroke: #3d444d } .line.lru { stroke: #f0883e } .dot.lru, .name.lru { fill: #f0883e }",
    ".line.reactive { stroke: #bc8cff } .dot.reactive, .name.reactive { fill: #bc8cff } .line.learned { stroke: #58a6ff } .dot.learned, .name.learned { fill: #58a6ff }",
    ".line.joint { stroke: #3fb950 } .dot.joint, .name.joint { fill: #3fb950 }",
    ".line.bound { stroke: #9198a1 } .name.bound { fill: #9198a1 } }",
    "</style>",
    "<text class=\"title\" x=\"\($at.left)\" y=\"18\">Time of a training step, in times of a device with enough memory, over the budget in percent of its peak</text>",
    "<text class=\"note\" x=\"\($at.left)\" y=\"38\">Without the library all of these run out of memory. LRU moves the least recently used buffers when it must, as simple swappers do;</text>",
    "<text class=\"note\" x=\"\($at.left)\" y=\"55\">reactive copies early and fetches ahead; learned follows a plan; in the gray no swapping can be; recomputing makes again what is cheaper to make than to move</text>",
    "<text class=\"note\" x=\"\($at.left)\" y=\"72\">(replay --exact --recompute auto; so do unmodified programs whose kernels come with PTX). Simulated device \(.device), \(.date).</text>",
    ([$panels | to_entries[] | .key as $i | .value | panel($i)][]),
    "</svg>"
' "$1"
