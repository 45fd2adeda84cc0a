"""Runs the stages of a plan on one GPU, one after the other, and prints what they take beside what nest predicts.

    nest plan --model llama3-8b --cluster dgx-h200 --devices 64 -o plan.json
    python -m nest.verify plan.json                          on a machine with one GPU of the plan's kind
    python -m nest.verify plan.json --list work.json         on a machine with nest
    python -m nest.verify --work work.json                   on the machine with the GPU, with the folder python/ alone

For every stage that differs the slice that one rank holds is built from plain PyTorch modules, sharded as planned (tensor,
sequence, context and expert parallel, recomputation, precision, the optimizer's shard), and the passes of its schedule run in
their order with the planned number in flight. Nothing is sent: collectives are left out, here and in what is predicted. Kernels are
like Megatron-Core's or like transformers', and the prediction is for such; the plan's own stack is shown beside it.

Exit status: 0 all within the tolerances, 1 something is off, 2 the question is wrong.
"""
import argparse
import json
import sys

TIME, MEMORY = 15.0, 5.0  # percent


def _stage_key(work, stage):
    """Stages with one key run the same passes over the same layers with as much in flight."""
    from ._verify_run import most_in_flight, order_of

    order = order_of(work["schedule"], work["stages_in_all"], len(stage["chunks"]), work["micro_batches"], stage["index"], work["group"])
    return json.dumps([stage["chunks"], stage["recompute"], stage["zero"], stage["degrees"], most_in_flight(order)])


def different_stages(work):
    """Of equal stages the first, with the numbers of all of them."""
    found = {}
    for stage in work["stages"]:
        found.setdefault(_stage_key(work, stage), []).append(stage)
    return [(stages[0], [stage["index"] for stage in stages]) for stages in found.values()]


def parameters_of(work, stage):
    """What nest counts on one rank of a stage."""
    seen, total = set(), 0
    for run in stage["chunks"]:
        for name in run:
            layer = work["layers"][name]
            total += layer["parameters"]
            if layer["kind"] != "block":
                seen.add(layer["kind"])
    if stage["tied"] and {"embedding", "head"} <= seen:
        from ._verify_modules import Slice

        spec = next(layer["spec"] for layer in work["layers"].values() if layer["kind"] == "head")
        total -= Slice(tp=work["split"]["tp"], fused=work["modules"] == "fused").vocabulary(spec["vocabulary"]) * spec["hidden"]
    return total


def dry_run(work, stage):
    """What needs no device: the slice's parameters, and what its order holds."""
    import torch

    from . import _verify_modules as modules
    from ._verify_run import Stage, most_in_flight, order_of

    split = work["split"]
    cut = modules.Slice(tp=split["tp"], sp=split["sp"], cp=split["cp"], ep=split["ep"], etp=split["etp"], micro_batch=work["micro_batch"],
                        sequence=work["sequence"], device="meta", dtype=torch.bfloat16, fused=work["modules"] == "fused")
    dense, experts = Stage(work, stage, cut).count()
    order = order_of(work["schedule"], work["stages_in_all"], len(stage["chunks"]), work["micro_batches"], stage["index"], work["group"])
    return {"index": stage["index"], "dense_parameters": dense, "expert_parameters": experts, "in_flight": most_in_flight(order) / len(stage["chunks"])}


def judges_time(work):
    """Of fused experts nest predicts the launches of a framework's host, which these modules do not make."""
    return not (work["modules"] == "fused" and work["experts"])


def _error(predicted, measured):
    return 100 * (predicted / measured - 1)


