#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# words.sh: no word that docs/glossary.md leaves out stands in code or docs, and no comment begins without a subject
# ("Of the first one", "What follows"). Prints where that is not so.
set -euo pipefail
# The glossary itself, this list, recorded data and the command touch(1) are not meant.
left_out='touch(es|ed|ing)?|limbo|recognisers?|roads?|safety[ _-]nets?|tenan(t|ts|cy|cies)|past[ _]us|(send|sent)[ _]away|bring_back|stand_ins?|soak|foreign_bytes|park(ed|s)?|timetables?|climb(s|ed|ing)?|loosen(s|ed)?|led to|standing'
types='TouchList|Limbo|Recogniser|SafetyNet|Tenan(t|cy)[A-Z]?|ForeignMemory|StandIn|BlockPart|Parked|Timetable|kAway|kNowhere'
elsewhere=(':!docs/glossary.md' ':!scripts/words.sh' ':!scripts/lint.py' ':!cmake/build_jemalloc.sh' ':!bench/traces' ':!bench/results')
# Only in the library and what is built on it: the simulator, tests and integrations use some of these words for something else.
layers=(driver allocator offload telemetry config hooks trace tool)
left_out_there='[a-z_]*settle[a-z_]*|patien(t|tly|ce)|begin_patiently|remak(e|es|ing)|remade|makeable|heirs|story|budget_told|absent|lent'
types_there='kStands|[ .>]stands\(|Remake|kNotRemade|[Pp]artList|kPartBytes|parts_of\(|part_size|hollow_parts|clean_parts|ChosenParts|EvictionUnit[&*]? (const )?parts?\b'
types_there+='|[>. :]cover\(|cover_(new|now)|[.>]covered\b|is_bare|bring_[a-z_]+|[ :]bring\(|(there is|with|without|under) a net\b'
types_there+='|Story[A-Z]|Told[A-Z]|struct (Known|Told|Place|Lent) |lent_|kPatience|[.>](leave|arrive|return_at)\b[^(]'
left_out_in_pytorch='settle[sd]?|away|begin_return|brought_back|takes\(|leave\(|arrive'
found=0
git grep -nwIE "$left_out" -- . "${elsewhere[@]}" && found=1
git grep -nIE "$types" -- . "${elsewhere[@]}" && found=1
git grep -nwIE "$left_out_there" -- "${layers[@]}" && found=1
git grep -nIE "$types_there" -- "${layers[@]}" && found=1
git grep -nwIE "$left_out_in_pytorch" -- integrations/pytorch && found=1
[[ $found -eq 0 ]] || echo "words.sh: docs/glossary.md says what these are called" >&2
# The first line of a comment follows a line that is no comment, or the license; later lines may begin with any word.
fragments=$({ git grep -nIE -B1 '^[[:space:]]*((//|#) ?|\"{3})(Of|Those|What|Who|Whoever|Whom|Whose) ' -- '*.h' '*.cuh' '*.cc' '*.cu' '*.c' \
  '*.sh' '*.py' '*.cmake' '*CMakeLists.txt' dev || true; } |
  awk '/^[^:]*:[0-9]+:/ { if (before !~ /[:-][0-9]+[:-][[:space:]]*(\/\/|#)/ || before ~ /SPDX/) print } { before = $0 }')
if [[ -n $fragments ]]; then
  printf '%s\n' "$fragments"
  echo "words.sh: these comments begin without a subject; say what the thing is or what the function does" >&2
  found=1
fi
exit "$found"
