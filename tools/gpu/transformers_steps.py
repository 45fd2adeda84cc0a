#!/usr/bin/env python3
"""Measures models of transformers on one GPU, and traces them there: what nest's predictions are compared with.

    PYTHONPATH=python python3 tools/gpu/transformers_steps.py OUT [kept|steps] [TYPE...]

Writes OUT/rows.json, one row a measurement (of all types, or of those that are named), and OUT/graphs.tar.gz, the graph of every row that could be traced:

    kept    bytes that autograd keeps from the forward pass of small models of many families, weights left out, every storage
            counted once (torch.autograd.graph.saved_tensors_hooks)
    steps   whole training steps: bf16 weights and gradients, AdamW on fp32 master weights of what is trained; the median of
            several, the peak of live tensors and what the allocator held; also with recomputation, with low-rank adapters, and half frozen

`tools/gpu/compare` says what nest predicts for each.
"""
import io
import json
import os
import sys
import tarfile
import time
import traceback

import torch
import transformers

import nest

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

# Small sizes, by the names that configurations have for them.
SMALL = dict(hidden_size=512, d_model=512, n_embd=512, intermediate_size=1024, ffn_dim=1024, encoder_ffn_dim=1024, decoder_ffn_dim=1024,
             d_ff=1024, moe_intermediate_size=256, shared_expert_intermediate_size=256, num_hidden_layers=2, n_layer=2, n_layers=2,
             encoder_layers=2, decoder_layers=2, num_layers=2, num_decoder_layers=2, num_attention_heads=8, n_head=8, n_heads=8, num_heads=8,
             encoder_attention_heads=8, decoder_attention_heads=8, num_key_value_heads=4, head_dim=64, d_kv=64, vocab_size=4096,
             max_position_embeddings=1024, n_positions=1024, max_seq_len=1024, num_experts=8, num_local_experts=8, n_routed_experts=8,
             num_experts_per_tok=2, word_embed_proj_dim=512, embedding_size=512, pad_token_id=0, bos_token_id=1, eos_token_id=2,
             expert_ffn_hidden_size=256, ffn_hidden_size=1024, mamba_n_heads=16, mamba_d_head=64)
FAMILIES = {
    "causal": "llama mistral qwen2 qwen3 gemma gemma2 gemma3_text phi phi3 olmo olmo2 olmo3 granite glm glm4 cohere cohere2 stablelm "
              "starcoder2 smollm3 exaone4 seed_oss arcee apertus helium nemotron gpt2 gpt_neo gpt_neox gptj gpt_bigcode opt bloom "
              "codegen mpt xglm biogpt mixtral qwen2_moe qwen3_moe olmoe granitemoe deepseek_v2 deepseek_v3 gpt_oss mamba2 falcon_h1 "
              "bamba qwen3_next recurrent_gemma lfm2 ernie4_5 hunyuan_v1_dense minimax".split(),
    "masked": "bert roberta electra modernbert distilbert albert deberta-v2 mpnet".split(),
    "seq2seq": "t5 bart mbart pegasus marian".split(),
}
AUTO = {"causal": "AutoModelForCausalLM", "masked": "AutoModelForMaskedLM", "seq2seq": "AutoModelForSeq2SeqLM"}