def judge(work, stage, found, tolerance_time=TIME, tolerance_memory=MEMORY):
    """What is off, in words; and the errors in percent."""
    predicted, plan, off, errors = stage["predicted"], stage["plan"], [], {}
    name = "stage %d" % stage["index"]
    built, counted = found["dense_parameters"] + found["expert_parameters"], parameters_of(work, stage)
    if built != counted:
        off.append("%s: the slice that was built has %d parameters, nest counts %d" % (name, built, counted))
    if abs(found["in_flight"] - predicted["in_flight"]) > 1e-6:
        off.append("%s: its order holds %g micro-batches in flight, nest says %g" % (name, found["in_flight"], predicted["in_flight"]))
    claimed = plan.get("claimed_in_flight")
    if claimed is not None and abs(claimed - plan["in_flight"]) > 1e-6:
        off.append("%s: the plan's file says that %g micro-batches are in flight, nest says %g today" % (name, claimed, plan["in_flight"]))
    for key, anew, what, unit in (("total_bytes", "anew_total_bytes", "memory", 2**30), ("total_s", "anew_s", "seconds of a micro-batch", 1)):
        if key in plan and abs(plan[key] / plan[anew] - 1) > 0.01:
            off.append("%s: the plan's file says %.4g %s, nest says %.4g today" % (name, plan[key] / unit, "GiB of memory" if unit > 1 else what,
                                                                                plan[anew] / unit))
    if "forward_s" in found:
        for key in ("forward_s", "backward_s"):
            errors[key] = _error(predicted[key], found[key])
            if abs(errors[key]) > tolerance_time and judges_time(work):
                off.append("%s: %s takes %.4g s, %.4g s were predicted (%+.1f %%)" % (name, key[:-2], found[key], predicted[key], errors[key]))
    if "peak_bytes" in found and stage["zero"] < 2:
        errors["peak_bytes"] = _error(predicted["allocated_bytes"], found["peak_bytes"])
        errors["reserved_bytes"] = _error(predicted["reserved_bytes"], found["reserved_bytes"])
        if abs(errors["peak_bytes"]) > tolerance_memory:
            off.append("%s: the peak is %.2f GiB, %.2f GiB were predicted (%+.1f %%)" % (
                name, found["peak_bytes"] / 2**30, predicted["allocated_bytes"] / 2**30, errors["peak_bytes"]))
    return off, errors


def _cells(stage, same, found, errors):
    predicted, plan = stage["predicted"], stage["plan"]
    share = lambda key: "%+.1f %%" % errors[key] if key in errors else "-"
    number = ",".join(str(i) for i in same) if len(same) <= 3 else "%d … %d" % (same[0], same[-1])
    cells = [number, "%g" % found["in_flight"]]
    if "forward_s" not in found:
        return cells + ["-", "%.2f" % (1e3 * predicted["forward_s"]), "-", "-", "%.2f" % (1e3 * predicted["backward_s"]), "-", "-",
                        "%.2f" % (predicted["allocated_bytes"] / 2**30), "-", "-", "%.2f" % (plan["allocated_bytes"] / 2**30)]
    gib = lambda bytes_: "%.2f" % (bytes_ / 2**30)
    peak = found.get("peak_bytes")
    return cells + ["%.2f" % (1e3 * found["forward_s"]), "%.2f" % (1e3 * predicted["forward_s"]), share("forward_s"),
                    "%.2f" % (1e3 * found["backward_s"]), "%.2f" % (1e3 * predicted["backward_s"]), share("backward_s"),
                    gib(peak) if peak else "-", gib(predicted["allocated_bytes"]), share("peak_bytes"),
                    gib(found["reserved_bytes"]) if peak else "-", gib(plan["allocated_bytes"])]


TITLES = [("stage", ""), ("in", "flight"), ("forward", "ms"), ("nest", "ms"), ("error", ""), ("backward", "ms"), ("nest", "ms"), ("error", ""),
          ("peak", "GiB"), ("nest", "GiB"), ("error", ""), ("held", "GiB"), ("own stack", "GiB")]


