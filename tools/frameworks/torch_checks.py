"""Exports through the code of DeepSpeed, accelerate, transformers and torchtitan."""
import ast
import contextlib
import io
import os
import pathlib
import re
import sys
import tempfile

from nest_plans import STAND_INS, Tally, exports, unequal


def check_deepspeed(source, nest):
    sys.path.insert(0, source)
    with contextlib.redirect_stderr(io.StringIO()):
        import stand_in
        stand_in.install(*STAND_INS)
        from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
    version = (pathlib.Path(source) / "version.txt").read_text().strip()
    tally = Tally()
    for name, made, plan in exports(nest, "deepspeed"):
        config, strategy = made[""]["config"], plan["strategy"]
        zero = config["zero_optimization"]
        try:
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                parsed = DeepSpeedZeroConfig(**zero)
        except Exception as error:
            tally.add(name, ["refused: %s" % error])
            continue
        known = set(DeepSpeedZeroConfig.model_fields) | {field.alias for field in DeepSpeedZeroConfig.model_fields.values()}
        problems = ["%s is no key of zero_optimization" % key for key in zero if key not in known]
        batch = config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"] * strategy["dp"]
        tally.add(name, problems + unequal([("stage", int(parsed.stage), plan["stages"][0]["zero"]),
                                            ("batch", batch, config["train_batch_size"])]))
    return [tally.row("DeepSpeed", version, "`DeepSpeedZeroConfig`; stage as planned, batch = micro-batch x accumulation x replicas")]


def check_accelerate(source, nest):
    sys.path.insert(0, os.path.join(source, "src"))
    with contextlib.redirect_stderr(io.StringIO()):
        import stand_in
        stand_in.install(*STAND_INS)
        import accelerate
        from accelerate.commands.config.config_args import ClusterConfig
        from accelerate.commands.launch import launch_command_parser
    options = {action.dest for action in launch_command_parser()._actions}
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        for name, made, plan in exports(nest, "fsdp"):
            file = os.path.join(folder, "config.yaml")
            with open(file, "w") as out:
                out.write(made[""]["yaml"])
            try:
                config = ClusterConfig.from_yaml_file(file)
            except Exception as error:
                tally.add(name, ["refused: %s" % error])
                continue
            keys = {**config.fsdp_config, **config.parallelism_config}
            problems = ["%s is no option of accelerate launch" % key for key in keys if key not in options]
            sharded = config.fsdp_config.get("fsdp_reshard_after_forward")
            tally.add(name, problems + unequal([("processes", config.num_processes, plan["strategy"]["dp"]),
                                                ("reshard", bool(sharded), plan["stages"][0]["zero"] == 3)]))
    return [tally.row("accelerate", accelerate.__version__, "`ClusterConfig.from_yaml_file`, options of `accelerate launch`; ranks and resharding")]


def check_transformers(source, nest):
    text = (pathlib.Path(source) / "src/transformers/training_args.py").read_text()
    version = re.search(r'__version__ = "([^"]+)"', (pathlib.Path(source) / "src/transformers/__init__.py").read_text()).group(1)
    fields = {statement.target.id for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == "TrainingArguments"
              for statement in node.body if isinstance(statement, ast.AnnAssign)}
    tally = Tally()
    for name, made, _ in exports(nest, "fsdp", ("trainer",)):
        options = [word[2:] for word in made["trainer"]["options"] if word.startswith("--")]
        tally.add(name, ["--%s is no TrainingArguments" % option for option in options if option not in fields])
    return [tally.row("transformers", version, "arguments are fields of `TrainingArguments`")]


def ships(made):
    """Whether torchtitan has the model: nest says so where it has not."""
    return not any("ships no" in note for note in made[""]["notes"])