# Models of the sizes that people train, as far as they fit beside 16 bytes a parameter; mixtures with fewer layers.
STEPS = [
    # type, what differs from the defaults of its configuration, sequence, batch
    ("llama", dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
                   head_dim=64, vocab_size=128256, tie_word_embeddings=True), 4096, 2),
    ("qwen2", dict(hidden_size=1536, intermediate_size=8960, num_hidden_layers=28, num_attention_heads=12, num_key_value_heads=2,
                   vocab_size=151936, tie_word_embeddings=True), 2048, 4),
    ("qwen3", dict(hidden_size=2048, intermediate_size=6144, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
                   head_dim=128, vocab_size=151936, tie_word_embeddings=True), 2048, 2),
    ("gemma", dict(hidden_size=2048, intermediate_size=16384, num_hidden_layers=18, num_attention_heads=8, num_key_value_heads=1,
                   head_dim=256, vocab_size=256000), 2048, 2),
    ("phi3", dict(hidden_size=3072, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=32,
                  vocab_size=32064), 2048, 2),
    ("olmo2", dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=16, num_key_value_heads=16,
                   vocab_size=100352), 4096, 2),
    ("gpt2", dict(n_embd=1600, n_layer=48, n_head=25, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0), 1024, 4),
    ("opt", dict(hidden_size=2048, ffn_dim=8192, num_hidden_layers=24, num_attention_heads=32, word_embed_proj_dim=2048, dropout=0.0),
     2048, 2),
    ("gpt_neox", dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=24, num_attention_heads=16, vocab_size=50304,
                      hidden_dropout=0.0, attention_dropout=0.0), 2048, 2),
    ("mistral", dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=8, num_attention_heads=32, num_key_value_heads=8,
                     head_dim=128, sliding_window=None), 4096, 2),
    ("granite", dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=24, num_attention_heads=32, num_key_value_heads=8,
                     vocab_size=49155), 4096, 1),
    ("stablelm", dict(hidden_size=2048, intermediate_size=5632, num_hidden_layers=24, num_attention_heads=32, num_key_value_heads=32,
                      vocab_size=100352), 2048, 2),
    ("starcoder2", dict(hidden_size=3072, intermediate_size=12288, num_hidden_layers=12, num_attention_heads=24, num_key_value_heads=2,
                        sliding_window=None), 4096, 2),
    ("qwen3_moe", dict(hidden_size=2048, moe_intermediate_size=768, num_hidden_layers=4, num_attention_heads=32, num_key_value_heads=4,
                       head_dim=128, num_experts=64, num_experts_per_tok=8, vocab_size=151936), 2048, 4),
    ("mixtral", dict(hidden_size=2048, intermediate_size=7168, num_hidden_layers=6, num_attention_heads=16, num_key_value_heads=4,
                     num_local_experts=8, num_experts_per_tok=2), 4096, 2),
    ("phi", dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=24, num_attention_heads=32, num_key_value_heads=32,
                 vocab_size=51200, resid_pdrop=0.0, embd_pdrop=0.0, attention_dropout=0.0), 2048, 2),
    ("cohere", dict(hidden_size=4096, intermediate_size=11264, num_hidden_layers=6, num_attention_heads=32, num_key_value_heads=32,
                    vocab_size=128000), 2048, 2),
    ("smollm3", dict(hidden_size=2048, intermediate_size=11008, num_hidden_layers=20, num_attention_heads=16, num_key_value_heads=4,
                     vocab_size=128256), 4096, 1),
    ("glm4", dict(hidden_size=4096, intermediate_size=13696, num_hidden_layers=6, num_attention_heads=32, num_key_value_heads=2,
                  head_dim=128, vocab_size=151552), 2048, 4),
    ("arcee", dict(hidden_size=2560, intermediate_size=18432, num_hidden_layers=12, num_attention_heads=20, num_key_value_heads=4,
                   head_dim=128, vocab_size=128004), 4096, 2),
    ("exaone4", dict(hidden_size=2048, intermediate_size=4096, num_hidden_layers=30, num_attention_heads=32, num_key_value_heads=8,
                     vocab_size=102400), 4096, 2),
    ("seed_oss", dict(hidden_size=5120, intermediate_size=27648, num_hidden_layers=3, num_attention_heads=80, num_key_value_heads=8,
                      head_dim=128, vocab_size=155136, attention_dropout=0.0, residual_dropout=0.0), 4096, 1),
    ("olmoe", dict(hidden_size=2048, intermediate_size=1024, num_hidden_layers=5, num_attention_heads=16, num_key_value_heads=16,
                   num_experts=64, num_experts_per_tok=8), 4096, 2),
]


class Lora(torch.nn.Module):
    """A linear with a low-rank adapter beside it, computed as PEFT does."""

    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        where = dict(device=base.weight.device, dtype=base.weight.dtype)
        self.lora_A = torch.nn.Linear(base.in_features, rank, bias=False, **where)
        self.lora_B = torch.nn.Linear(rank, base.out_features, bias=False, **where)
        self.scaling = 2.0

    def forward(self, x):
        return self.base(x) + self.lora_B(self.lora_A(x)) * self.scaling


def add_lora(model, rank, targets):
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in targets and isinstance(child, torch.nn.Linear):
                setattr(module, name, Lora(child, rank))


