#!/usr/bin/env python3
"""Counts the parameters of model types with the transformers that is installed, on meta tensors: what nest's own readers are compared with.

    python3 tools/gpu/count_types.py rows.json [TYPE...]      # where transformers is; no GPU is used
    python3 tools/gpu/count_types.py --compare rows.json build/nest

Rows are {kind, type, params, config}: the configuration is the class's own, or with what CHANGED says. `--compare` needs no transformers: it
hands every configuration to `nest show` and lists those that it refuses or counts otherwise; the exit status is 1 where a count differs.
"""
import json
import os
import subprocess
import sys
import tempfile

TYPES = {
    "causal": "apertus bamba codegen cohere cohere2 dbrx deepseek_v32 dots1 ernie4_5_moe exaone4 falcon_h1 flex_olmo gemma gemma2 gemma3_text "
              "gemma3n_text gemma4_text glm4_moe_lite glm_moe_dsa gpt2 gpt_bigcode gpt_neox gpt_oss gptj granitemoehybrid granitemoeshared "
              "helium hunyuan_v1_dense hunyuan_v1_moe hy_v3 jamba minimax minimax_m2 mixtral mpt nemotron olmo opt phi3 phimoe "
              "recurrent_gemma seed_oss smollm3 stablelm starcoder2 zamba zamba2".split(),
    "masked": "albert bert camembert data2vec-text distilbert electra modernbert roberta roformer xlm-roberta".split(),
    "seq2seq": "m2m_100 pegasus".split(),
    "vl": "gemma4 internvl llama4 llava_next mllama qwen3_5_moe".split(),
}
# What a class's own configuration leaves out, or has in a shape that hides a part.
CHANGED = {
    "gemma4_text": [dict(), dict(num_kv_shared_layers=10, use_double_wide_mlp=True), dict(attention_k_eq_v=True, num_global_key_value_heads=2),
                    dict(enable_moe_block=True, num_experts=8, top_k_experts=2, moe_intermediate_size=704, hidden_size_per_layer_input=0)],
    "gemma4": [dict(vision_config=dict(), audio_config=dict()), dict(vision_config=dict())],
    "glm_moe_dsa": [dict(), dict(index_topk_freq=4)],
    "roformer": [dict(), dict(embedding_size=256)],
    "zamba2": [dict(), dict(num_mem_blocks=2, use_shared_attention_adapter=True, use_mem_rope=True, n_mamba_heads=80)],
}
AUTO = {"causal": "AutoModelForCausalLM", "masked": "AutoModelForMaskedLM", "seq2seq": "AutoModelForSeq2SeqLM", "vl": "AutoModelForImageTextToText"}


def count(kind, name, changes):
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != os.path.dirname(os.path.abspath(__file__))]  # kernels.py is no package
    import torch
    import transformers
    config = transformers.AutoConfig.for_model(name, **changes)
    with torch.device("meta"):
        model = getattr(transformers, AUTO[kind]).from_config(config)
    model.tie_weights()
    return sum(p.numel() for p in model.parameters()), json.loads(config.to_json_string(use_diff=False))


def measure(path, wanted):
    rows = []
    for kind, names in TYPES.items():
        for name in names:
            if wanted and name not in wanted:
                continue
            for changes in CHANGED.get(name, [dict()]):
                try:
                    params, config = count(kind, name, changes)
                    rows.append(dict(kind=kind, type=name, params=params, config=config))
                    print(kind, name, changes, params, flush=True)
                except Exception as error:  # a type that this transformers does not have, or does not build so
                    print(kind, name, changes, "failed:", str(error).splitlines()[:1], flush=True)
    with open(path, "w") as out:
        json.dump(rows, out)


def compare(path, nest):
    differ = 0
    for row in json.load(open(path)):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "config.json")
            json.dump(row["config"], open(file, "w"))
            done = subprocess.run([nest, "show", file, "--json"], capture_output=True, text=True)
        if done.returncode != 0:
            print(f"{row['type']}: refused: {done.stderr.strip()[:160]}")
            continue
        total = json.loads(done.stdout)["parameters"]["total"]
        differ += total != row["params"]
        print(f"{row['type']}: {total}" + ("" if total == row["params"] else f", transformers {row['params']} ({total - row['params']:+d})"))
    return 1 if differ else 0


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--compare":
        sys.exit(compare(*sys.argv[2:]))
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    measure(sys.argv[1], sys.argv[2:])
