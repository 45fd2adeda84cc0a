"""What is started where a rank file says, and what nest itself reads again."""
import itertools
import json
import os
import pathlib
import re
import subprocess
import tempfile

from nest_plans import JOBS, Tally, plan_of, unequal

# mpirun's agent: HOST COMMAND…; all hosts are this machine.
AGENT = """#!/bin/bash
while [[ $1 == -* ]]; do shift; done
export NEST_HOST=$1; shift
exec sh -c "$*"
"""


# mpirun asks the resolver for the host of every line of a rank file, one after the other: names that nobody knows must not take five seconds each.
QUICK_NAMES = dict(os.environ, RES_OPTIONS="timeout:1 attempts:1")


def check_mpirun(mpirun, nest):
    """Rank files: mpirun starts every rank where the plan has it. Its daemons all run here, each under the name of its host."""
    version = re.search(r"(\d+\.\d+\.\d+)", subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout).group(1)
    tally = Tally()
    program, models = nest
    with tempfile.TemporaryDirectory() as folder:
        agent = pathlib.Path(folder, "agent")
        agent.write_text(AGENT)
        agent.chmod(0o755)
        for model, job in itertools.product(models, [job for job in JOBS if job[1] <= 64]):
            plan = plan_of(program, model, job, "megatron")
            if not plan:
                continue
            of = {form: subprocess.run([program, "export", "-", "--to", "rankfile", "--format", form], input=plan, capture_output=True,
                                       text=True).stdout for form in ("openmpi", "json")}
            ranks = json.loads(of["json"])
            place = pathlib.Path(folder, "ranks")
            place.write_text(of["openmpi"])
            hosts = ",".join("%s:%d" % (host, ranks["ranks_per_host"]) for host in ranks["hosts"])
            line = [mpirun, "--allow-run-as-root", "--oversubscribe", "--mca", "plm_rsh_agent", str(agent), "--mca", "plm_rsh_no_tree_spawn", "1", "-np",
                    str(ranks["world"]), "--host", hosts, "--rankfile", str(place), "sh", "-c", "echo $OMPI_COMM_WORLD_RANK $NEST_HOST"]
            done = subprocess.run(line, env=QUICK_NAMES, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
            seen = sorted((int(words[0]), words[1]) for words in map(str.split, done.stdout.splitlines()) if len(words) == 2)
            problems = [] if seen == [(rank["rank"], rank["host"]) for rank in ranks["ranks"]] else ["ranks elsewhere: " + done.stderr[-200:]]
            tally.add("%s on %d x %s" % (model, job[1], job[0]), problems)
    return [tally.row("Open MPI", version, "`mpirun --rankfile` starts every rank on the host that the plan has it on")]


# What is written for whom, as a file that `nest eval --from` reads, and with which arguments beside it.
NEWER = "which is not written: it came after"  # what was priced is not all in the text, and the text says so
READ_BACK = [("megatron", "script"), ("nemo", "bridge"), ("nemo", "nemo2"), ("deepspeed", ""), ("torchtitan", ""), ("torchtitan-main", ""),
             ("fsdp", "accelerate")]


def check_read_back(nest):
    """Exports are read by `nest eval --from` at the price of their plans."""
    program, models = nest
    rows = []
    for target, form in READ_BACK:
        tally, left = Tally(), 0
        for model, job in itertools.product(models, JOBS):
            plan = plan_of(program, model, job, target)
            if not plan:
                continue
            text = subprocess.run([program, "export", "-", "--to", target] + (["--format", form] if form else []), input=plan,
                                  capture_output=True, text=True)
            if text.returncode != 0:
                continue
            if NEWER in " ".join(text.stderr.split()):
                left += 1
                continue
            parsed = json.loads(plan)
            with tempfile.NamedTemporaryFile("w", suffix="." + target) as file:
                file.write(text.stdout)
                file.flush()
                line = [program, "eval", "--from", file.name, "--cluster", job[0], "--devices", str(job[1]), "--judge", "formula", "--time-limit", "0.1",
                        "--json"]
                if target != "megatron":
                    line += ["--model", model]
                if target in ("deepspeed", "fsdp"):
                    line += ["--seq", str(parsed["run"]["seq"])]
                if target == "fsdp":
                    beside = subprocess.run([program, "export", "-", "--to", "fsdp", "--format", "trainer"], input=plan, capture_output=True, text=True)
                    line += ["--with", beside.stdout.replace("\n", " ")]
                if "gradient_checkpointing_enable" in text.stderr:
                    line += ["--with", "--gradient_checkpointing"]
                if target in ("megatron", "nemo") and "cv 0.18" in text.stderr:
                    line += ["--routing", "cv=0.18"]
                done = subprocess.run(line, capture_output=True, text=True)
            name = "%s on %d x %s" % (model, job[1], job[0])
            try:
                price = json.loads(done.stdout)["yours"]["prediction"]["iteration_s"]
            except (ValueError, KeyError, TypeError):
                tally.add(name, ["is not read: " + done.stderr.strip()[:200]])
                continue
            wanted = parsed["prediction"]["iteration_s"]
            tally.add(name, [] if abs(price - wanted) <= 1e-9 * wanted else ["costs %.6g s instead of %.6g s" % (price, wanted)])
        what = "`nest eval --from` reads the export at the plan's price"
        if left:
            what += "; %d more are not comparable: their export says which parts of what was priced it cannot carry" % left
        rows.append(tally.row("nest", target if target != "nemo" else form, what))
    return rows


def check_functional_tests(folder, nest):
    """Megatron's own functional tests of GPT: nest reads their arguments, with the degrees and batches that they name."""
    import yaml
    program, _ = nest
    tally = Tally()
    names = {"--tensor-model-parallel-size": "tp", "--pipeline-model-parallel-size": "pp", "--context-parallel-size": "cp",
             "--expert-model-parallel-size": "ep", "--micro-batch-size": "micro_batch"}
    for file in sorted(path for kind in ("gpt", "moe", "mixtral") for path in pathlib.Path(folder).glob(kind + "/*/model_config.yaml")):
        given = yaml.safe_load(file.read_text()).get("MODEL_ARGS") or {}
        done, name = None, "/".join(file.parts[-3:-1])
        for devices, more in itertools.product((8, 16, 64, 128), ([], ["--with", "--vocab-size 131072"])):  # nobody says how many ranks there are
            done = subprocess.run([program, "eval", "--from", str(file), "--devices", str(devices), "--cluster", "dgx-h100", "--judge", "formula",
                                   "--time-limit", "0.05", "--json"] + more, capture_output=True, text=True)
            if done.returncode != 2:
                break
            if not re.search("vocab-size|does not divide|no multiple|more than", done.stderr):
                break
        if done.returncode == 2 or not isinstance(given, dict):
            tally.add(name, ["refused: " + " ".join(done.stderr.split())[:200]])
            continue
        strategy = json.loads(done.stdout)["yours"]["strategy"]
        tally.add(name, unequal([(key, strategy[key], int(given[option])) for option, key in names.items() if str(given.get(option, "")).isdigit()]))
    return [tally.row("Megatron-LM", "its functional tests", "GPT, mixtures: read, with the degrees and micro-batches that they name")]
