#!/usr/bin/env bash
# Draws a window of one or more timelines (thermocline replay --timeline FILE) as an SVG: three rows each, computing, out
# to the host, in to the device. What runs again, to recompute what was dropped, has a color of its own. Runs that follow one another within 20 us are drawn as one.
#
#   scripts/timeline_svg.sh TITLE=FILE:FROM_MS:TO_MS ... > picture.svg
set -euo pipefail
[[ $# -gt 0 ]] || { echo "usage: timeline_svg.sh TITLE=FILE:FROM_MS:TO_MS ..." >&2; exit 2; }
width=960 left=90 row=18 gap=4 head=24
longest=0
for part in "$@"; do
  spec=${part#*=}
  longest=$(awk -v a="$longest" -v s="$spec" 'BEGIN { n = split(s, p, ":"); d = p[n] - p[n - 1]; print (d > a ? d : a) }')
done
height=$(( $# * (head + 3 * (row + gap) + 12) + 24 ))
again=false
cat <<SVG
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 $((width + left + 20)) $height" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#ffffff"/>
SVG
top=8
for part in "$@"; do
  title=${part%%=*} spec=${part#*=}
  to=${spec##*:} rest=${spec%:*}
  from=${rest##*:} file=${rest%:*}
  [[ -r $file ]] || { echo "timeline_svg.sh: $file can not be read" >&2; exit 2; }
  echo "<text x=\"4\" y=\"$((top + 14))\" font-weight=\"bold\">$title</text>"
  if jq -e 'any(.[]; .args.relaunch == 1)' "$file" >/dev/null; then again=true; fi
  # The lane of an event: 3 for operators that run again, else its thread.
  jq -r '.[] | select(.ph == "X") | [if .args.relaunch == 1 then 3 else .tid end, .ts, .dur] | @tsv' "$file" |
    sort -k1,1n -k2,2n |
    awk -v from="$from" -v to="$to" -v longest="$longest" -v width=$width -v left=$left -v top=$((top + head)) \
        -v row=$row -v gap=$gap '
      function bar(tid, begin, end,  place, x, w) {
        if (begin < from) begin = from
        if (end > to) end = to
        if (end <= begin) return
        busy[tid] += end - begin
        place = tid == 0 || tid == 3 ? 0 : (tid == 2 ? 1 : 2)
        x = left + (begin - from) / longest * width
        w = (end - begin) / longest * width
        printf "<rect x=\"%.1f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\"/>\n", x, top + place * (row + gap), w, row, colour[tid]
      }
      BEGIN {
        colour[0] = "#4c78a8"; colour[2] = "#e4572e"; colour[1] = "#54a24b"; colour[3] = "#b279d0"
        name[0] = "computing"; name[2] = "out to host"; name[1] = "in to device"
        for (t = 0; t < 3; ++t) {
          place = t == 0 ? 0 : (t == 2 ? 1 : 2)
          printf "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"#eeeeee\"/>\n", left, top + place * (row + gap), (to - from) / longest * width, row
          printf "<text x=\"4\" y=\"%d\">%s</text>\n", top + place * (row + gap) + 13, name[t]
        }
        last = -1
      }
      {
        begin = $2 / 1000; end = begin + $3 / 1000
        if ($1 == last && begin - until < 0.02) { until = end; next }
        if (last >= 0) bar(last, since, until)
        last = $1; since = begin; until = end
      }
      END { if (last >= 0) bar(last, since, until) }'
  echo "<text x=\"$((left + width))\" y=\"$((top + 14))\" text-anchor=\"end\">$(awk -v a="$from" -v b="$to" 'BEGIN { printf "%.1f ms", b - a }')</text>"
  top=$((top + head + 3 * (row + gap) + 12))
done
if $again; then note="; operators that run again: violet"; else note=""; fi
echo "<text x=\"$left\" y=\"$((top + 8))\" fill=\"#666666\">device time, to one scale$note</text>"
echo "</svg>"
