#!/usr/bin/env python3
"""What only a machine with a GPU and Hugging Face's transformers can show. Needs no build of nest.

    python3 tests/python/device_check.py -o FOLDER

unittest.txt  the tests of tracing, run with this version of PyTorch
exported.json the same module traced as it is and as torch.export gives it
traces.json   transformers models of full size, traced on meta tensors: parameters, operators, seconds, memory, warnings
saved.json    what traces say autograd keeps, beside what it packs and what the GPU's allocator holds after a forward pass
profile.json  a profile of llama3-8b's block (nest.profile/1), with `profile_work.json` beside this file as its work list
"""
import argparse
import collections
import gc
import json
import os
import resource
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "python"), HERE]

import torch  # noqa: E402

import nest  # noqa: E402


def ids(batch, sequence):
    return torch.zeros(batch, sequence, dtype=torch.long)


def image(batch, size):
    return torch.zeros(batch, 3, size, size)


def large_models():
    """name -> (how to build it, example inputs)"""
    import transformers as t

    llama = t.LlamaConfig(hidden_size=16384, intermediate_size=53248, num_hidden_layers=126, num_attention_heads=128,
                          num_key_value_heads=8, vocab_size=128256, max_position_embeddings=131072, tie_word_embeddings=False)
    return {
        "llama-405b": (lambda: t.LlamaForCausalLM(llama), {"input_ids": ids(1, 8192)}),
        "gpt2-xl": (lambda: t.GPT2LMHeadModel(t.GPT2Config(n_embd=1600, n_layer=48, n_head=25)), {"input_ids": ids(1, 1024)}),
        "mixtral-8x7b": (lambda: t.MixtralForCausalLM(t.MixtralConfig()), {"input_ids": ids(1, 4096)}),
        "t5-11b": (lambda: t.T5ForConditionalGeneration(t.T5Config(d_model=1024, d_kv=128, d_ff=65536, num_layers=24, num_heads=128)),
                   {"input_ids": ids(1, 512), "decoder_input_ids": ids(1, 512)}),
        "vit-huge": (lambda: t.ViTForImageClassification(t.ViTConfig(hidden_size=1280, num_hidden_layers=32, num_attention_heads=16,
                                                                      intermediate_size=5120, patch_size=14, num_labels=1000)), {"pixel_values": image(1, 224)}),
        "whisper-large": (lambda: t.WhisperForConditionalGeneration(t.WhisperConfig(
            d_model=1280, encoder_layers=32, decoder_layers=32, encoder_attention_heads=20, decoder_attention_heads=20,
            encoder_ffn_dim=5120, decoder_ffn_dim=5120, vocab_size=51865)),
            {"input_features": torch.zeros(1, 80, 3000), "decoder_input_ids": ids(1, 448)}),
        "clip-large": (lambda: t.CLIPModel(t.CLIPConfig(
            projection_dim=768,
            text_config=dict(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12),
            vision_config=dict(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16, patch_size=14))),
            {"input_ids": ids(2, 77), "pixel_values": image(2, 224)}),
        "bert-large": (lambda: t.BertForMaskedLM(t.BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
                                                               intermediate_size=4096)), {"input_ids": ids(1, 512), "attention_mask": ids(1, 512) + 1}),
        "qwen3-30b-a3b": (lambda: t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(
            hidden_size=2048, num_hidden_layers=48, num_attention_heads=32, num_key_value_heads=4, head_dim=128, moe_intermediate_size=768,
            num_experts=128, num_experts_per_tok=8, vocab_size=151936)), {"input_ids": ids(1, 4096)}),
        "deepseek-v3": (lambda: t.DeepseekV3ForCausalLM(t.DeepseekV3Config()), {"input_ids": ids(1, 4096)}),
    }


