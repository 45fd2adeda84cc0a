"""What `python -m nest.verify` has to run for a plan and what nest predicts of it, as one list that needs no compiled part to be read."""
import json
import os

from . import _api, profile
from ._errors import InputError
from ._plan import SCHEMAS, Plan, as_plan, words
from ._verify_modules import ACTIVATIONS, Unsupported

WORK_SCHEMA = "nest.verify-work/1"
STACK = "as-written"
MODULES = {"core_attn": "core_attention", "mlp": "feed_forward", "moe": "moe", "layernorm": "norm", "moe_act": "moe_activation"}
FUSED_ONLY = ("moe_activation",)
HABITS = ("fused", "written")  # whose kernels the modules are like: Megatron-Core's, transformers'
SILENT = {"bandwidth": "1000TB/s", "latency": 0}
PRECISIONS = ("bf16", "fp8")
PARTS = ("weights", "gradients", "optimizer", "activations", "working")


def work_list(plan, modules=None):
    """The list for a plan (a path, a Plan or a dictionary). modules: "fused" or "written". Where not given: fused for plans of
    Megatron-Core's kernels; with experts, whose times are then those of a framework's host, only where others keep too much."""
    given = _read(plan)
    data = json.loads(given.to_json())
    run, strategy = data["run"], data["strategy"]
    _refuse(data)
    if modules not in HABITS + (None,):
        raise InputError("--modules: %r is not one of %s" % (modules, " or ".join(HABITS)))
    may_fuse = modules is None and data["stack"]["kernels"] == "megatron"
    layers, names = _layers(data, modules or "written")
    experts = any("mixture" in layer["spec"] for layer in layers.values())
    drops = any("moe_act" in stage.get("recompute", "").split("+") for stage in data["stages"])
    if may_fuse and (drops or not experts):
        return work_list(given, "fused")
    modules = modules or "written"
    micro_batches = -(-run["global_batch"] // (strategy.get("micro_batch", 1) * strategy.get("dp", 1)))
    priced = _api.evaluate(_without_network(data, micro_batches, modules))
    if may_fuse and not priced.fits:
        return work_list(given, "fused")
    own = _api.evaluate(Plan(data))
    state = _state(data["stack"])
    stages = []
    for index, (stage, written, anew) in enumerate(zip(data["stages"], priced.stages, own.stages)):
        stages.append({
            "index": index, "layers": stage["layers"], "chunks": _chunks(stage, names, strategy), "zero": stage.get("zero", 0),
            "degrees": _degrees(stage, strategy), "recompute": _recompute(stage.get("recompute", "none"), data["stack"], modules),
            "tied": bool(_tied(data)), "predicted": _predicted(written, priced.evaluation["stages"][index]),
            "plan": _claimed(stage, anew, own.evaluation["stages"][index])})
    split = {"tp": strategy.get("tp", 1), "sp": bool(strategy.get("sp")), "cp": strategy.get("cp", 1), "ep": strategy.get("ep", 1)}
    split["etp"] = strategy.get("etp") or split["tp"]
    return {"schema": WORK_SCHEMA, "modules": modules, "experts": experts, "model": data["model"]["name"], "title": words(strategy), "device": data["cluster"].get("device"),
            "devices": data["cluster"]["devices"], "stack": run.get("stack"), "precision": run.get("precision", "bf16"),
            "sequence": run["seq"], "micro_batch": strategy.get("micro_batch", 1), "micro_batches": micro_batches,
            "schedule": strategy.get("schedule", "1f1b"), "group": strategy.get("micro_batch_group"),
            "stages_in_all": strategy.get("pp", 1), "split": split, "state": state, "layers": layers, "stages": stages,
            "profile": _profile_work(data, split)}


def _read(plan):
    if isinstance(plan, (str, os.PathLike)) and not os.path.isfile(plan):
        raise InputError("%s: there is no such file; give a plan that `nest plan -o` wrote" % os.fspath(plan))
    given = as_plan(plan)
    schema = json.loads(given.to_json()).get("schema")
    if schema not in SCHEMAS:
        raise InputError("%s: schema: %r; a plan is %s" % (plan if isinstance(plan, (str, os.PathLike)) else "plan", schema, SCHEMAS[0]))
    if schema != SCHEMAS[0] or "stack" not in json.loads(given.to_json()):
        given = _api.evaluate(given)
    return given


def _refuse(data):
    run, strategy = data["run"], data["strategy"]
    config = data["model"].get("config") or {}
    if isinstance(config, dict) and config.get("schema") == "nest.graph/1":
        raise Unsupported("model.config: a traced graph has no modules to build; nest.verify builds presets and configurations")
    for key in ("freeze", "lora", "mtp_layers", "optimizer_offload"):
        if run.get(key):
            raise Unsupported("run.%s: %r; nest.verify trains all weights of the model on the device, and nothing besides" % (key, run[key]))
    if run.get("precision", "bf16") not in PRECISIONS:
        raise Unsupported("run.precision: %r; nest.verify runs %s" % (run["precision"], " and ".join(PRECISIONS)))
    if strategy.get("offload", "none") != "none":
        raise Unsupported("strategy.offload: %r; nest.verify keeps activations on the device" % strategy["offload"])


# --- what is predicted -----------------------------------------------------------------------------------------------------


def _without_network(data, micro_batches, modules):
    """The same plan for such modules, on a network that takes no time."""
    stack = data["stack"]
    if modules == "fused":
        # Nothing hides that is not there, no graphs are captured, and the router is even.
        recipe = dict(stack, name=STACK, kernels="megatron", attention="native", memory="megatron", loss="fused", graph_scopes=[], blocking_launches=False,
                      expert_overlap=False, shared_expert_overlap=False, delay_wgrad=False, defer_head_gradient=False, dispatcher="alltoall",
                      routing="forced", routing_imbalance=1, expert_capacity=0, pad_to_capacity=False, rank_capacity=0, paged_stash=0,
                      offloaded_layers=0, weight_gradient_buffers=False, fused_rowwise=True, fused_experts=False, deterministic=False,
                      unfused_accumulation=stack["gradient_bytes"] > 2, recompute_modules=True, recompute_layers=True)
        recipe.pop("optimizer_bytes", None)
    else:
        recipe = {key: stack[key] for key in ("weight_bytes", "gradient_bytes", "master_bytes", "moments_bytes", "context_exchange", "hybrid_sharding",
                                              "gradient_traffic_bytes", "selective", "selective_modules")}
        recipe.update(name=STACK, like="huggingface", recompute_modules=True, recompute_layers=True, unfused_accumulation=micro_batches > 1,
                      routing_imbalance=1)
    if stack["selective"] != "modules":
        recipe["selective"], recipe["selective_modules"] = "modules", ["core_attention"]
    recipe["storage"] = "fp8_tensor" if data["run"].get("precision") == "fp8" else "bf16"
    description = data["cluster"].get("description") or {}
    device = description.get("device", data["cluster"].get("device"))
    cluster = {"name": "silent", "device": data["cluster"].get("device"), "devices": data["cluster"]["devices"],
               "description": {"name": "silent", "device": device, "levels": [dict(SILENT, name="all", group=data["cluster"]["devices"])]}}
    run = dict(data["run"], stack=STACK)
    run.pop("stack_reason", None)
    run.pop("routing", None)
    kept = ("layers", "zero", "zero_degree", "zero_outer", "recompute")
    stages = [{key: stage[key] for key in kept if key in stage} for stage in data["stages"]]
    for stage, given in zip(stages, data["stages"]):
        if given.get("chunks"):
            stage["chunks"] = [{"layers": chunk["layers"]} for chunk in given["chunks"]]
    return {"schema": SCHEMAS[0], "model": data["model"], "cluster": cluster, "stack": recipe, "run": run, "strategy": data["strategy"],
            "stages": stages}


def _predicted(stage, memory):
    time, parts = stage["time_s"], stage["memory_bytes"]
    left = (time["tp"] + time["cp"] + time["ep"]) / 2  # latencies that a silent network still has
    return {"forward_s": time["forward"] - left, "backward_s": time["backward"] + time["recompute"] - left,
            "allocated_bytes": memory["allocated_bytes"], "reserved_bytes": memory["reserved_bytes"], "moment": memory["moment"],
            "in_flight": parts["in_flight"], "buffer_bytes": memory["allocated_bytes"] - sum(parts[key] for key in PARTS), "state_bytes": parts["weights"] + parts["gradients"] + parts["optimizer"],
            "parts": {key: parts[key] for key in PARTS}}


def _claimed(stage, anew, memory):
    """What the file says of the plan's own stack, and what nest says of it today."""
    found = {"anew_total_bytes": anew["memory_bytes"]["total"], "anew_s": anew["time_s"]["total"], "allocated_bytes": memory["allocated_bytes"],
             "in_flight": anew["memory_bytes"]["in_flight"], "compute_s": _compute(anew["time_s"])}
    if stage.get("time_s"):
        found["total_s"] = stage["time_s"]["total"]
    if stage.get("memory_bytes"):
        found["total_bytes"] = stage["memory_bytes"]["total"]
        found["claimed_in_flight"] = stage["memory_bytes"].get("in_flight")
    return found


def _compute(time):
    return time["forward"] + time["backward"] + time["recompute"] - time["tp"] - time["cp"] - time["ep"]


def _state(stack):
    return {"weight": stack["weight_bytes"], "gradient": stack["gradient_bytes"], "master": stack["master_bytes"], "moments": stack["moments_bytes"]}


def _profile_work(data, split):
    """The operators of the plan's own stack in the shapes that one rank has, for --save."""
    run = data["run"]
    model = data["model"].get("config") or data["model"]["name"]
    return profile.work_list(model, stack=run["stack"], precision=run.get("precision", "bf16"), seq=run["seq"],
                             micro_batch=[data["strategy"].get("micro_batch", 1)], tp=[split["tp"]], cp=[split["cp"]], ep=[split["ep"]],
                             sp=[split["sp"]], etp=split["etp"])


def _degrees(stage, strategy):
    """Over how many ranks the optimizer's state is divided: of what all replicas hold, and of routed experts."""
    if stage.get("zero", 0) == 0:
        return {"dense": 1, "expert": 1}
    all_ranks = strategy.get("dp", 1) * strategy.get("cp", 1)
    etp = strategy.get("etp") or strategy.get("tp", 1)
    experts = strategy.get("tp", 1) * all_ranks // (etp * strategy.get("ep", 1))
    degree = all_ranks if stage.get("zero_outer") else stage.get("zero_degree") or all_ranks
    return {"dense": degree, "expert": max(1, experts * degree // all_ranks)}


def _recompute(text, stack, modules="fused"):
    """"full", "block:4", "core_attn+mlp", … as the runs take it."""
    if text in ("none", "full"):
        return {"kind": text}
    if ":" in text:
        kind, count = text.split(":")
        return {"kind": kind, "count": int(count)}
    asked = list(stack["selective_modules"]) if text == "selective" else [MODULES.get(word, word) for word in text.split("+")]
    known = {word: name for word, name in MODULES.items() if modules == "fused" or name not in FUSED_ONLY}
    unknown = [name for name in asked if name not in known.values()]
    if unknown:
        raise Unsupported("stages[].recompute: %s; %s modules run again %s, whole blocks, or nothing" % (
            ", ".join(unknown), modules, ", ".join(sorted(known))))
    return {"kind": "modules", "modules": asked}


# --- what is run -----------------------------------------------------------------------------------------------------------


def _tied(data):
    config = data["model"].get("config")
    return isinstance(config, dict) and config.get("tie_word_embeddings")


def _chunks(stage, names, strategy):
    """The kinds of layers of every chunk of a stage. Where they are not listed they are equal parts of the stage."""
    if stage.get("chunks"):
        runs = [chunk["layers"] for chunk in stage["chunks"]]
        return [names[first : last + 1] for first, last in runs if last >= first]
    first, last = stage["layers"]
    run = names[first : last + 1]
    count = strategy.get("virtual_stages", 1)
    if count == 1:
        return [run]
    head = [name for name in run if name.startswith("head")]
    tail = len(run) - len(head)
    front = [name for name in run if name.startswith("embedding")]
    blocks = run[len(front) : tail]
    cuts = [len(blocks) * i // count for i in range(count + 1)]
    chunks = [blocks[a:b] for a, b in zip(cuts, cuts[1:])]
    chunks[0], chunks[-1] = front + chunks[0], chunks[-1] + head
    return chunks


def _layers(data, modules):
    """Layers by name with what modules need to be built, and the name of every layer of the model."""
    strategy, run = data["strategy"], data["run"]
    model = data["model"].get("config") or data["model"]["name"]
    asked = dict(seq=run["seq"], micro_batch=strategy.get("micro_batch", 1))
    whole = _api.show(model, kernels="huggingface", **asked)
    split = _api.show(model, kernels="megatron" if modules == "fused" else "huggingface", tp=strategy.get("tp", 1), sp=bool(strategy.get("sp")),
                      cp=strategy.get("cp", 1), ep=strategy.get("ep", 1), etp=strategy.get("etp") or strategy.get("tp", 1), **asked)
    hidden = whole["model"]["hidden"]
    if whole["model"]["position"] not in ("rotary", "learned", "none"):
        raise Unsupported("model: positions are %s; nest.verify builds rotary and learned ones" % whole["model"]["position"])
    layers, names = {}, []
    for layer, mine in zip(_each(whole), _each(split)):
        spec = {"embedding": _embedding_spec, "head": _head_spec, "block": _block_spec}.get(layer["kind"])
        if spec is None:
            raise Unsupported("layer %r: a layer of kind %s is not among what nest.verify builds" % (layer["name"], layer["kind"]))
        entry = {"kind": layer["kind"], "name": layer["name"], "spec": spec(layer, hidden), "parameters": mine["parameters_local"],
                 "saved_bytes": mine["saved_bytes"]}
        if layer["kind"] == "block":
            for name in ("attention norm", "ffn norm"):
                if entry["spec"][name.replace(" ", "_")]:
                    entry["spec"][name.replace(" ", "_")]["alone"] = _product_of(mine, name)["module"] == "norm"
        key = next((k for k, known in layers.items() if known == entry), None)
        if key is None:
            key = "%s %d" % (layer["name"] if layer["kind"] == "block" else layer["kind"], len(layers))
            layers[key] = entry
        names.append(key)
    return layers, names


def _each(shown):
    """Every layer; equal ones one after the other are listed once."""
    return [layer for layer in shown["layers"] for _ in range(layer["count"])]


def _product_of(layer, name):
    return next((op for op in layer["operators"] if op["name"] == name), None)


def _weight(op, index=0):
    return op["weights"][index]["shape"]


def _biased(op):
    return op is not None and any(weight["name"].endswith("_bias") for weight in op["weights"])


def _norm_spec(layer, name):
    op = _product_of(layer, name)
    if op is None:
        return None
    if not op["weights"]:
        raise Unsupported("layer %r: %s has no weights, which nest.verify's norms have" % (layer["name"], name))
    width = 1
    for extent in _weight(op):
        width *= extent
    saved = {tensor["name"]: tensor["bytes"] for tensor in layer["saved_tensors"]}
    if name + " in fp32" in saved:
        return {"kind": "rms", "width": width, "late": saved[name + " normalised"] == saved[name + " in fp32"], "bias": False}
    return {"kind": "layer", "width": width, "late": False, "bias": _biased(op)}


KNOWN = {"attention norm", "qkv", "q", "k", "v", "q_norm", "k_norm", "rotary", "attention", "o", "attention residual", "attention output norm", "ffn norm",
         "ffn gate", "ffn up", "ffn down", "ffn residual", "ffn output norm", "multiply", "router", "top-k", "dispatch", "experts gate+up",
         "experts up", "experts down", "combine", "shared gate", "shared up", "shared down", "shared + routed", "shared switch", "switch", "q down",
         "q latent norm", "q up", "kv down", "kv latent norm", "kv up", "join k", "rotary q", "rotary k", "transpose"} | set(ACTIVATIONS)


def _block_spec(layer, hidden):
    for op in layer["operators"]:
        if op["name"] not in KNOWN:
            raise Unsupported("layer %r: operator %r is not among what nest.verify builds" % (layer["name"], op["name"]))
    core = _product_of(layer, "attention")
    if core is None or _product_of(layer, "attention residual") is None:
        raise Unsupported("layer %r: it is no block of attention and feed-forward one after the other" % layer["name"])
    if 0 < core["attention"]["window"] < core["attention"]["keys"] or core["weights"]:
        raise Unsupported("layer %r: attention with a window, sinks or learned biases is not among what nest.verify builds" % layer["name"])
    spec = {"hidden": hidden, "attention": _attention_spec(layer, hidden, core)}
    for name in ("attention norm", "ffn norm", "attention output norm", "ffn output norm"):
        spec[name.replace(" ", "_")] = _norm_spec(layer, name)
    activation = next((op["name"] for op in layer["operators"] if op["name"] in ACTIVATIONS), None)
    if activation is None:
        raise Unsupported("layer %r: its activation is not one of %s" % (layer["name"], ", ".join(sorted(ACTIVATIONS))))
    if _product_of(layer, "router"):
        spec["mixture"] = _mixture_spec(layer, hidden, activation)
        return spec
    up, down = _product_of(layer, "ffn up"), _product_of(layer, "ffn down")
    spec["ffn"] = {"hidden": hidden, "width": _weight(up)[0], "gated": _product_of(layer, "ffn gate") is not None, "activation": activation,
                   "up_bias": _biased(up), "down_bias": _biased(down)}
    return spec


def _attention_spec(layer, hidden, core):
    size = core["attention"]
    spec = {"hidden": hidden, "heads": int(size["heads"]), "qk_dim": size["qk_dim"], "value_dim": size["value_dim"], "causal": size["causal"],
            "o_bias": _biased(_product_of(layer, "o"))}
    down = _product_of(layer, "kv down")
    if down is not None:
        rank = _weight(_product_of(layer, "kv up"))[2]
        rope = _weight(down)[0] - rank
        queries = _product_of(layer, "q down")
        spec["latent"] = {"kv_rank": rank, "rope": rope, "nope": size["qk_dim"] - rope, "query_rank": _weight(queries)[0] if queries else 0}
        return spec
    norm = _product_of(layer, "q_norm")
    weights = {weight["name"]: weight["shape"] for op in layer["operators"] for weight in op["weights"]}
    q_bias, k_bias, v_bias = ("attention.%s_bias" % letter in weights for letter in "qkv")
    spec.update(kv_heads=weights["attention.k"][0], q_bias=q_bias, k_bias=k_bias, v_bias=v_bias, rotary=_product_of(layer, "rotary") is not None,
                one_weight=_product_of(layer, "qkv") is not None,
                head_norm=None if norm is None else "each" if len(_weight(norm)) == 1 else "all", late=bool(norm and _norm_spec(layer, "q_norm")["late"]))
    return spec


def _mixture_spec(layer, hidden, activation):
    up = _product_of(layer, "experts gate+up") or _product_of(layer, "experts up")
    if _biased(up):
        raise Unsupported("layer %r: experts with biases are not among what nest.verify builds" % layer["name"])
    shared, router = _product_of(layer, "shared up"), _product_of(layer, "router")
    return {"hidden": hidden, "experts": _weight(up)[0], "width": _weight(up)[1], "gated": _product_of(layer, "experts gate+up") is not None,
            "top_k": int(round(up["m"] / router["m"])), "activation": activation, "shared": _weight(shared)[0] if shared else 0,
            "switch": _product_of(layer, "shared switch") is not None}


def _embedding_spec(layer, hidden):
    table, positions = _product_of(layer, "tokens"), _product_of(layer, "positions")
    others = [op["name"] for op in layer["operators"] if op["name"] not in ("tokens", "positions", "sum")]
    if others:
        raise Unsupported("layer %r: operator %r is not among what nest.verify builds" % (layer["name"], others[0]))
    return {"hidden": hidden, "vocabulary": _weight(table)[0], "positions": _weight(positions)[0] if positions else 0}


def _head_spec(layer, hidden):
    projection = _product_of(layer, "lm head")
    others = [op["name"] for op in layer["operators"] if op["name"] not in ("final norm", "lm head", "cross entropy")]
    if others or projection is None:
        raise Unsupported("layer %r: operator %r is not among what nest.verify builds" % (layer["name"], others[0] if others else "lm head"))
    return {"hidden": hidden, "vocabulary": _weight(projection)[0], "bias": _biased(projection), "norm": _norm_spec(layer, "final norm")}
