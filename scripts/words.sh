#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# words.sh: no word that docs/glossary.md leaves out stands in code or docs. Prints where one does.
set -euo pipefail
# The glossary itself, this list, recorded data and the command touch(1) are not meant.
left_out='touch(es|ed|ing)?|limbo|recognisers?|roads?|safety[ _-]nets?|tenan(t|ts|cy|cies)|past[ _]us|(send|sent)[ _]away|bring_back|stand_ins?|soak|foreign_bytes|park(ed|s)?|timetables?|climb(s|ed|ing)?|loosen(s|ed)?|led to|standing'
types='TouchList|Limbo|Recogniser|SafetyNet|Tenan(t|cy)[A-Z]?|ForeignMemory|StandIn|BlockPart|Parked|Timetable|kAway|kNowhere'
elsewhere=(':!docs/glossary.md' ':!scripts/words.sh' ':!scripts/lint.py' ':!cmake/build_jemalloc.sh' ':!bench/traces' ':!bench/results')
found=0
git grep -nwIE "$left_out" -- . "${elsewhere[@]}" && found=1
git grep -nIE "$types" -- . "${elsewhere[@]}" && found=1
[[ $found -eq 0 ]] || echo "words.sh: docs/glossary.md says what these are called" >&2
exit "$found"
