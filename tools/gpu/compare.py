#!/usr/bin/env python3
"""What nest predicts for the rows that tools/gpu/transformers_steps.py measured.

    tools/gpu/compare.py NEST STEPS[,STEPS...] KEPT > docs/generated/gpu.md

NEST is the program; STEPS and KEPT are folders with rows.json and graphs.tar.gz. Times are medians over all folders STEPS, the rest is the
first one's. Steps are priced with the stack `huggingface`
on one device of dgx-h200, from the configuration and from the graph; kept bytes are those of the graph. Plans of every model of
STEPS by configuration and by graph, on 16 devices, are compared too.
"""
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile


# Models whose kernels the constants of src/core/cost/eager_time.h were read from.
FITTED = ("llama", "qwen3", "gemma", "opt", "mistral", "stablelm", "mixtral", "cohere")
BASE = 68 * 2**20  # workspace and tables: live as long as the program


def evaluate(program, model, row, more):
    command = [program, "eval", "--model", model, "--cluster", "dgx-h200", "--devices", "1", "--global-batch", str(row["batch"]), "--seq",
               str(row["seq"]), "--stack", "huggingface", "--json", "--strategy",
               "mbs=%d%s" % (row["batch"], ",recompute=full" if row["variant"] == "recompute" else "")] + more
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if not run.stdout.startswith("{"):
        return None, run.stderr.strip().splitlines()[0][:160]
    plan = json.loads(run.stdout)
    memory = plan["stages"][0]["memory_bytes"]
    # What the allocator holds beyond live tensors is counted under buffers.
    return (plan["prediction"]["iteration_s"], memory["total"] - memory["buffers"] + BASE, memory["total"]), None


