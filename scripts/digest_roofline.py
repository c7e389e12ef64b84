#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast the kernel of digests can be, from its machine code: digest_roofline.py RESULT.json [DISASSEMBLER]

Compiles the PTX of offload/digest with ptxas for some devices, finds the loop that most bytes go through, and counts its instructions. No GPU takes part. Needs a C++ compiler,
ptxas and cuobjdump (of the CUDA toolkit; DISASSEMBLER: its path). Writes the figures, and prints them; docs/directions.md has the table and says what the columns mean.

What is assumed, and where it is from:
  pipes     A multiprocessor has four schedulers. Each issues one instruction of a warp per cycle, and dispatches to one pipe every second cycle: IMAD to the FMA pipe, other integer
            instructions to the ALU pipe (NVIDIA developer forum, threads 108729 and 302018; the CUDA programming guide has the same 64 results per cycle and multiprocessor). IMAD.WIDE writes
            two registers, and is counted twice.
  one pipe  The same if nothing overlaps: all instructions in one such pipe. A lower bound.
  latency   A warp alone: it issues in order, a result of arithmetic can be used six cycles later, and loads take twice the 480 cycles of an idle device (Luo et al., 2024, arXiv 2402.13499),
            because a full memory answers later.
  devices   Multiprocessors, highest clock and memory bandwidth of the data sheets. What is computed is bytes per cycle, so at a lower clock the column `least clock` says whether it still suffices.
Status 1: the loop cannot be found, or a device does not reach 80 % of its memory's bandwidth.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

GOAL = 0.8
WARP = 32
UNIT = 16
RESULT_CYCLES, LOAD_CYCLES = 6, 960
# A pipe takes an instruction of a warp every second cycle.
PIPE_CYCLES = 2
SCHEDULERS = 4
REGISTERS, WARPS = 65536, 64  # of a multiprocessor of each of these devices
DEVICES = [
    {"device": "A100 40 GB", "code": "sm_80", "multiprocessors": 108, "mhz": 1410, "memory_giga": 1555},
    {"device": "A100 80 GB", "code": "sm_80", "multiprocessors": 108, "mhz": 1410, "memory_giga": 2039},
    {"device": "H100 SXM", "code": "sm_90", "multiprocessors": 132, "mhz": 1980, "memory_giga": 3350},
    {"device": "H200", "code": "sm_90", "multiprocessors": 132, "mhz": 1980, "memory_giga": 4800},
]
PRINTER = """#include <cstdio>
#include "offload/digest/digest_code.h"
using namespace thermocline;
int main() {
  std::fprintf(stderr, "%u %u %u", kDigestThreads, kMostDigestBlocks, digest_blocks(Bytes{32} << 20));
  std::fputs(digest_code().c_str(), stdout);
}
"""


def run(*command: object, **options: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **options)


def kernel(folder: pathlib.Path) -> tuple[str, list[int]]:
    """The PTX; threads of a block, most blocks, blocks for 32 MiB."""
    (folder / "printer.cc").write_text(PRINTER)
    sources = ["offload/digest/digest_code.cc", "offload/digest/copy_code.cc"]
    run("c++", "-std=c++20", "-I.", folder / "printer.cc", *sources, "-o", folder / "printer")
    done = run(folder / "printer")
    return done.stdout, [int(word) for word in done.stderr.split()]


class Instruction:
    def __init__(self, address: int, text: str) -> None:
        self.address, self.text = address, text
        words = text.split(None, 1)
        self.guard = words[0].lstrip("@!") if words[0].startswith("@") else None
        if self.guard:
            words = words[1].split(None, 1)
        self.name = words[0]
        self.operands = [part.strip() for part in words[1].split(",")] if len(words) > 1 else []

    @property
    def pipe(self) -> str:
        kind = self.name.split(".")[0]
        if kind in ("IMAD", "FFMA"):
            return "fma"
        if kind in ("LDG", "BRA") or kind.startswith("U"):
            return "other"
        return "alu"

    @property
    def weight(self) -> int:
        return 2 if self.name.startswith("IMAD.WIDE") else 1

    def writes(self) -> list[str]:
        wide = 4 if ".128" in self.name else 2 if ".WIDE" in self.name or ".64" in self.name else 1
        found: list[str] = []
        for i, operand in enumerate(self.operands):
            word = operand.split(".")[0]
            if i == 0 and re.fullmatch(r"R\d+", word):
                found += [f"R{int(word[1:]) + k}" for k in range(wide)]
            elif re.fullmatch(r"U?P\d", word) and i <= 2:
                found.append(word)
            elif i > 0:
                break
        return found

    def reads(self) -> list[str]:
        wide = ".WIDE" in self.name
        found = [self.guard] if self.guard else []
        for i, operand in enumerate(self.operands):
            for word in re.findall(r"\b(?:R\d+|P\d)\b", operand):
                if i == 0 and word.startswith("R") and not operand.startswith(("[", "desc")):
                    continue
                found.append(word)
                # An address, or the sum that a wide product is added to, has two registers.
                if word.startswith("R") and (".64" in operand or (wide and i == len(self.operands) - 1)):
                    found.append(f"R{int(word[1:]) + 1}")
        return found