def small_models():
    """name -> (how to build it, inputs on a device): small enough to run for real"""
    import transformers as t

    llama = dict(hidden_size=512, intermediate_size=1408, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4, vocab_size=4096)
    return {
        "llama": (lambda: t.LlamaForCausalLM(t.LlamaConfig(**llama)), {"input_ids": ids(2, 1024)}),
        "llama, eager attention": (lambda: t.LlamaForCausalLM(t.LlamaConfig(**llama, attn_implementation="eager")), {"input_ids": ids(2, 512)}),
        "gpt2": (lambda: t.GPT2LMHeadModel(t.GPT2Config(n_embd=512, n_layer=4, n_head=8, vocab_size=4096)), {"input_ids": ids(2, 1024)}),
        "t5": (lambda: t.T5ForConditionalGeneration(t.T5Config(d_model=512, d_kv=64, d_ff=1024, num_layers=3, num_heads=8, vocab_size=4096)),
               {"input_ids": ids(2, 512), "decoder_input_ids": ids(2, 256)}),
        "vit": (lambda: t.ViTForImageClassification(t.ViTConfig(hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048)),
                {"pixel_values": image(4, 224)}),
        "whisper": (lambda: t.WhisperForConditionalGeneration(t.WhisperConfig(
            d_model=384, encoder_layers=3, decoder_layers=3, encoder_attention_heads=6, decoder_attention_heads=6, encoder_ffn_dim=1536,
            decoder_ffn_dim=1536, vocab_size=4096, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)),
            {"input_features": torch.zeros(2, 80, 3000), "decoder_input_ids": ids(2, 128)}),
        "clip": (lambda: t.CLIPModel(t.CLIPConfig(
            text_config=dict(hidden_size=512, intermediate_size=2048, num_hidden_layers=3, num_attention_heads=8),
            vision_config=dict(hidden_size=512, intermediate_size=2048, num_hidden_layers=3, num_attention_heads=8))),
            {"input_ids": ids(4, 77), "pixel_values": image(4, 224)}),
        "bert": (lambda: t.BertForMaskedLM(t.BertConfig(hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048, vocab_size=4096)),
                 {"input_ids": ids(4, 512), "attention_mask": ids(4, 512) + 1}),
    }


def own_models():
    import models

    return {
        "own vision transformer": (lambda: models.VisionTransformer(64, 8, 256, 4, 8, 1024), (image(4, 64),)),
        "own speech": (lambda: models.SpeechModel(80, 256, 128, 256, 2, 8, 1024), (torch.zeros(2, 80, 512), ids(2, 128))),
        "own u-net": (lambda: models.UNet(32, 3, 64), (image(4, 64), torch.zeros(4))),
        "own two towers": (lambda: models.TwoTowers(64, 8, 256, 2, 8, 1024, 32), (image(4, 64), ids(4, 32))),
        "own llama": (lambda: models.Llama(4096, 512, 4, 8, 4, 1408), (ids(2, 1024),)),
        "own gpt2": (lambda: models.Gpt2(4096, 1024, 512, 4, 8), (ids(2, 1024),)),
        "torch.nn.Transformer": (lambda: torch.nn.Transformer(256, 8, 2, 2, 1024, batch_first=True), (torch.zeros(2, 128, 256), torch.zeros(2, 128, 256))),
    }


# --- traces ----------------------------------------------------------------------------------------------------------------


def describe_trace(name, build, inputs):
    start = time.time()
    with nest.meta():
        model = build()
    built = time.time()
    expected = sum(p.numel() for p in model.parameters())
    graph = nest.trace(model, inputs, name=name)
    row = {"name": name, "parameters": graph.parameters, "expected_parameters": expected, "build_s": built - start,
           "trace_s": time.time() - built, "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
           "operators": graph.count(), "batch": graph.batch, "sequence": graph.sequence, "flops": graph.flops(),
           "saved_bytes_per_sample": graph.saved_bytes() / graph.batch, "json_bytes": len(graph.to_json()), "warnings": graph.warnings}
    return row, graph