def check_torchtitan(source, nest):
    """0.2.2: its own reading of the file, its grid of ranks, and what its train loop and models check before the first step."""
    import tomllib
    sys.path.insert(0, source)
    with contextlib.redirect_stderr(io.StringIO()):
        import stand_in
        stand_in.install(*STAND_INS)
        import importlib
        import torch.cuda
        torch.cuda.get_device_capability = lambda *device: (9, 0)
        from torchtitan.config.manager import ConfigManager
        from torchtitan.config.job_config import JobConfig
        from torchtitan.distributed.parallel_dims import ParallelDims
    version = (pathlib.Path(source) / "assets/version.txt").read_text().strip()
    tally = Tally()
    for name, made, plan in exports(nest, "torchtitan"):
        if not ships(made):
            continue
        strategy, run = plan["strategy"], plan["run"]
        world = strategy["tp"] * strategy["cp"] * strategy["pp"] * strategy["dp"]
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                config = ConfigManager()._dict_to_dataclass(JobConfig, tomllib.loads(made[""]["toml"]))
                p = config.parallelism
                dims = ParallelDims(dp_replicate=p.data_parallel_replicate_degree, dp_shard=p.data_parallel_shard_degree,
                                    cp=p.context_parallel_degree, tp=p.tensor_parallel_degree, pp=p.pipeline_parallel_degree,
                                    ep=p.expert_parallel_degree, etp=p.expert_tensor_parallel_degree, world_size=world)
                spec = importlib.import_module("torchtitan.models." + config.model.name).get_train_spec()
                args = spec.model_args[config.model.flavor]
                args.update_from_config(config)
        except Exception as error:
            tally.add(name, ["refused: %s %s" % (type(error).__name__, error)])
            continue
        problems = []
        batch = dims.dp_replicate * dims.dp_shard
        if config.training.seq_len % dims.seq_len_divisor:
            problems.append("the sequence is no multiple of %d" % dims.seq_len_divisor)
        if config.training.global_batch_size % (config.training.local_batch_size * batch):
            problems.append("batches do not divide")
        if dims.pp > 1 and spec.pipelining_fn is None:
            problems.append("no pipelines")
        if dims.cp > 1 and getattr(args, "attn_type", "sdpa") != "sdpa":
            problems.append("no contexts with " + args.attn_type)
        if dims.pp > 1:
            layers = [layer for part in p.module_fqns_per_model_part for layer in part if layer.startswith("layers.")]
            problems += unequal([("layers", layers, ["layers.%d" % i for i in range(args.n_layers)])])
        tally.add(name, problems + unequal([
            ("tp", dims.tp, strategy["tp"]), ("cp", dims.cp, strategy["cp"]), ("pp", dims.pp, strategy["pp"]), ("ep", dims.ep, strategy["ep"]),
            ("dp", batch, strategy["dp"]), ("batch", config.training.global_batch_size, run["global_batch"]),
            ("sequence", config.training.seq_len, run["seq"])]))
    return [tally.row("torchtitan", version, "`ConfigManager`, `ParallelDims`, train specs and `update_from_config`; rules of its start")]


def check_torchtitan_main(source, nest):
    """Main: the module is imported and called; Trainer.Config, ParallelDims and the model's update_from_config check it."""
    sys.path.insert(0, source)
    with contextlib.redirect_stderr(io.StringIO()):
        import stand_in
        stand_in.install(*STAND_INS)
        import spmd_types
        import torch.cuda
        import torch.library
        torch.library.custom_op = stand_in.custom_op
        torch.cuda.get_device_capability = lambda *device: (9, 0)
        spmd_types.Shard = type("Shard", (), {})  # nothing of ours is one
        from torchtitan.distributed.parallel_dims import ParallelDims
    tally = Tally()
    for name, made, plan in exports(nest, "torchtitan-main"):
        if not ships(made):
            continue
        strategy, run = plan["strategy"], plan["run"]
        world = strategy["tp"] * strategy["cp"] * strategy["pp"] * strategy["dp"]
        module = {}
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                exec(compile(made[""]["python"], "nest_plan.py", "exec"), module)
                config = module["plan"]()
                p, training = config.parallelism, config.training
                dims = ParallelDims.from_config(p, world)
                model = config.model_spec.model
                model.update_from_config(config=config)
        except Exception as error:
            tally.add(name, ["refused: %s %s" % (type(error).__name__, error)])
            continue
        problems = []
        tokens, batch = training.num_tokens_per_microbatch_per_dp_rank, dims.dp_replicate * dims.dp_shard
        if tokens % ((dims.tp if p.enable_sequence_parallel else 1) * (2 * dims.cp if dims.cp > 1 else 1)):
            problems.append("tokens of a micro-batch do not divide")
        if training.num_tokens_per_train_step % (tokens * (p.num_pp_microbatches if dims.pp > 1 else 1) * batch):
            problems.append("tokens of a step do not divide")
        if dims.pp > 1:
            layers = [layer for part in p.module_fqns_per_model_part for layer in part if layer.startswith("layers.")]
            problems += unequal([("layers", layers, ["layers.%d" % i for i in range(len(model.layers))])])
        tally.add(name, problems + unequal([
            ("tp", dims.tp, strategy["tp"]), ("cp", dims.cp, strategy["cp"]), ("pp", dims.pp, strategy["pp"]), ("ep", dims.ep, strategy["ep"]),
            ("dp", batch, strategy["dp"]), ("micro-batch", tokens, strategy["micro_batch"] * run["seq"]),
            ("batch", training.num_tokens_per_train_step, run["global_batch"] * run["seq"]), ("sequence", training.max_context_length, run["seq"])]))
    return [tally.row("torchtitan", "main, b5bcd76", "`plan()` is called; `Trainer.Config`, `ParallelDims`, `update_from_config`; rules of its start")]