def plan_of(program, model, row):
    """The strategy that nest chooses on two nodes, and its time."""
    command = [program, "plan", "--model", model, "--cluster", "dgx-h100", "--devices", "16", "--global-batch", "64", "--seq", str(row["seq"]),
               "--stack", "huggingface", "--json", "--no-why", "--judge", "formula"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if not run.stdout.startswith("{"):
        return None, None
    plan = json.loads(run.stdout)
    return plan["strategy"], plan["prediction"]["iteration_s"]


def options(row):
    variant = row["variant"] or ""
    if variant == "frozen tower":
        return ["--freeze", "vision"]
    if variant.startswith(("lora ", "peft ")):
        lora = variant[5:].replace("targets=all", "targets=q,k,v,o,gate,up,down")
        return ["--lora", lora]
    if variant == "half":
        return ["--freeze", "embedding,blocks.0-%d" % (row["config"]["num_hidden_layers"] // 2 - 1)]
    return []


def percent(predicted, measured):
    return 100 * (predicted / measured - 1)


def shown_bytes(program, path, row):
    """What the layers of a graph keep. nest adds a loss to a graph that has none, which keeps a softmax in fp32: that is left out."""
    command = [program, "show", path, "--micro-batch", str(row["batch"]), "--json"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if not run.stdout.startswith("{"):
        return None, run.stderr.strip().splitlines()[0][:160]
    layers = json.loads(run.stdout)["layers"]
    softmax = 4 * row["batch"] * row["seq"] * row["config"]["vocab_size"]
    return sum(layer["count"] * layer["saved_bytes"]["none"] for layer in layers) - softmax, None


def summary(name, errors, limit_mean, limit_worst):
    sizes = [abs(error) for error in errors]
    worst = "" if limit_worst is None else ", worst %.1f %% (asked %g %%)" % (max(sizes), limit_worst)
    return "- %s, %d rows: mean %.1f %% (asked %g %%)%s, median %.1f %%, bias %+.1f %%" % (
        name, len(sizes), statistics.mean(sizes), limit_mean, worst, statistics.median(sizes), statistics.mean(errors))


def steps(program, folders):
    folder = folders[0]
    rows = json.load(open(os.path.join(folder, "rows.json"), encoding="utf-8"))
    times = {}
    for one in folders:
        for row in json.load(open(os.path.join(one, "rows.json"), encoding="utf-8")):
            if "step_s" in row:
                times.setdefault((row["type"], row["variant"]), []).append(row["step_s"])
    for row in rows:
        if "step_s" in row:
            row["step_s"] = statistics.median(times[row["type"], row["variant"]])
    spread = [100 * (max(found) / min(found) - 1) for found in times.values() if len(found) > 1]
    lines, notes, plans = [], [], []
    groups = {}
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(os.path.join(folder, "graphs.tar.gz")) as graphs:
            graphs.extractall(scratch, filter="data")
        for row in rows:
            if "step_s" not in row:
                notes.append("- %s %s: not measured: %s" % (row["type"], row["variant"] or "", row.get("error")))
                continue
            config = os.path.join(scratch, "config.json")
            with open(config, "w", encoding="utf-8") as file:
                json.dump(row["config"], file)
            cells = []
            group = "frozen" if row["variant"] not in (None, "recompute") else "fitted" if row["type"] in FITTED else "whole"
            for way in ("config", "trace"):
                if way == "config":
                    found, why = evaluate(program, config, row, options(row))
                elif "graph" in row:
                    found, why = evaluate(program, os.path.join(scratch, row["graph"]), row, [])
                else:
                    found, why = None, None
                if why:
                    notes.append("- %s %s by %s: %s" % (row["type"], row["variant"] or "", way, why))
                if not found:
                    cells += ["–", "–", "–"]
                    continue
                for k, key in enumerate(("step_s", "peak_bytes", "reserved_bytes")):
                    error = percent(found[k], row[key])
                    groups.setdefault((group, key, way), []).append(error)
                    cells.append("%+.1f %%" % error)
            lines.append("| %s | %s | %d x %d | %.1f | %.2f | %.2f | %s |" % (
                row["type"], row["variant"] or "", row["batch"], row["seq"], 1e3 * row["step_s"], row["peak_bytes"] / 2**30,
                row["reserved_bytes"] / 2**30, " | ".join(cells)))
            if "graph" in row and row["variant"] is None:
                (by_config, first_s), (by_trace, second_s) = (plan_of(program, path, row)
                                                              for path in (config, os.path.join(scratch, row["graph"])))
                plans.append((row["type"], by_config, by_trace, percent(second_s, first_s) if by_config and by_trace else None))
    print("## Whole steps\n")
    print("bf16 weights and gradients, AdamW on fp32 master weights, `sdpa`, the loss on logits in fp32. Predictions with the stack `huggingface`. "
          "Constants of eager kernels (`src/core/cost/eager_time.h`) were read from profiles of %s (`tools/gpu/kernels.py`); of the other models "
          "nothing but these rows was measured.\n" % ", ".join(FITTED))
    if spread:
        print("Every step was measured on up to %d machines of the kind, times are medians; between them they differ by %.1f %% in the mean, at most "
              "%.0f %%, where the device waits for the host.\n" % (max(map(len, times.values())), statistics.mean(spread), max(spread)))
    asked = {"step_s": ("time", 6, 12), "peak_bytes": ("peak of live memory", 2, None),
             "reserved_bytes": ("memory that the allocator holds", 2, None)}
    for group, word in (("whole", "models that nothing was fitted to"), ("frozen", "adapters or frozen parts"), ("fitted", "models that were profiled")):
        for key in ("step_s", "peak_bytes", "reserved_bytes"):
            for way in ("config", "trace"):
                if (group, key, way) in groups:
                    print(summary("%s, %s, by %s" % (word, asked[key][0], way), groups[group, key, way], *asked[key][1:]))
    print("\n| model | variant | batch | ms | GiB live | GiB held | time by config | live | held | time by trace | live | held |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    print("\n".join(lines))
    if notes:
        print("\n" + "\n".join(notes))
    agreement(plans)


def shown(strategy):
    words = [("%s %s" % (name, strategy[key])) for name, key in (("tp", "tp"), ("cp", "cp"), ("pp", "pp"), ("dp", "dp"), ("ep", "ep"), ("etp", "etp"),
             ("mbs", "micro_batch"), ("vpp", "virtual_stages")) if strategy[key] != 1]
    return ", ".join(words + (["sp"] if strategy["sp"] else []))


def agreement(plans):
    known = [plan for plan in plans if plan[1] and plan[2]]
    same = [plan for plan in known if plan[1] == plan[2]]
    print("\n## Plans by configuration and by trace\n")
    print("16 devices of dgx-h100, 64 sequences. The same strategy for %d of %d models." % (len(same), len(known)))
    print("\n| model | by config | by trace | time by trace |\n|---|---|---|---|")
    for name, first, second, apart in known:
        print("| %s | %s | %s | %+.1f %% |" % (name, shown(first), "the same" if first == second else shown(second), apart))


def routes(config):
    return any(config.get(key) for key in ("num_experts", "num_local_experts", "n_routed_experts"))


def kept(program, folder):
    rows = json.load(open(os.path.join(folder, "rows.json"), encoding="utf-8"))
    errors, lines, notes = [], [], []
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(os.path.join(folder, "graphs.tar.gz")) as graphs:
            graphs.extractall(scratch, filter="data")
        for row in rows:
            if "kept_bytes" not in row or "graph" not in row:
                notes.append("- %s: %s" % (row["type"], row.get("error") or row.get("untraced")))
                continue
            # The graph counts what every operator keeps; rows of routed experts are added when it becomes a model.
            found, why = row["traced_kept_bytes"], None
            if routes(row["config"]):
                found, why = shown_bytes(program, os.path.join(scratch, row["graph"]), row)
            if why:
                notes.append("- %s: %s" % (row["type"], why))
                continue
            error = percent(found, row["kept_bytes"])
            errors.append(error)
            lines.append("| %s | %s | %.2f | %+.2f %% |" % (row["type"], row["kind"], row["kept_bytes"] / 2**20, error))
    within = sum(abs(error) <= 2 for error in errors)
    print("\n## Bytes kept for backward\n")
    print("Models of two layers and small sizes, forward without loss, batch 2: what autograd keeps on the GPU, every storage once, against what "
          "the traced graph says.\n")
    print(summary("all families", errors, 2, None))
    print("- within 2 %%: %d of %d" % (within, len(errors)))
    print("\n| type | kind | measured MiB | graph |\n|---|---|---|---|")
    print("\n".join(lines))
    if notes:
        print("\nNot measured or not traced:\n\n" + "\n".join(notes))


def main():
    program, step_folder, kept_folder = sys.argv[1:4]
    device = "NVIDIA H200, PyTorch 2.11, transformers 5.17"
    print("# Models of transformers on one GPU\n\nMeasured with `tools/gpu/transformers_steps.py` (%s), compared with `tools/gpu/compare.py`.\n" % device)
    steps(program, step_folder.split(","))
    kept(program, kept_folder)


if __name__ == "__main__":
    main()