def trace_one(name, folder):
    """In a process of its own, so that its memory is its own."""
    build, inputs = large_models()[name]
    row, graph = describe_trace(name, build, inputs)
    graph.save(os.path.join(folder, "graph-%s.json" % name))
    print(json.dumps(row))


def trace_all(folder):
    rows = []
    for name in large_models():
        try:
            done = subprocess.run([sys.executable, os.path.abspath(__file__), "--trace", name, "-o", folder], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, universal_newlines=True, timeout=300)
            row = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"name": name, "error": done.stderr[-2000:]}
        except Exception as error:
            row = {"name": name, "error": repr(error)}
        rows.append(row)
        if "error" in row:
            print("%-16s FAILED: %s" % (name, row["error"].strip().splitlines()[-1][:300]))
        else:
            print("%-16s %12d parameters%s %6d operators  build %4.1f s  trace %4.1f s  %4.2f GB  %d warnings" % (
                name, row["parameters"], "" if row["parameters"] == row["expected_parameters"] else " (WRONG)", sum(row["operators"].values()),
                row["build_s"], row["trace_s"], row["peak_rss_bytes"] / 1e9, len(row["warnings"])))
            for warning in row["warnings"]:
                print("%16s %s" % ("", warning[:200]))
    return rows


# --- what autograd keeps ---------------------------------------------------------------------------------------------------


def moved(inputs, device):
    change = lambda t: t.to(device=device, dtype=torch.bfloat16 if t.is_floating_point() else t.dtype)
    return {k: change(v) for k, v in inputs.items()} if isinstance(inputs, dict) else tuple(change(v) for v in inputs)


def call(model, inputs):
    return model(**inputs) if isinstance(inputs, dict) else model(*inputs)


def kept_on_device(model, inputs, device):
    """Bytes by the allocator after the forward pass alone, and of every storage that autograd packs."""
    model = model.to(device=device, dtype=torch.bfloat16).train()
    for child in model.modules():
        if getattr(getattr(child, "config", None), "use_cache", None) is True:
            child.config.use_cache = False
    inputs = moved(inputs, device)
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    call(model, inputs)  # workspaces
    kept, held = {}, []

    def pack(tensor):
        if tensor.device.type == "cuda" and tensor.untyped_storage().data_ptr() not in weights:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            held.append(tensor)
        return tensor

    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    out = call(model, inputs)
    torch.cuda.synchronize()
    allocated = torch.cuda.memory_allocated() - before
    del out
    gc.collect()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = call(model, inputs)
    del out
    return allocated, list(kept.values())


def differences(traced, packed):
    """[bytes of one tensor, how many more of them were packed than traced], the largest sums first."""
    count = collections.Counter(packed)
    count.subtract(collections.Counter(int(size) for size in traced))
    return sorted(([size, n] for size, n in count.items() if n), key=lambda entry: -abs(entry[0] * entry[1]))[:8]


def compare_saved(device):
    rows = []
    for name, (build, inputs) in {**small_models(), **own_models()}.items():
        try:
            torch.manual_seed(1)
            model = build()
            batch = (list(inputs.values()) if isinstance(inputs, dict) else inputs)[0].shape[0]
            graph = nest.trace(model, inputs, name=name, loss=None)
            traced = graph.saved_bytes(batch=batch)
            row = {"name": name, "traced_bytes": traced, "parameters": graph.parameters, "warnings": graph.warnings,
                   "expected_parameters": sum(p.numel() for p in model.parameters())}
            row["allocated_bytes"], packed = kept_on_device(model, inputs, device)
            row["packed_bytes"] = sum(packed)
            tensors = {t for op in graph.operators for t in op.get("saves", ())}
            row["differences"] = differences([graph.bytes(t, batch=batch) for t in tensors], packed)
            print("%-24s traced %8.2f MB   packed by autograd %8.2f MB (%+.2f %%)   allocator %8.2f MB (%+.2f %%)" % (
                name, traced / 1e6, row["packed_bytes"] / 1e6, 100 * (traced / row["packed_bytes"] - 1), row["allocated_bytes"] / 1e6,
                100 * (traced / row["allocated_bytes"] - 1)))
        except Exception:
            row = {"name": name, "error": traceback.format_exc()[-2000:]}
            print("%-24s FAILED: %s" % (name, row["error"].strip().splitlines()[-1][:300]))
        rows.append(row)
        model = None
        gc.collect()
        torch.cuda.empty_cache()
    return rows


