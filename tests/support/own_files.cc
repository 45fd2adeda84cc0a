#include "test_support/own_files.h"

#include <filesystem>
#include <fstream>

#include "test_support/data.h"

namespace nest::test {
namespace {

constexpr const char* kModel =
    R"({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 4,
        "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 1024})";

constexpr const char* kLevels =
    "levels:\n"
    "  - {name: node, group: 4, bandwidth: 200GB/s, latency: 4us}\n"
    "  - {name: pod, group: 2, bandwidth: 20GB/s, latency: 9us}\n";

constexpr const char* kDevice =
    "device: {name: h100, peak: {bf16: 100TFLOPS, fp32: 10TFLOPS}, memory: 12GiB, memory_bandwidth: 500GB/s}\n";

constexpr const char* kStack =
    "like: megatron-core\ndescription: mine\nhost_kernel: 11us\noptimizer_bytes: 7\ndata_overlap: none\n";

constexpr const char* kProfile =
    R"({"schema": "nest.profile/1", "device": "h100", "stack": "mine", "precision": "bf16", "measured": "by hand",
        "operators": [{"operator": "matmul", "m": 1024, "n": 1024, "k": 4096, "forward_s": 0.001, "backward_s": 0.002},
                      {"operator": "matmul", "m": 2048, "n": 1024, "k": 4096, "forward_s": 0.0015, "backward_s": 0.003},
                      {"operator": "matmul", "m": 4096, "n": 1024, "k": 4096, "forward_s": 0.002, "backward_s": 0.004}]})";

}  // namespace

OwnFiles::OwnFiles() {
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder_.file(name)) << text;
    return folder_.file(name);
  };
  model = write("llama3-8b.json", kModel);
  cluster = write("dgx-h100.yaml", std::string("device: h100\n") + kLevels);
  cluster_device = write("my-pod.yaml", std::string(kDevice) + kLevels);
  stack = write("mine.yaml", kStack);
  preset_stack = write("megatron-core.yaml", kStack);
  profile = write("profile.json", kProfile);
  graph = write("graph.json", read_file(source_dir() / "tests" / "fuzz" / "corpus" / "graph" / "decoder.json"));
}

void OwnFiles::forget() const {
  for (const std::string& path : {model, cluster, cluster_device, stack, preset_stack, profile, graph}) {
    std::filesystem::remove(path);
  }
}

}  // namespace nest::test