def add_peft(model):
    import peft
    peft.inject_adapter_in_model(peft.LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"], lora_dropout=0.0), model)
    for name, parameter in model.named_parameters():  # PEFT keeps adapters in fp32 unless they are cast
        if "lora_" in name:
            parameter.data = parameter.data.to(torch.bfloat16)


def freeze_tower(model):
    for parameter in model.model.vision_tower.parameters():
        parameter.requires_grad_(False)


def freeze_half(model):
    base = model.model
    for module in [base.embed_tokens, *base.layers[:len(base.layers) // 2]]:
        for parameter in module.parameters():
            parameter.requires_grad_(False)


def configuration(model_type, changes):
    config = transformers.CONFIG_MAPPING[model_type]()
    known = config.to_dict()
    for key, value in changes.items():
        if key in known and not (key == "head_dim" and "qk_rope_head_dim" in known):
            setattr(config, key, value)
    for key in ("layer_types", "mlp_layer_types", "layers_block_type"):
        if isinstance(known.get(key), list) and "num_hidden_layers" in changes:
            setattr(config, key, known[key][:changes["num_hidden_layers"]])
    config.use_cache = False
    return config


def build(kind, config, device):
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            auto = getattr(transformers, AUTO[kind])
            try:
                model = auto.from_config(config, attn_implementation="sdpa")
            except ValueError:  # this family has no such kernel
                model = auto.from_config(config, attn_implementation="eager")
    finally:
        torch.set_default_dtype(torch.float32)
    return model.to(torch.bfloat16).train()


def inputs_of(kind, batch, seq, vocab, device):
    tokens = torch.randint(3, vocab - 1, (batch, seq), device=device) if device != "meta" else torch.zeros(batch, seq, dtype=torch.long)
    given = {"input_ids": tokens}
    if kind == "seq2seq":
        given["decoder_input_ids"] = tokens
    return given


def kept_bytes(model, given):
    """Storages that autograd keeps of one forward pass, without parameters and what went in."""
    own = {p.untyped_storage().data_ptr() for p in list(model.parameters()) + list(model.buffers())}
    own |= {t.untyped_storage().data_ptr() for t in given.values()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if tensor.device.type == DEVICE and storage.data_ptr() not in own:
            kept[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = model(**given).logits
    total = sum(size for size, _ in kept.values())
    del out
    return total


def whole_steps(model, given, least_s=1.5):
    weights = [p for p in model.parameters() if p.requires_grad]
    master = [w.detach().float().requires_grad_(True) for w in weights]
    optimizer = torch.optim.AdamW(master, lr=1e-5, fused=True)
    labels = given["input_ids"].clone()

    def loss():  # as transformers' own trainer, nothing holds the logits when backward begins
        logits = model(**given).logits
        return torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1))

    def whole():
        for weight in weights:
            weight.grad = None
        loss().backward()
        with torch.no_grad():
            for fp32, weight in zip(master, weights):
                if weight.grad is not None:
                    fp32.grad, weight.grad = weight.grad.float(), None
            optimizer.step()
            for fp32, weight in zip(master, weights):
                weight.copy_(fp32)
                fp32.grad = None

    whole()
    whole()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    seconds = []
    begin = time.perf_counter()
    while len(seconds) < 5 or time.perf_counter() - begin < least_s:
        start = time.perf_counter()
        whole()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[len(seconds) // 2], torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()


class Results:
    def __init__(self, out):
        self.out, self.rows, self.graphs = out, [], tarfile.open(os.path.join(out, "graphs.tar.gz"), "w:gz")

    def add(self, row, graph=None):
        if graph is not None:
            row["graph"] = "%03d.json" % len(self.rows)
            row["traced_kept_bytes"] = graph.saved_bytes()
            data = json.dumps(graph.data).encode()
            info = tarfile.TarInfo(row["graph"])
            info.size = len(data)
            self.graphs.addfile(info, io.BytesIO(data))
        self.rows.append(row)
        print({k: v for k, v in row.items() if k != "config"}, flush=True)
        with open(os.path.join(self.out, "rows.json"), "w", encoding="utf-8") as file:
            json.dump(self.rows, file)


def traced(kind, config, batch, seq, loss, change=lambda model: None):
    try:
        model = build(kind, config, "meta")
        model.config.pad_token_id = None
        change(model)
        return nest.trace(model, inputs_of(kind, batch, seq, config.vocab_size, "meta"), name=config.model_type, loss=loss), None
    except Exception as error:  # what cannot be traced is a result
        return None, "%s: %s" % (type(error).__name__, str(error)[:300])


def measure_kept(results, wanted):
    for kind, types in FAMILIES.items():
        for model_type in types:
            if wanted and model_type not in wanted:
                continue
            row = {"what": "kept", "kind": kind, "type": model_type, "batch": 2, "seq": 256}
            graph = None
            try:
                config = configuration(model_type, SMALL)
                for name in [n for n in config.to_dict() if "drop" in n and isinstance(getattr(config, n, None), float)]:
                    setattr(config, name, 0.0)
                row["config"] = json.loads(config.to_json_string(use_diff=False))
                model = build(kind, config, DEVICE)
                given = inputs_of(kind, 2, 256, config.vocab_size, DEVICE)
                row["parameters"] = sum(p.numel() for p in model.parameters())
                row["kept_bytes"] = kept_bytes(model, given)
                del model
                graph, row["untraced"] = traced(kind, config, 2, 256, None)
            except Exception as error:
                row["error"] = "%s: %s" % (type(error).__name__, str(error)[:300])
                traceback.print_exc(limit=1)
            results.add(row, graph)
            torch.cuda.empty_cache()


def images_configuration():
    """Llava: CLIP's large tower, 576 patches a picture, before a decoder of a billion parameters."""
    text = transformers.LlamaConfig(hidden_size=2048, intermediate_size=8192, num_hidden_layers=12, num_attention_heads=32,
                                    num_key_value_heads=8, head_dim=64, vocab_size=32064)
    vision = transformers.CLIPVisionConfig(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16,
                                           image_size=336, patch_size=14, projection_dim=768)
    return transformers.LlavaConfig(text_config=text, vision_config=vision, image_token_index=32000, image_seq_length=576)


def measure_images(results):
    batch, seq = 8, 1024
    for name, change in ((None, lambda model: None), ("frozen tower", freeze_tower)):
        row = {"what": "step", "kind": "images", "type": "llava", "variant": name, "batch": batch, "seq": seq}
        try:
            config = images_configuration()
            row["config"] = json.loads(config.to_json_string(use_diff=False))
            torch.manual_seed(0)
            torch.set_default_dtype(torch.bfloat16)
            with torch.device(DEVICE):
                model = transformers.LlavaForConditionalGeneration._from_config(config, attn_implementation="sdpa")
            torch.set_default_dtype(torch.float32)
            model = model.to(torch.bfloat16).train()
            change(model)
            tokens = torch.randint(3, 31999, (batch, seq), device=DEVICE)
            tokens[:, :576] = 32000
            given = {"input_ids": tokens, "pixel_values": torch.randn(batch, 3, 336, 336, device=DEVICE, dtype=torch.bfloat16)}
            row["parameters"] = sum(p.numel() for p in model.parameters())
            row["trained"] = sum(p.numel() for p in model.parameters() if p.requires_grad)
            row["step_s"], row["peak_bytes"], row["reserved_bytes"] = whole_steps(model, given)
        except Exception as error:
            row["error"] = "%s: %s" % (type(error).__name__, str(error)[:300])
            traceback.print_exc(limit=3)
        model = None
        results.add(row)
        torch.cuda.empty_cache()


def measure_steps(results, wanted):
    variants = [(None, lambda model: None)]
    lora = ("lora rank=16,targets=q,v", lambda model: add_lora(model, 16, ("q_proj", "v_proj")))
    all_lora = ("lora rank=64,targets=all",
                lambda model: add_lora(model, 64, ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")))
    half = ("half", freeze_half)
    by_peft = ("peft rank=16,targets=q,v", add_peft)
    for index, (model_type, changes, seq, batch) in enumerate(STEPS):
        if wanted and model_type not in wanted:
            continue
        own = variants + ([lora, all_lora, half] if model_type in ("llama", "mistral", "qwen3") else [])
        own += [by_peft] if model_type == "llama" else []
        own += [("recompute", None)] if index % 3 == 0 else []
        for name, change in own:
            row = {"what": "step", "kind": "causal", "type": model_type, "variant": name, "batch": batch, "seq": seq}
            graph = None
            try:
                config = configuration(model_type, changes)
                row["config"] = json.loads(config.to_json_string(use_diff=False))
                torch.manual_seed(0)
                model = build("causal", config, DEVICE)
                if change is None:
                    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
                else:
                    change(model)
                given = inputs_of("causal", batch, seq, config.vocab_size, DEVICE)
                row["parameters"] = sum(p.numel() for p in model.parameters())
                row["trained"] = sum(p.numel() for p in model.parameters() if p.requires_grad)
                row["step_s"], row["peak_bytes"], row["reserved_bytes"] = whole_steps(model, given)
                del model
                torch.cuda.empty_cache()
                if change is not None:
                    graph, row["untraced"] = traced("causal", config, batch, seq, "auto", change)
            except Exception as error:
                row["error"] = "%s: %s" % (type(error).__name__, str(error)[:300])
                traceback.print_exc(limit=1)
            model = None
            results.add(row, graph)
            torch.cuda.empty_cache()


def main():
    out, words = sys.argv[1], sys.argv[2:]
    what = [word for word in words if word in ("kept", "steps")] or ["kept", "steps"]
    wanted = [word for word in words if word not in what]
    os.makedirs(out, exist_ok=True)
    results = Results(out)
    if "steps" in what:
        measure_steps(results, wanted)
        if not wanted or "llava" in wanted:
            measure_images(results)
    if "kept" in what:
        measure_kept(results, wanted)
    results.graphs.close()


if __name__ == "__main__":
    main()