# --- this version of PyTorch -------------------------------------------------------------------------------------------------


def run_tests(folder):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([os.path.join(HERE, "..", "..", "python"), HERE]), PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run([sys.executable, "-m", "unittest", "test_trace", "test_kernels"], cwd=HERE, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True)
    with open(os.path.join(folder, "unittest.txt"), "w") as file:
        file.write(done.stdout)
    print("tests of tracing: %s" % done.stdout.strip().splitlines()[-1])
    if done.returncode:
        print(done.stdout[-6000:])


def compare_exported():
    import models

    rows = []
    for name, build, inputs, dynamic in (
            ("llama", lambda: models.Llama(256, 64, 2, 4, 4, 128), (ids(2, 64),), ({0: "batch", 1: "sequence"},)),
            ("vision", lambda: models.VisionTransformer(32, 8, 64, 2, 4, 256), (image(2, 32),), ({0: "batch"},))):
        try:
            dims = {}
            shapes = tuple({d: dims.setdefault(word, torch.export.Dim(word, min=2, max=4096)) for d, word in given.items()} for given in dynamic)
            program = torch.export.export(build(), inputs, dynamic_shapes=shapes)
            plain, exported = nest.trace(build(), inputs, name=name, dtype=None), nest.trace(program, inputs, name=name)
            row = {"name": name, "plain": plain.count(), "exported": exported.count(), "same_parameters": plain.parameters == exported.parameters,
                   "flops": [plain.flops(), exported.flops()], "saved_bytes": [plain.saved_bytes(), exported.saved_bytes()],
                   "sizes": [(g.batch, g.sequence) for g in (plain, exported)], "warnings": exported.warnings,
                   "modules": sorted({op["module"] for op in exported.operators})[:12]}
        except Exception:
            row = {"name": name, "error": traceback.format_exc()[-3000:]}
        print("exported %s: %s" % (name, row.get("error", "").strip().splitlines()[-1:] or {k: row[k] for k in ("flops", "saved_bytes", "sizes", "warnings")}))
        rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", default=".", help="folder for the results")
    parser.add_argument("--trace", help="only this model, in this process")
    args = parser.parse_args()
    if args.trace:
        return trace_one(args.trace, args.output)
    os.makedirs(args.output, exist_ok=True)
    import transformers

    print("torch %s, transformers %s, %s" % (torch.__version__, transformers.__version__, torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"))

    def write(name, rows):
        with open(os.path.join(args.output, name), "w") as file:
            json.dump({"torch": torch.__version__, "transformers": transformers.__version__, "rows": rows}, file, indent=1)

    run_tests(args.output)
    if hasattr(torch, "export"):
        write("exported.json", compare_exported())
    write("traces.json", trace_all(args.output))
    if torch.cuda.is_available():
        write("saved.json", compare_saved("cuda"))
        work = os.path.join(HERE, "profile_work.json")
        command = [sys.executable, "-m", "nest.profile", "--work", work, "-o", os.path.join(args.output, "profile.json"), "--device-name", "h200"]
        if os.path.exists(work):
            start = time.time()
            done = subprocess.run(command, env=dict(os.environ, PYTHONPATH=os.path.join(HERE, "..", "..", "python")))
            print("profile: exit %d after %.0f s" % (done.returncode, time.time() - start))
    return 0


if __name__ == "__main__":
    sys.exit(main())
