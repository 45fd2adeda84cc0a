#!/usr/bin/env python3
"""Traces small models of Hugging Face's transformers: how the files in tests/graph/transformers were made.

    python3 tests/python/transformers_graphs.py -o FOLDER

Every model NAME gives NAME.json, the trace, and NAME.config.json, its configuration. Needs no build of nest and no GPU.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))

import torch  # noqa: E402
import transformers  # noqa: E402

import nest  # noqa: E402


def models():
    llama = dict(hidden_size=1024, num_attention_heads=8, num_key_value_heads=4, vocab_size=32000, intermediate_size=2816,
                 num_hidden_layers=4, max_position_embeddings=2048, tie_word_embeddings=False)
    return {
        "llama": (transformers.LlamaForCausalLM, transformers.LlamaConfig(**llama)),
        "mixtral": (transformers.MixtralForCausalLM, transformers.MixtralConfig(num_local_experts=4, **llama)),
        "gpt2": (transformers.GPT2LMHeadModel, transformers.GPT2Config(n_embd=768, n_layer=4, n_head=12)),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", dest="folder", required=True)
    folder = parser.parse_args().folder
    for name, (kind, config) in models().items():
        with nest.meta():
            model = kind(config)
        graph = nest.trace(model, {"input_ids": torch.zeros(1, 1024, dtype=torch.long)}, name=name)
        graph.save(os.path.join(folder, name + ".json"))
        config.architectures = [kind.__name__]
        with open(os.path.join(folder, name + ".config.json"), "w", encoding="utf-8") as file:
            file.write(config.to_json_string(use_diff=False))
        print(name, graph)


if __name__ == "__main__":
    main()