def table(rows):
    lines = [[title[0] for title in TITLES], [title[1] for title in TITLES]] + rows
    widths = [max(len(line[i]) for line in lines) for i in range(len(TITLES))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def _device(work, asked, dry):
    """The device to run on, or why there is none."""
    from ._errors import InputError

    try:
        import torch
    except ImportError:
        raise InputError("PyTorch is not installed here; --list FILE writes what another machine can run with --work FILE") from None
    if dry:
        return None
    if asked in (None, "cuda"):
        if not torch.cuda.is_available():
            raise InputError("there is no GPU here (torch.cuda.is_available() is false); --dry-run checks the slices without one")
        from .profile import _preset_of

        name = torch.cuda.get_device_name()
        if _preset_of(name) != work["device"]:
            raise InputError("this GPU is a %s; the plan is for %s: times and memory would say nothing about it (--any-device runs it anyway)"
                             % (name, work["device"]))
        return "cuda"
    return asked


def run(work, *, device=None, dry=False, stages=None, seconds=2.0, any_device=False, progress=None):
    """Measures; returns [(stage, numbers of equal stages, what was found)]."""
    from ._errors import InputError

    if any_device and not dry:
        device = device or "cuda"
    else:
        device = _device(work, device, dry)
    results = []
    for stage, same in different_stages(work):
        if stages and not set(same) & set(stages):
            continue
        if dry:
            results.append((stage, same, dry_run(work, stage)))
            continue
        import torch

        from ._verify_run import measure_stage

        if device == "cuda":
            room = torch.cuda.get_device_properties(0).total_memory
            if stage["predicted"]["allocated_bytes"] > room:
                less = "--modules fused keeps less" if work["modules"] == "written" else "--stages names those to run"
                raise InputError("stage %d needs %.1f GiB with %s modules and this GPU has %.1f GiB; %s" % (
                    stage["index"], stage["predicted"]["allocated_bytes"] / 2**30, work["modules"], room / 2**30, less))
        try:
            found = measure_stage(work, stage, device=device, seconds=seconds)
        except RuntimeError as error:
            if "out of memory" not in str(error):
                raise
            raise InputError("stage %d does not fit this GPU: %.1f GiB were predicted, and an allocation failed" % (
                stage["index"], stage["predicted"]["allocated_bytes"] / 2**30)) from None
        results.append((stage, same, found))
        if progress:
            progress(stage["index"])
    return results


def report(work, results, tolerance_time=TIME, tolerance_memory=MEMORY, about=""):
    """The text, what is off, and the errors."""
    lines = ["%s, %s on %d x %s, %s%s" % (work["model"], work["title"], work["devices"], work["device"], work["precision"], about)]
    rows, off, errors = [], [], []
    for stage, same, found in results:
        wrong, share = judge(work, stage, found, tolerance_time, tolerance_memory)
        rows.append(_cells(stage, same, found, share))
        off += wrong
        errors.append(share)
    kernels = "like Megatron-Core's" if work["modules"] == "fused" else "one by one, like transformers'"
    lines += [table(rows), "Collectives are left out, measured and predicted. Kernels run %s; \"own stack\" is the peak that the plan has with %s."
              % (kernels, work["stack"])]
    if any(stage["zero"] >= 2 for stage, _, _ in results):
        lines.append("Memory is not compared: ZeRO %d gathers what it divides by collectives." % max(stage["zero"] for stage, _, _ in results))
    if not judges_time(work):
        lines.append("Times are not judged: of fused experts nest predicts the launches of a framework's host, which these modules do not make.")
    lines += off
    timed = any("forward_s" in found for _, _, found in results)
    if off:
        lines.append("OFF: %d of what was checked" % len(off))
    elif timed:
        times = "times within %g %%, " % tolerance_time if judges_time(work) else ""
        lines.append("VERIFIED: %smemory within %g %%" % (times, tolerance_memory))
    else:
        lines.append("CONSISTENT: parameters, orders and what is in flight; nothing was measured")
    return "\n".join(lines), off, errors


def _percent(text):
    value = float(text.rstrip("% "))
    if not value > 0:
        raise argparse.ArgumentTypeError("%r is no positive number of percent" % text)
    return value


def _parser():
    parser = argparse.ArgumentParser(prog="python -m nest.verify", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", nargs="?", help="a plan's file, as `nest plan -o` writes it")
    parser.add_argument("--work", metavar="FILE", nargs="+", help="run these lists instead of a plan")
    parser.add_argument("--list", metavar="FILE", help="write the list of what to run and what is predicted here, and run nothing")
    parser.add_argument("--modules", choices=("fused", "written"), help="kernels like Megatron-Core's or like transformers' (default: as the plan's stack)")
    parser.add_argument("--stages", type=lambda text: [int(part) for part in text.split(",")], help="only these, as 0,3 (default: all that differ)")
    parser.add_argument("--seconds", type=float, default=2.0, help="passes of each stage are repeated so long (default: 2)")
    parser.add_argument("--tolerance-time", type=_percent, default=TIME, help="percent (default: %g)" % TIME)
    parser.add_argument("--tolerance-memory", type=_percent, default=MEMORY, help="percent (default: %g)" % MEMORY)
    parser.add_argument("--device", help="cuda (also for ROCm) or cpu (default: cuda)")
    parser.add_argument("--any-device", action="store_true", help="run on another kind of GPU than the plan's too")
    parser.add_argument("--dry-run", action="store_true", help="no device: build the slices without memory; compare parameters and what is in flight")
    parser.add_argument("--save", metavar="FILE", help="also measure the operators of the plan's own layers, as a profile for `nest plan --profile`")
    parser.add_argument("--json", metavar="FILE", help="write everything that was measured and predicted")
    return parser


def main(arguments=None):
    from ._errors import InputError

    parser = _parser()
    args = parser.parse_args(arguments)
    if (args.plan is None) == (args.work is None):
        parser.error("give either a plan or --work")
    try:
        works = [_read_work(path) for path in args.work] if args.work else [_listed(args.plan, args.modules)]
        if args.list:
            from ._graph import write_whole

            write_whole(args.list, json.dumps(works[0], indent=1) + "\n")
            print("%d different stages -> %s" % (len(different_stages(works[0])), args.list), file=sys.stderr)
            return 0
        wrong, everything = 0, []
        for work in works:
            results = run(work, device=args.device, dry=args.dry_run, stages=args.stages, seconds=args.seconds, any_device=args.any_device)
            text, off, errors = report(work, results, args.tolerance_time, args.tolerance_memory)
            print(text, flush=True)
            wrong += len(off)
            everything.append({"model": work["model"], "title": work["title"], "precision": work["precision"], "off": off,
                               "stages": [{"predicted": stage["predicted"], "plan": stage["plan"], "measured": found, "errors": share}
                                          for (stage, _, found), share in zip(results, errors)]})
        if args.json:
            from ._graph import write_whole

            write_whole(args.json, json.dumps(everything, indent=1) + "\n")
        if args.save:
            _save(works[0], args)
    except (InputError, OSError) as error:
        print("nest.verify: %s" % error, file=sys.stderr)
        return 2
    return 1 if wrong else 0


def _listed(path, modules):
    from ._verify_facts import work_list

    return work_list(path, modules)


def _read_work(path):
    from ._errors import InputError

    schema = "nest.verify-work/1"
    try:
        with open(path, encoding="utf-8") as file:
            work = json.load(file)
    except ValueError as error:
        raise InputError("%s: no JSON: %s" % (path, error)) from None
    if not isinstance(work, dict) or work.get("schema") != schema:
        raise InputError("%s: schema: %r; this version reads %s" % (path, work.get("schema") if isinstance(work, dict) else None, schema))
    return work


def _save(work, args):
    """The operators of the plan's own layers, measured alone."""
    from . import profile

    measured, skipped = profile.measure(work["profile"], device=args.device, device_name=None if args.device != "cpu" else work["device"])
    profile.write(args.save, measured)
    for line in skipped:
        print("left out: %s" % line, file=sys.stderr)
    print("%d operators measured -> %s" % (len(measured["operators"]), args.save), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
