#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# glibc_stubs.sh VERSION FOLDER COMPILER: what a program is linked with in place of this machine's glibc, so that it also runs on the
# glibc VERSION (such as 2.28). FOLDER gets
# - one library without code for each of glibc's, with the symbols that VERSION has too, at the newest version of each that is not newer:
#   what VERSION lacks is then an undefined symbol when something is linked, and not when it is started;
# - newer_glibc.o and start.o: what is needed of newer versions, and how a program's own constructors are run by older ones.
# Nothing of it is part of what is built but the two objects.
set -euo pipefail
version=$1
folder=$2
compiler=$3
here=$(dirname "$(readlink -f "$0")")
mkdir -p "$folder"

# NAME VERSION TYPE SIZE of each symbol, sorted so that the newest admitted version of a name comes last.
admitted_symbols() {
  readelf --dyn-syms -W "$1" | awk -v newest="$version" '
    function number(text, part) {
      split(text, part, ".")
      return part[1] * 1000000 + part[2] * 1000 + part[3]
    }
    $7 ~ /^[0-9]+$/ && $8 ~ /@@?GLIBC_2\.[0-9.]+$/ && ($4 == "FUNC" || $4 == "IFUNC" || $4 == "OBJECT" || $4 == "TLS") {
      split($8, name, /@@?GLIBC_/)
      if (number(name[2]) <= number(newest)) printf "%s %09d %s %s %s\n", name[1], number(name[2]), name[2], $4, $3
    }' | sort -k1,1 -k2,2n | awk '{ last[$1] = $1 " " $3 " " $4 " " $5 } END { for (n in last) print last[n] }' | LC_ALL=C sort
}

# Writes the library whose soname is $1, from the machine's own.
write_stub() {
  local soname=$1 source=$folder/$1.s script=$folder/$1.map symbols
  symbols=$(admitted_symbols "$("$compiler" -print-file-name="$soname")")
  awk '
    NF == 0 { next }
    { type = $3 == "OBJECT" ? "object" : $3 == "TLS" ? "tls_object" : "function"
      section = $3 == "OBJECT" ? ".bss" : $3 == "TLS" ? ".section .tbss,\"awT\",@nobits" : ".text"
      size = $4 > 0 ? $4 : 1
      printf "%s\n.globl %s\n.type %s,@%s\n.size %s,%d\n%s: .skip %d\n", section, $1, $1, type, $1, size, $1, $3 ~ /FUNC/ ? 1 : size }
    END { print ".section .note.GNU-stack,\"\",@progbits" }' <<<"$symbols" >"$source"
  awk '
    NF == 0 { next }
    { names[$2] = names[$2] " " $1 ";" }
    END {
      for (v in names) printf "GLIBC_%s { global:%s };\n", v, names[v]
      print "hidden { local: *; };"
    }' <<<"$symbols" >"$script"
  "$compiler" -shared -nostdlib -o "$folder/$soname" "$source" -Wl,--soname="$soname" -Wl,--version-script="$script"
  rm "$source" "$script"
}

for soname in libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 ld-linux-x86-64.so.2; do
  write_stub "$soname"
done
for name in libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1; do
  ln -sf "$name" "$folder/${name%.so.*}.so"
done
# The linker script of libc.so, as glibc's own: its static part (libc_nonshared.a) has no versions.
printf 'GROUP ( %s %s AS_NEEDED ( %s ) )\n' "$folder/libc.so.6" "$("$compiler" -print-file-name=libc_nonshared.a)" \
  "$folder/ld-linux-x86-64.so.2" >"$folder/libc.so"
for source in newer_glibc start; do
  "$compiler" -std=c++20 -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Werror -c -o "$folder/$source.o" "$here/$source.cc"
done