def loop_of(sass: str) -> list[Instruction]:
    body = sass[sass.index("Function : thermocline_digest") :]
    found = [Instruction(int(at, 16), text) for at, text in re.findall(r"/\*([0-9a-f]{4,5})\*/\s+([^;]+?)\s*;", body)]
    for i, one in enumerate(found):
        target = re.search(r"BRA (0x[0-9a-f]+)", one.text)
        if target is None or int(target[1], 16) >= one.address:
            continue
        loop = [other for other in found[: i + 1] if other.address >= int(target[1], 16)]
        if sum(other.name.startswith("LDG.E.128") for other in loop) == 4:
            return loop
    raise SystemExit("digest_roofline: no loop with four loads of 16 bytes")


def loads_at_once(loop: list[Instruction]) -> int:
    """Before the first use of what one of them loads."""
    loaded: set[str] = set()
    count = 0
    for one in loop:
        if loaded & set(one.reads()):
            break
        if one.name.startswith("LDG"):
            count += 1
            loaded |= set(one.writes())
    return count


def cycles_alone(loop: list[Instruction]) -> int:
    """Cycles of an iteration of one warp that has the multiprocessor for itself."""
    ready: dict[str, int] = {}
    free = {"fma": 0, "alu": 0, "other": 0}
    now, began = 0, []
    for _ in range(4):
        began.append(now)
        for one in loop:
            # A register is written again only when what it waits for has arrived.
            needed = [ready.get(name, 0) for name in one.reads() + one.writes()]
            now = max([now + 1, free[one.pipe], *needed])
            free[one.pipe] = now + PIPE_CYCLES * one.weight
            for name in one.writes():
                ready[name] = now + (LOAD_CYCLES if one.name.startswith("LDG") else RESULT_CYCLES)
    return began[-1] - began[-2]


def figures(device: dict, loop: list[Instruction], registers: int, threads: int, blocks: int) -> dict:
    resident = min(-(-blocks // device["multiprocessors"]), REGISTERS // (registers * threads), WARPS * WARP // threads)
    warps = resident * threads // WARP
    moved = 4 * UNIT * WARP  # bytes of an iteration of a warp
    by_pipe = {pipe: sum(one.weight for one in loop if one.pipe == pipe) for pipe in ("fma", "alu", "other")}
    each = PIPE_CYCLES / SCHEDULERS  # cycles of an instruction in its pipe, in the whole multiprocessor
    rates = {
        "pipes": moved / max(len(loop) / SCHEDULERS, by_pipe["fma"] * each, by_pipe["alu"] * each),
        "one_pipe": moved / (sum(by_pipe.values()) * each),
        "latency": warps * moved / cycles_alone(loop),
    }
    needed = device["memory_giga"] * 1e9 / (device["multiprocessors"] * device["mhz"] * 1e6)
    slowest = min(rates.values())
    return device | {
        "registers": registers,
        "warps": warps,
        "instructions": len(loop),
        "instructions_by_pipe": by_pipe,
        "bytes_in_flight": warps * loads_at_once(loop) * UNIT * WARP,
        "loads_at_once": loads_at_once(loop),
        "cycles_of_a_warp_alone": cycles_alone(loop),
        "bytes_a_cycle": {name: round(rate, 2) for name, rate in rates.items()},
        "memory_bytes_a_cycle": round(needed, 2),
        "part_of_bandwidth": round(min(slowest / needed, 1), 3),
        "least_mhz": round(GOAL * device["memory_giga"] * 1e9 / device["multiprocessors"] / slowest / 1e6),
    }


def main() -> int:
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    disassembler = sys.argv[2] if len(sys.argv) == 3 else shutil.which("cuobjdump")
    if disassembler is None or shutil.which("ptxas") is None:
        raise SystemExit("digest_roofline: needs ptxas and cuobjdump of the CUDA toolkit")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        ptx, (threads, blocks, blocks_for_32_mib) = kernel(folder)
        (folder / "digest.ptx").write_text(ptx)
        for device in DEVICES:
            cubin = folder / f"{device['code']}.cubin"
            told = run("ptxas", "-v", f"-arch={device['code']}", folder / "digest.ptx", "-o", cubin).stderr
            registers = int(re.search(r"'thermocline_digest'.*?Used (\d+) registers", told, re.DOTALL)[1])
            rows.append(figures(device, loop_of(run(disassembler, "-sass", cubin).stdout), -(-registers // 8) * 8, threads, blocks))
            print(json.dumps(rows[-1]))
    version = re.search(r"release ([\d.]+)", run("ptxas", "--version").stdout)[1]
    head = {"schema": "thermocline-digest-roofline/1", "ptxas": version, "threads": threads, "most_blocks": blocks, "blocks_for_32_mib": blocks_for_32_mib}
    text = json.dumps(head)[:-1] + ', "rows": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]}\n"
    pathlib.Path(sys.argv[1]).write_text(text)
    return 0 if all(row["part_of_bandwidth"] >= GOAL for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
