"""Exports through the code of Megatron-LM, Megatron-Bridge and NeMo 2."""
import ast
import contextlib
import io
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import typing

import fields
from nest_plans import JOBS, OTHERS, STAND_INS, Tally, exports, plan_of, unequal


def check_megatron(source, nest):
    sys.path.insert(0, source)
    capability, clean = (9, 0), dict(os.environ)
    with contextlib.redirect_stderr(io.StringIO()):
        import stand_in
        stand_in.install(*STAND_INS)
        import torch.cuda
        torch.cuda.get_device_capability = lambda *device: capability
        torch.cuda.device_count = lambda: 8
        from megatron.core.package_info import __version__
        from megatron.core.parallel_state import RankGenerator
        from megatron.training.arguments import parse_args, validate_args
    tally = Tally()
    for name, made, plan in exports(nest, "megatron"):
        capability = (8, 0) if "a100" in name else (9, 0)
        strategy, run = plan["strategy"], plan["run"]
        world = strategy["tp"] * strategy["cp"] * strategy["pp"] * strategy["dp"]
        os.environ.clear()
        os.environ.update(clean, WORLD_SIZE=str(world), RANK="0", LOCAL_RANK="0", **made[""]["environment"])
        sys.argv = ["pretrain_gpt.py"] + made[""]["options"]
        try:
            with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
                args = parse_args()
                validate_args(args, {})
        except SystemExit:
            tally.add(name, ["refused: " + said.getvalue().strip().splitlines()[-1]])
            continue
        except Exception as error:  # what validation asserts
            tally.add(name, ["refused: %s %s" % (type(error).__name__, error)])
            continue
        tally.add(name, unequal([
            ("tp", args.tensor_model_parallel_size, strategy["tp"]), ("pp", args.pipeline_model_parallel_size, strategy["pp"]),
            ("cp", args.context_parallel_size, strategy["cp"]), ("ep", args.expert_model_parallel_size, strategy["ep"]),
            ("dp", args.data_parallel_size, strategy["dp"]), ("sp", bool(args.sequence_parallel), bool(strategy["sp"])),
            ("micro-batch", args.micro_batch_size, strategy["micro_batch"]), ("batch", args.global_batch_size, run["global_batch"]),
            ("sequence", args.seq_length, run["seq"]),
            ("virtual stages", args.virtual_pipeline_model_parallel_size or 1, strategy["virtual_stages"])]))
    return [tally.row("Megatron-LM", "core %s" % __version__, "`parse_args`, `validate_args`; degrees, batches and sequence as planned"),
            check_groups(RankGenerator, "core %s" % __version__, nest)]


def override_problems(overrides, classes, value_of):
    """Keys that are no field, values that are not of the field's type. classes: fields by the beginning of a key."""
    problems = []
    for override in overrides:
        key, _, text = override.partition("=")
        key = key.lstrip("+")
        prefix, _, field = key.rpartition(".")
        if prefix not in classes:
            problems.append("nothing has %s" % key)
        elif field not in classes[prefix]:
            problems.append("%s has no field %s" % (prefix or "the configuration", field))
        else:
            try:
                value = value_of(override, text, classes[prefix][field])
            except Exception as error:
                problems.append("%s cannot be parsed: %s" % (override, error))
                continue
            if not fields.conforms(value, classes[prefix][field]):
                problems.append("%s is no value of %s" % (override, classes[prefix][field]))
    return problems


def torch_types(sources):
    """Words that Megatron-Bridge takes for types of torch."""
    for node in sources.tree("megatron.bridge.utils.activation_map").body:
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "DTYPE_MAP":
            return {key.value for key in node.value.keys}
    return set()


def check_bridge(source, nest):
    """Overrides of a recipe: fields of Megatron-Bridge's and Megatron's configuration classes, and values of their types."""
    bridge = os.path.join(source, "src")
    sources = fields.Sources(bridge, OTHERS["bridge_core"] or source)
    config, models = "megatron.bridge.training.config", "megatron.bridge.models."
    model = {**sources.fields(models + "transformer_config", "MLATransformerConfig"), **sources.fields(models + "gpt_provider", "GPTModelProvider")}
    overlap = sources.fields("megatron.bridge.training.comm_overlap", "CommOverlapConfig")
    classes = {"model": model, "ddp": sources.fields(config, "DistributedDataParallelConfig"), "train": sources.fields(config, "TrainingConfig"),
               "dist": sources.fields(config, "DistributedInitConfig"), "optimizer": sources.fields(config, "OptimizerConfig"),
               "dataset": {**sources.fields(config, "GPTDatasetConfig"), "seq_length": int}, "mixed_precision": sources.fields(
                   "megatron.bridge.training.mixed_precision", "MixedPrecisionConfig"), "": sources.fields(config, "ConfigContainer")}
    classes[""]["mixed_precision"] = typing.Any  # a recipe's name or an object, which are looked at below
    classes[""]["comm_overlap"] = dict
    classes["rerun_state_machine"] = sources.fields(config, "RerunStateMachineConfig")
    precision = classes["mixed_precision"]
    recipes = {node.name for node in sources.tree("megatron.bridge.training.mixed_precision").body
               if isinstance(node, ast.FunctionDef) and any(ast.unparse(each) == "register" for each in node.decorator_list)}
    types = torch_types(sources)
    for known in classes.values():  # looked at below
        known.update({field: typing.Any for field in known if field.endswith("_dtype")})
    version = re.search(r"MAJOR = (\d+)\s+MINOR = (\d+)", pathlib.Path(bridge, "megatron/bridge/package_info.py").read_text())
    tally = Tally()
    for name, made, _ in exports(nest, "nemo", ("bridge",)):
        overrides = made["bridge"]["overrides"]
        problems = override_problems(overrides, classes, lambda override, text, kind: fields.hydra_value(text))
        for override in overrides:
            if override.startswith("mixed_precision=") and override.partition("=")[2] not in recipes | {"null"}:
                problems.append("no recipe " + override)
            key, _, text = override.partition("=")
            if key.endswith("_dtype") and text not in types and not re.fullmatch(r"\{_target_:torch\.\w+,_call_:false\}", text):
                problems.append("no type " + override)
            for beginning, known in (("++comm_overlap=", overlap), ("++mixed_precision=", precision)):
                if override.startswith(beginning):
                    told = fields.hydra_value(override.partition("=")[2])
                    problems += ["%s has no field %s" % (beginning, key) for key in told if key != "_target_" and key not in known]
        tally.add(name, problems)
    return [tally.row("Megatron-Bridge", "%s.%s" % version.groups(), "keys are fields of its configuration classes, values of their types")]


