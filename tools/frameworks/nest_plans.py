"""Plans and their exports, as `nest` gives them, and the tables of what was wrong with them."""
import itertools
import json
import os
import pathlib
import subprocess

# Sources that a check of others needs too, and a folder of plans.
OTHERS = {"bridge_core": None, "nemo_run": None, "nemo_core": None, "plans": None}
MODELS = ["llama3.2-1b", "llama3-8b", "llama3-70b", "llama2-13b", "qwen3-8b", "gpt3-35b", "mixtral-8x7b", "mixtral-8x22b", "deepseek-v2-lite",
          "deepseek-v3"]
JOBS = [("dgx-h100", 16, 64), ("dgx-h100", 64, 256), ("dgx-h100", 256, 512), ("dgx-a100", 128, 256)]
STAND_INS = ["torch", "triton", "numpy", "einops", "transformers", "tensorstore", "zarr", "sentencepiece", "tiktoken", "wandb", "tqdm",
             "requests", "regex", "nvtx", "psutil", "omegaconf", "hydra", "hjson", "cpuinfo", "py_cpuinfo", "msgpack", "ninja", "pynvml",
             "huggingface_hub", "safetensors", "rich", "tyro", "spmd_types", "torchao", "grain", "datasets", "tokenizers", "torchdata",
             "tensorboard", "fsspec", "PIL", "torchvision"]


def plan_of(nest, model, job, target):
    """The JSON of `nest plan` as text; empty where there is no plan. Kept in the folder of --plans, where one is given."""
    cluster, devices, batch = job
    file = os.path.join(OTHERS["plans"], "%s.%s.%s.%d.json" % (target, model, cluster, devices)) if OTHERS["plans"] else None
    if file and os.path.exists(file):
        return pathlib.Path(file).read_text()
    done = subprocess.run([nest, "plan", "--model", model, "--cluster", cluster, "--devices", str(devices), "--global-batch", str(batch),
                           "--target", target, "--judge", "formula", "--no-why", "--json", "--time-limit", "5"], capture_output=True, text=True)
    text = done.stdout if done.returncode == 0 else ""
    if file:
        pathlib.Path(file).write_text(text)
    return text


def export(nest, plan, to, form=""):
    """The JSON of `nest export`; nothing for a model that the framework has no words for."""
    done = subprocess.run([nest, "export", "-", "--to", to, "--json"] + (["--format", form] if form else []), input=plan, capture_output=True,
                          text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def exports(nest, target, forms=("",)):  # nest: the program, and models
    """One export per model and job that has a plan: the JSON of `nest export`, by format, and the plan's strategy."""
    nest, models = nest
    for model, job in itertools.product(models, JOBS):
        plan = plan_of(nest, model, job, target)
        if not plan:
            continue
        made = {form: export(nest, plan, target, form) for form in forms}
        if all(made.values()):
            yield "%s on %d x %s" % (model, job[1], job[0]), made, json.loads(plan)


class Tally:
    """What was looked at, and what was wrong."""

    def __init__(self):
        self.plans, self.wrong = 0, []

    def add(self, name, problems):
        self.plans += 1
        self.wrong += ["%s: %s" % (name, problem) for problem in problems]

    def row(self, framework, version, what):
        good = self.plans - len({text.split(": ")[0] for text in self.wrong})
        return {"framework": framework, "version": version, "what": what, "plans": self.plans, "good": good, "wrong": self.wrong}


def unequal(pairs):
    return ["%s is %s, not %s" % (name, seen, wanted) for name, seen, wanted in pairs if seen != wanted]
