# SPDX-License-Identifier: Apache-2.0
"""The report of the acceptance run (gpu.py): the register of assumptions with what was seen, and a page in Markdown."""

from __future__ import annotations

from gpu_sections import MIB, is_shown

# Assumptions that hold if programs of bench/gpu/frameworks.py print the same with and without the library, also in a part of their memory. This shows
# no more than the programs do: one rank of NCCL; the versions of the runtime that they bring.
SHOWN_BY = {
    "nccl": ["torch_nccl"],
    "runtimes": ["torch_training", "cupy_arrays", "jax", "numba_kernels"],
}


def seen_of(row: dict, sections: dict) -> tuple[str, str]:
    """Whether an assumption was seen to hold (holds, fails, not checked), and details."""
    asked = {answer["id"]: answer for answer in sections.get("assumptions", {}).get("asked", [])}
    rules = {rule["name"]: rule for rule in sections.get("conformance", {}).get("answers", {}).get("rules", [])}
    # An assumption and its mechanism may have different names.
    told = asked.get(row["at_start"]) or asked.get(row["id"])
    details, outcomes = [], set()
    if told and told["seen"] != "not tried":
        outcomes.add(told["seen"])
        details.append(told["detail"])
    for name in row["rules"]:
        outcome = rules.get(name, {}).get("outcome")
        if outcome in ("agrees", "disagrees"):
            outcomes.add("holds" if outcome == "agrees" else "fails")
        if outcome == "disagrees":
            details.append(f"{name}: {rules[name].get('detail', '')}")
    if row["id"] == "mapping_cost" and "figures" in sections.get("probe", {}):
        outcomes.add("holds")
        details.append("measured, see probe")
    if row["id"] == "sanitizer" and sections.get("sanitizer", {}).get("outcome") in ("right", "wrong"):
        outcomes.add("holds" if sections["sanitizer"]["outcome"] == "right" else "fails")
    ran = {one["program"]: one for one in sections.get("frameworks", {}).get("libraries", []) if "same_output" in one}
    for name in SHOWN_BY.get(row["id"], []):
        if name in ran:
            same = is_shown(ran[name])
            outcomes.add("holds" if same else "fails")
            details.append(f"{name}: {'same output' if same else 'other output, or nothing moved'}")
    seen = "fails" if "fails" in outcomes else "holds" if outcomes else "not checked"
    return seen, "; ".join(detail for detail in details if detail)


def answered(register: list[dict], sections: dict) -> list[dict]:
    rows = []
    for row in register:
        seen, detail = seen_of(row, sections)
        rows.append({"id": row["id"], "expected": row["relies"], "seen": seen, "detail": detail, "fallback": row["fallback"]})
    return rows


def markdown(report: dict) -> str:
    facts = report["about"]
    lines = [f"# Acceptance run: {facts['device']}", "", "Written by `./dev gpu`; all of it is in the JSON file beside this page.", ""]
    lines += [f"- {key}: {value}" for key, value in facts.items() if value and key != "device"]
    lines += ["", "| section | outcome | seconds | commit | |", "| --- | --- | --- | --- | --- |"]
    for name, section in report["sections"].items():
        note = section.get("reason", "")
        if "asked" in section:
            note = f"{len(section['asked'])} checked" + (": " + ", ".join(section["fails"]) + " fail" if section["fails"] else "")
        elif "rules" in section:
            note = ", ".join(f"{count} {outcome}" for outcome, count in section["rules"].items())
        elif "programs" in section:
            note = f"{section['programs']} programs, {len(section['different'])} differ"
            left_out = ", ".join(row["program"] for row in section["unsupported"])
            note += f"; not without the library either: {left_out}" if left_out else ""
        elif "libraries" in section:
            found = [row for row in section["libraries"] if "same_output" in row]
            differ = [row["program"] for row in found if not is_shown(row)]
            note = f"{len(found)} programs" + (": " + ", ".join(differ) + " differ" if differ else "")
        elif "digest_figures" in section:
            reached = "" if section["reached"] else f", less than the {section['asked_share']:.0%} that are asked for"
            rate = section["digest_figures"]["digested_gb_s"]["32MiB"]
            note = f"{rate:.0f} GB/s, {section['share']:.0%} of the memory's {section['memory_gb_s']:.0f}{reached}"
        elif "peak_live_bytes" in section:
            note = f"a third of {section['peak_live_bytes'] / MIB:.1f} MiB, {section['evicted_bytes'] / MIB:.1f} MiB moved out"
        lines.append(f"| {name} | {section['outcome']} | {section['seconds']:.1f} | {section.get('commit', '')[:7]} | {note} |")
    rows = report.get("register", [])
    if rows:
        lines += ["", "| assumption | expected | seen | |", "| --- | --- | --- | --- |"]
        order = {"fails": 0, "holds": 1, "not checked": 2}
        for row in sorted(rows, key=lambda r: order[r["seen"]]):
            note = row["detail"] + ("; fallback: " + row["fallback"] if row["seen"] == "fails" else "")
            lines.append(f"| {row['id']} | {row['expected']} | {row['seen']} | {note.replace('|', '/')} |")
    figures = report["sections"].get("probe", {}).get("figures")
    if figures:
        lines += ["", "| call, link | measured | by the host's clock |", "| --- | --- | --- |"]
        for key, value in figures.items():
            if key.endswith("_ns"):
                # Runs have only the host's time.
                by_device = "" if key.startswith("run_") else f"{value / 1e3:.2f} us"
                lines.append(f"| {key[:-3]} | {by_device} | {figures.get(key + '_by_host_clock', value) / 1e3:.2f} us |")
            elif key.startswith("link_"):
                lines.append(f"| {key} | {value / 1e9:.2f} GB/s | |")
        lines += ["", "`link_to_host`, `link_to_device`: while both directions are in use."]
    runs = report["sections"].get("pytorch", {}).get("runs")
    if runs:
        lines += ["", "| model | way | budget | step over plain | same bits | |", "| --- | --- | --- | --- | --- | --- |"]
        for run in runs:
            over = f"{run['over_plain']:.2f}" if "over_plain" in run else "-"
            note = "not available: " + run["reason"] if run.get("available") is False else run.get("outcome", "") + " " + run.get("reason", "")
            percent = f"{run['percent']} %" if run["percent"] else ""
            lines.append(f"| {run['model']} | {run['way']} | {percent} | {over} | {run.get('same_bits', '-')} | {note.strip()} |")
    return "\n".join(lines) + "\n"