def check_nemo(source, nest):
    """Overrides of a NeMo 2 factory: parsed by NeMo-Run's own parser, fields of NeMo's and Megatron-Core 0.14's classes."""
    with contextlib.redirect_stderr(io.StringIO()):
        import stand_in
        stand_in.install("fiddle", "nemo_run")
        import importlib.util
        place = os.path.join(OTHERS["nemo_run"], "nemo_run/cli/cli_parser.py")
        spec = importlib.util.spec_from_file_location("cli_parser", place)
        parser = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(parser)
    sources = fields.Sources(source, OTHERS["nemo_core"])
    gpt = "nemo.collections.llm.gpt.model."
    strategy = sources.parameters("nemo.lightning.pytorch.strategies.megatron_strategy", "MegatronStrategy")
    classes = {"model.config": {**sources.fields(gpt + "base", "GPTConfig"), **sources.fields(gpt + "deepseek", "DeepSeekConfig"),
                                **sources.fields(gpt + "llama", "Llama31Config")},
               "trainer.strategy": strategy, "data": sources.parameters("nemo.collections.llm.gpt.data.mock", "MockDataModule"),
               "trainer.strategy.ddp": sources.fields("megatron.core.distributed.distributed_data_parallel_config", "DistributedDataParallelConfig"),
               "trainer.plugins": sources.parameters("nemo.lightning.pytorch.plugins.mixed_precision", "MegatronMixedPrecision"),
               "optim.config": sources.fields("megatron.core.optimizer.optimizer_config", "OptimizerConfig")}
    version = re.findall(r"^(MAJOR|MINOR|PATCH) = (\d+)", pathlib.Path(source, "nemo/package_info.py").read_text(), re.M)
    tally = Tally()

    def value_of(override, text, kind):
        (value,) = parser.PythonicParser().parse(override).values()
        return parser.parse_value(value[1] if isinstance(value, tuple) else value, kind)

    for name, made, _ in exports(nest, "nemo", ("nemo2",)):
        tally.add(name, override_problems(made["nemo2"]["overrides"], classes, value_of))
    return [tally.row("NeMo", ".".join(number for _, number in version), "values parsed by NeMo-Run, keys are fields of its classes and of Megatron-Core 0.14's")]


def same_groups(ranks, names, groups):
    """Whether ranks that differ in one coordinate alone are the groups of Megatron's RankGenerator."""
    wanted = sorted(sorted(group) for group in groups)
    together = {}
    for rank in ranks:
        others = tuple(rank[name] for name in ("tp", "cp", "dp", "pp", "etp", "ep", "edp") if name in names[1])
        together.setdefault(others, []).append(rank["rank"])
    return sorted(sorted(group) for group in together.values()) == wanted


def check_groups(generator, version, nest):
    """Megatron's process groups hold the ranks, and so the devices, that nest says."""
    tally = Tally()
    program, models = nest
    for model, job in itertools.product(models, JOBS):
        plan = plan_of(program, model, job, "megatron")
        written = subprocess.run([program, "export", "-", "--to", "rankfile", "--format", "json"], input=plan, capture_output=True,
                                 text=True) if plan else None
        if not plan or written.returncode != 0:
            continue
        s, file = json.loads(plan)["strategy"], json.loads(written.stdout)
        order, ranks = file["rank_order"], file["ranks"]
        dense = generator(tp=s["tp"], ep=1, dp=s["dp"], pp=s["pp"], cp=s["cp"], order=order)
        etp = s["etp"] or s["tp"]
        sparse = generator(tp=etp, ep=s["ep"], dp=s["tp"] * s["cp"] * s["dp"] // (etp * s["ep"]), pp=s["pp"], cp=1, order=order)
        problems = []
        for token, fixed in (("tp", ("cp", "dp", "pp")), ("cp", ("tp", "dp", "pp")), ("dp", ("tp", "cp", "pp")), ("pp", ("tp", "cp", "dp"))):
            if not same_groups(ranks, (token, fixed), dense.get_ranks(token)):
                problems.append("other groups of " + token)
        for token, fixed in (("ep", ("etp", "edp", "pp")), ("dp", ("etp", "ep", "pp")), ("tp", ("ep", "edp", "pp"))):
            if s["ep"] > 1 and not same_groups(ranks, (token, fixed), sparse.get_ranks(token)):
                problems.append("other groups of experts' " + token)
        if len({(rank["host"], rank["local_device"]) for rank in ranks}) != len(ranks):
            problems.append("two ranks on one device")
        tally.add("%s on %d x %s" % (model, job[1], job[0]), problems)
    return tally.row("Megatron-LM", version, "`RankGenerator`: process groups are those of the rank file, dense and of experts")
