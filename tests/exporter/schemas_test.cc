// Exports for DeepSpeed, torchtitan and Megatron-Bridge against strict readers of their documented schemas.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "base/error.h"
#include "export_support.h"
#include "exporter/deepspeed.h"
#include "exporter/nemo.h"
#include "exporter/torchtitan.h"
#include "launch/setup.h"
#include "megatron_parser.h"
#include "test_support/scale.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using StrictJson = nlohmann::json;

// --- DeepSpeed: typed sections forbid unknown keys

struct Field {
  enum class Type { boolean, integer, number, text } type;
  double low = 0, high = 1e18;
};
using Section = std::map<std::string, Field>;

const std::map<std::string, Section>& deepspeed_sections() {
  using enum Field::Type;
  static const std::map<std::string, Section> sections = {
      {"zero_optimization",
       {{"stage", {integer, 0, 3}},
        {"overlap_comm", {boolean}},
        {"contiguous_gradients", {boolean}},
        {"reduce_scatter", {boolean}},
        {"reduce_bucket_size", {integer}},
        {"mics_shard_size", {integer, -1}},
        {"mics_hierarchical_params_gather", {boolean}},
        {"zero_hpz_partition_size", {integer, 1}}}},
      {"bf16", {{"enabled", {boolean}}, {"immediate_grad_update", {boolean}}, {"check_grad_overflow", {boolean}}}},
      {"fp16",
       {{"enabled", {boolean}},
        {"loss_scale", {number}},
        {"initial_scale_power", {integer}},
        {"hysteresis", {integer}}}},
      {"activation_checkpointing",
       {{"partition_activations", {boolean}},
        {"cpu_checkpointing", {boolean}},
        {"contiguous_memory_optimization", {boolean}},
        {"synchronize_checkpoint_boundary", {boolean}},
        {"profile", {boolean}}}},
      {"tensor_parallel", {{"autotp_size", {integer, 0}}, {"preset_model", {text}}, {"tp_overlap_comm", {boolean}}}},
      {"expert_parallel", {{"enabled", {boolean}}, {"autoep_size", {integer, 1}}, {"preset_model", {text}}}},
      {"pipeline",
       {{"stages", {integer, 1}},
        {"partition", {text}},
        {"seed_layers", {boolean}},
        {"activation_checkpoint_interval", {integer, 0}},
        {"pipe_partitioned", {boolean}},
        {"grad_partitioned", {boolean}}}}};
  return sections;
}

bool matches(const StrictJson& value, const Field& field) {
  switch (field.type) {
    case Field::Type::boolean: return value.is_boolean();
    case Field::Type::text: return value.is_string();
    case Field::Type::integer:
      return value.is_number_integer() && value.get<double>() >= field.low && value.get<double>() <= field.high;
    case Field::Type::number: return value.is_number() && value.get<double>() >= field.low;
  }
  return false;
}

void check_deepspeed(const StrictJson& config, const cost::Job& job, const Strategy& s,
                     std::vector<std::string>& problems) {
  const std::set<std::string> scalars = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                         "gradient_accumulation_steps", "gradient_clipping", "sequence_parallel_size"};
  for (const auto& [key, value] : config.items()) {
    if (scalars.contains(key)) {
      if (!value.is_number()) problems.push_back(key);
      continue;
    }
    const auto section = deepspeed_sections().find(key);
    if (section == deepspeed_sections().end()) {
      problems.push_back("unknown key " + key);
      continue;
    }
    for (const auto& [name, entry] : value.items()) {
      const auto field = section->second.find(name);
      if (field == section->second.end() || !matches(entry, field->second)) problems.push_back(key + "." + name);
    }
  }
  // train_batch_size = micro * accumulation * data-parallel ranks, exactly.
  const long autotp = config.contains("tensor_parallel") ? config["tensor_parallel"]["autotp_size"].get<long>() : 1;
  const long pp = config.contains("pipeline") ? config["pipeline"]["stages"].get<long>() : 1;
  const long model = pp > 1 ? pp * s.split.tp : autotp;
  const long ranks = s.devices_used() / model;
  if (config["train_batch_size"] != config["train_micro_batch_size_per_gpu"].get<long>() *
                                        config["gradient_accumulation_steps"].get<long>() * ranks) {
    problems.emplace_back("batch");
  }
  if (config["train_batch_size"] != job.run.global_batch) problems.emplace_back("global batch");
  const int zero = config["zero_optimization"]["stage"];
  if (pp > 1 && zero > 1) problems.emplace_back("ZeRO with a pipeline");
  if (config.contains("expert_parallel") && config.contains("tensor_parallel"))
    problems.emplace_back("experts with AutoTP");
  if (config["zero_optimization"].contains("mics_shard_size") &&
      s.devices_used() % config["zero_optimization"]["mics_shard_size"].get<long>() != 0) {
    problems.emplace_back("MiCS");
  }
  if (config.contains("tensor_parallel") && config["tensor_parallel"].contains("preset_model")) {
    const std::set<std::string> presets = {"llama", "bloom", "chatglm", "mixtral", "deepseek_v2", "qwen2", "phi3"};
    if (!presets.contains(config["tensor_parallel"]["preset_model"])) problems.emplace_back("preset");
  }
}

TEST(DeepspeedExport, FollowsTheSchemaAndComesBack) {
  std::mt19937 random(21);
  std::uint32_t flat = 0, pipelines = 0, spread = 0;
  const std::uint32_t rounds = test::scaled(6000, 1000);
  for (const char* name : {"llama3-8b", "llama3-70b", "mixtral-8x7b", "bloom-176b", "gpt-oss-20b"}) {
    const cost::Job job = export_job(name, 256, 768, 4096, "megatron-deepspeed");
    for (std::uint32_t round = 0; round < rounds; ++round) {
      SomePlan plan = random_plan(job, random);
      plan.strategy.dp_inner = plan.strategy.dp;
      if (!exporter::obstacles(launch::Framework::deepspeed, job, plan.strategy, plan.stages).empty()) continue;
      const exporter::DeepspeedExport exported = exporter::export_deepspeed({job, plan.strategy, plan.stages});
      std::vector<std::string> problems;
      const std::string text = exported.config.dump(2);
      check_deepspeed(StrictJson::parse(text), job, plan.strategy, problems);
      EXPECT_THAT(problems, IsEmpty()) << text;
      EXPECT_EQ(exported.arguments.empty(), plan.strategy.pp == 1);
      launch::LaunchSetup setup = launch::read_launch("ds.json", text, {}, "", nullptr);
      setup.world = plan.strategy.devices_used();
      if (plan.strategy.pp > 1) setup.tp = plan.strategy.split.tp;  // given beside the file
      const launch::LaunchedPlan back = launch::lay_out(setup, job);
      EXPECT_EQ(back.strategy, plan.strategy) << text;
      EXPECT_EQ(exporter::sharding_of(back.strategy, back.stages.front()),
                exporter::sharding_of(plan.strategy, plan.stages.front()))
          << text;
      plan.strategy.pp > 1 ? ++pipelines : ++flat;
      spread += plan.strategy.split.ep > 1 ? 1 : 0;
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GT(flat, rounds / 60);
  EXPECT_GT(pipelines, rounds / 300);
  EXPECT_GT(spread, rounds / 1000);
}

// --- torchtitan: TOML with a fixed set of keys

struct TomlFile {
  std::map<std::string, std::map<std::string, std::string>> tables;
  std::int64_t integer(const std::string& table, const std::string& key, std::int64_t otherwise) const {
    const auto section = tables.find(table);
    if (section == tables.end() || !section->second.contains(key)) return otherwise;
    return std::stoll(section->second.at(key));
  }
  std::string text(const std::string& table, const std::string& key) const {
    const auto section = tables.find(table);
    return section == tables.end() || !section->second.contains(key) ? "" : section->second.at(key);
  }
};

TomlFile read_strict_toml(const std::string& text, std::vector<std::string>& problems) {
  static const std::map<std::string, std::map<std::string, std::regex>> allowed = [] {
    const std::regex integer("-?[0-9]+"), boolean("true|false"), any(".*", std::regex::extended);
    std::map<std::string, std::map<std::string, std::regex>> keys;
    keys["model"] = {{"name", std::regex("\"[a-z0-9_]+\"")},
                     {"flavor", std::regex("\"[^\"]+\"")},
                     {"converters", std::regex(R"(\["quantize\.linear\.float8"\])")}};
    keys["training"] = {{"local_batch_size", integer},
                        {"global_batch_size", integer},
                        {"seq_len", integer},
                        {"mixed_precision_param", std::regex("\"(bfloat16|float32)\"")}};
    keys["parallelism"] = {
        {"data_parallel_replicate_degree", integer},
        {"data_parallel_shard_degree", integer},
        {"fsdp_reshard_after_forward", std::regex("\"(default|always|never)\"")},
        {"tensor_parallel_degree", integer},
        {"enable_async_tensor_parallel", boolean},
        {"context_parallel_degree", integer},
        {"context_parallel_rotate_method", std::regex("\"(allgather|alltoall)\"")},
        {"expert_parallel_degree", integer},
        {"expert_tensor_parallel_degree", integer},
        {"pipeline_parallel_degree", integer},
        {"pipeline_parallel_schedule", std::regex("\"(1F1B|GPipe|Interleaved1F1B|ZBVZeroBubble|DualPipeV)\"")},
        {"pipeline_parallel_schedule_csv", std::regex("\"[a-z0-9-]+\\.csv\"")},
        {"pipeline_parallel_microbatch_size", integer},
        {"module_fqns_per_model_part", any}};
    keys["activation_checkpoint"] = {{"mode", std::regex("\"(selective|full|none)\"")},
                                     {"selective_ac_option", std::regex("\"(op|[0-9]+)\"")}};
    keys["compile"] = {{"enable", boolean}, {"components", std::regex(R"(\["model", "loss"\])")}};
    keys["quantize.linear.float8"] = {{"recipe_name", std::regex("\"(tensorwise|rowwise|rowwise_with_gw_hp)\"")},
                                      {"filter_fqns", any}};
    return keys;
  }();
  TomlFile file;
  std::string table;
  std::istringstream stream(text);
  std::smatch match;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty()) continue;
    if (std::regex_match(line, match, std::regex(R"(\[([a-z0-9_.]+)\])"))) {
      table = match[1];
      if (file.tables.contains(table) || !allowed.contains(table)) problems.push_back("table " + table);
      file.tables[table];
      continue;
    }
    if (!std::regex_match(line, match, std::regex(R"(([a-z0-9_]+) = (.+))")) || table.empty()) {
      problems.push_back("line " + line);
      continue;
    }
    std::string value = match[2];
    const std::string key = match[1];
    if (value == "[") {
      while (std::getline(stream, line) && line != "]") value += line;
      value += "]";
    }
    const auto& keys = allowed.at(table);
    if (!keys.contains(key)) {
      problems.push_back("key " + table + "." + key);
    } else if (value.size() < 200 && !std::regex_match(value, keys.at(key))) {
      problems.push_back("value " + table + "." + key + " = " + value);
    }
    if (file.tables[table].contains(key)) problems.push_back("twice " + key);
    file.tables[table][key] = value;
  }
  return file;
}

void check_torchtitan(const TomlFile& file, const cost::Job& job, const SomePlan& plan,
                      std::vector<std::string>& problems) {
  const Strategy& s = plan.strategy;
  const auto degree = [&](const char* key) { return file.integer("parallelism", key, 1); };
  const std::int64_t replicate = degree("data_parallel_replicate_degree"), shard = degree("data_parallel_shard_degree");
  const std::int64_t tp = degree("tensor_parallel_degree"), cp = degree("context_parallel_degree");
  const std::int64_t pp = degree("pipeline_parallel_degree"), ep = degree("expert_parallel_degree");
  if (replicate * shard * cp * tp * pp != s.devices_used()) problems.emplace_back("world");
  if ((shard * cp * tp) % ep != 0) problems.emplace_back("ep");
  const std::int64_t local = file.integer("training", "local_batch_size", 8), dp = replicate * shard;
  const std::int64_t global = file.integer("training", "global_batch_size", -1);
  if (global != job.run.global_batch || global % (local * dp) != 0) problems.emplace_back("global batch");
  if (pp == 1) return;
  const std::int64_t micro = file.integer("parallelism", "pipeline_parallel_microbatch_size", 1);
  if (local % micro != 0 || local / micro != micro_batches(s, global)) problems.emplace_back("micro-batches");
  // Every layer once and in order, embedding first, norm and output last, pp x v parts.
  const std::string parts = file.text("parallelism", "module_fqns_per_model_part");
  std::vector<std::string> names;
  std::int64_t count = 0;
  const std::regex part(R"(\[("[^\[\]]*")\],)"), word(R"rx("([^"]+)")rx");
  for (std::sregex_iterator at(parts.begin(), parts.end(), part), end; at != end; ++at, ++count) {
    const std::string inside = (*at)[1];
    for (std::sregex_iterator w(inside.begin(), inside.end(), word); w != end; ++w) names.push_back((*w)[1]);
  }
  if (count != pp * s.virtual_stages) problems.emplace_back("parts");
  std::vector<std::string> expected = {"tok_embeddings"};
  for (std::int64_t i = 0; i + 2 < static_cast<std::int64_t>(job.model.layers.size()); ++i) {
    expected.push_back("layers." + std::to_string(i));
  }
  expected.insert(expected.end(), {"norm", "output"});
  if (names != expected) problems.emplace_back("modules");
}

TEST(TorchtitanExport, FollowsTheSchemaAndComesBack) {
  std::mt19937 random(31);
  std::uint32_t exported = 0, interleaved = 0, hybrid = 0, spread = 0;
  const std::uint32_t rounds = test::scaled(6000, 800);
  for (const char* name : {"llama3-8b", "llama3-405b", "qwen3-30b-a3b", "mixtral-8x7b"}) {
    const cost::Job job = export_job(name, 256, 768, 4096, "fsdp2");
    for (std::uint32_t round = 0; round < rounds; ++round) {
      SomePlan plan = random_plan(job, random);
      plan.strategy.dp_inner = plan.strategy.dp;
      const std::int64_t all = groups::dense_replicas(plan.strategy);
      if (plan.strategy.split.ep == 1 && all % 2 == 0 && random() % 3 == 0 &&
          groups::can_shard(plan.strategy, all / 2)) {
        for (StagePlan& stage : plan.stages) stage.zero_degree = all / 2;
      }
      if (!exporter::obstacles(launch::Framework::torchtitan, job, plan.strategy, plan.stages).empty()) continue;
      const exporter::TorchtitanExport done = exporter::export_torchtitan({job, plan.strategy, plan.stages});
      std::vector<std::string> problems;
      check_torchtitan(read_strict_toml(done.toml, problems), job, plan, problems);
      EXPECT_THAT(problems, IsEmpty()) << done.toml;
      const launch::LaunchSetup setup = launch::read_launch("titan.toml", done.toml, {}, "", nullptr);
      EXPECT_EQ(setup.world, plan.strategy.devices_used());
      const launch::LaunchedPlan back = launch::lay_out(setup, job);
      EXPECT_EQ(back.strategy, plan.strategy) << done.toml;
      for (std::size_t i = 0; i < plan.stages.size(); ++i) {
        EXPECT_EQ(back.stages[i].first, plan.stages[i].first);
        EXPECT_EQ(back.stages[i].last, plan.stages[i].last);
        EXPECT_EQ(back.stages[i].recompute, plan.stages[i].recompute);
        EXPECT_EQ(exporter::sharding_of(back.strategy, back.stages[i]),
                  exporter::sharding_of(plan.strategy, plan.stages[i]))
            << done.toml;
      }
      ++exported;
      interleaved += plan.strategy.virtual_stages > 1 ? 1 : 0;
      spread += plan.strategy.split.ep > 1 ? 1 : 0;
      hybrid += exporter::sharding_of(plan.strategy, plan.stages.front()).degree < all ? 1 : 0;
      ASSERT_FALSE(HasFailure()) << name;
    }
  }
  EXPECT_GT(exported, rounds / 15);
  EXPECT_GT(interleaved, rounds / 600);
  EXPECT_GT(hybrid, rounds / 300);
  EXPECT_GT(spread, rounds / 300);
}

// --- Megatron-Bridge: Hydra's override grammar and the documented keys

void check_override(const std::string& line, const std::set<std::string>& keys,
                    std::map<std::string, std::string>& found, std::vector<std::string>& problems) {
  const std::size_t equals = line.find('=');
  const std::string key = line.substr(0, equals), value = equals == std::string::npos ? "" : line.substr(equals + 1);
  if (!keys.contains(key)) problems.push_back("key " + key);
  if (!found.emplace(key, value).second) problems.push_back("twice " + key);
  // Unquoted text, a quoted string, a list of plain items, or an object of plain values.
  const std::regex plain(R"([A-Za-z0-9_/\\+.$%*@?|-]+)"), quoted(R"("[^"]*")"),
      list(R"(\[([A-Za-z0-9_]+(,[A-Za-z0-9_]+)*)?\])"),
      object(R"(\{[a-z0-9_]+:[A-Za-z0-9_.]+(,[a-z0-9_]+:([A-Za-z0-9_.]+|\{_target_:[a-z0-9_.]+,_call_:false\}))*\})");
  if (!std::regex_match(value, plain) && !std::regex_match(value, quoted) && !std::regex_match(value, list) &&
      !std::regex_match(value, object)) {
    problems.push_back("value " + line);
  }
}

const std::set<std::string>& bridge_keys() {
  static const std::set<std::string> keys = {"model.num_layers",
                                             "model.hidden_size",
                                             "model.ffn_hidden_size",
                                             "model.num_attention_heads",
                                             "model.num_query_groups",
                                             "model.kv_channels",
                                             "model.add_bias_linear",
                                             "model.share_embeddings_and_output_weights",
                                             "model.gated_linear_unit",
                                             "model.activation_func",
                                             "model.attention_dropout",
                                             "model.hidden_dropout",
                                             "model.cross_entropy_loss_fusion",
                                             "model.num_moe_experts",
                                             "model.moe_router_topk",
                                             "model.moe_ffn_hidden_size",
                                             "model.moe_layer_freq",
                                             "model.moe_grouped_gemm",
                                             "model.moe_token_dispatcher_type",
                                             "model.tensor_model_parallel_size",
                                             "model.pipeline_model_parallel_size",
                                             "model.context_parallel_size",
                                             "model.sequence_parallel",
                                             "model.expert_model_parallel_size",
                                             "model.expert_tensor_parallel_size",
                                             "model.cp_comm_type",
                                             "model.virtual_pipeline_model_parallel_size",
                                             "model.pipeline_model_parallel_layout",
                                             "model.recompute_granularity",
                                             "model.recompute_modules",
                                             "model.recompute_method",
                                             "model.recompute_num_layers",
                                             "ddp.use_distributed_optimizer",
                                             "ddp.overlap_grad_reduce",
                                             "ddp.overlap_param_gather",
                                             "ddp.grad_reduce_in_fp32",
                                             "ddp.use_megatron_fsdp",
                                             "ddp.data_parallel_sharding_strategy",
                                             "ddp.num_distributed_optimizer_instances",
                                             "ddp.outer_dp_sharding_strategy",
                                             "ddp.fsdp_double_buffer",
                                             "++ddp.megatron_fsdp_main_grads_dtype",
                                             "++ddp.megatron_fsdp_grad_comm_dtype",
                                             "ddp.megatron_fsdp_max_pool_double_buffer",
                                             "dist.use_tp_pp_dp_mapping",
                                             "train.micro_batch_size",
                                             "train.global_batch_size",
                                             "dataset.seq_length",
                                             "++comm_overlap",
                                             "model.rotary_base",
                                             "model.rope_scaling",
                                             "model.rope_scaling_factor",
                                             "model.layernorm_epsilon",
                                             "model.moe_flex_dispatcher_backend",
                                             "model.moe_flex_dispatcher_num_sms",
                                             "model.cuda_graph_impl",
                                             "model.moe_router_fusion",
                                             "model.cuda_graph_modules",
                                             "model.fine_grained_activation_offloading",
                                             "model.offload_modules",
                                             "mixed_precision"};
  return keys;
}

TEST(NemoExport, FollowsTheOverrideGrammar) {
  std::mt19937 random(41);
  std::uint32_t exported = 0, layouts = 0;
  const std::uint32_t rounds = test::scaled(600, 90);
  for (const char* name : {"llama3-70b", "mixtral-8x22b", "deepseek-v3", "gpt3-175b"}) {
    const cost::Job job = export_job(name, 256, 768, 4096);
    for (std::uint32_t round = 0; round < rounds; ++round) {
      SomePlan plan = random_plan(job, random);
      plan.strategy.dp_inner = plan.strategy.dp;
      if (!exporter::obstacles(launch::Framework::nemo, job, plan.strategy, plan.stages).empty()) continue;
      const std::string text = exporter::overrides_text(
          exporter::export_nemo({job, plan.strategy, plan.stages}, exporter::NemoForm::bridge));
      std::vector<std::string> problems;
      std::map<std::string, std::string> found;
      std::istringstream stream(text);
      for (std::string line; std::getline(stream, line);) check_override(line, bridge_keys(), found, problems);
      const Strategy& s = plan.strategy;
      const std::int64_t world = s.devices_used();
      const auto number = [&](const char* key) { return std::stoll(found.at(std::string("model.") + key)); };
      if (world % (number("tensor_model_parallel_size") * number("pipeline_model_parallel_size") *
                   number("context_parallel_size")) !=
          0) {
        problems.emplace_back("world");
      }
      EXPECT_EQ(number("num_layers"), job.model.architecture.layers());
      // The layout is there, or null: a recipe's own must not survive.
      const std::string layout = found.at("model.pipeline_model_parallel_layout");
      if (layout != "null") {
        ++layouts;
        const auto stages =
            expand_layout(layout.front() == '"' ? layout.substr(1, layout.size() - 2) : layout, problems);
        EXPECT_EQ(static_cast<std::int64_t>(stages.size()), s.pp * s.virtual_stages);
      }
      EXPECT_EQ(found.at("model.virtual_pipeline_model_parallel_size"),
                s.virtual_stages == 1 ? "null" : std::to_string(s.virtual_stages));
      EXPECT_THAT(problems, IsEmpty()) << text;
      ++exported;
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GT(exported, rounds / 6);
  EXPECT_GT(layouts, rounds / 60);
}

// A recipe's own settings of what the plan decides do not survive.
TEST(NemoExport, OverlapIsOneObjectAndRecomputationIsReset) {
  const cost::Job job = export_job("llama3-70b", 64, 64, 4096);
  Strategy s;
  s.split.tp = 4;
  s.split.sp = true;
  s.pp = 4;
  s.dp = s.dp_inner = 4;
  s.virtual_stages = 5;
  s.schedule = Schedule::interleaved;
  const auto text_of = [&](Recompute recompute) {
    return "\n" + exporter::overrides_text(exporter::export_nemo({job, s, cost::even_stages(job, s, recompute, 1)},
                                                                 exporter::NemoForm::bridge));
  };
  EXPECT_THAT(text_of(Recompute::none),
              HasSubstr("\n++comm_overlap={_target_:megatron.bridge.training.comm_overlap.CommOverlapConfig,"
                        "tp_comm_overlap:true,tp_comm_overlap_cfg:null,overlap_p2p_comm:true,batch_p2p_comm:false,"
                        "overlap_grad_reduce:true,overlap_param_gather:true,defer_embedding_wgrad_compute:true,"
                        "wgrad_deferral_limit:22}\n"));
  EXPECT_THAT(text_of(Recompute::none), HasSubstr("\nmodel.recompute_granularity=null\nmodel.recompute_modules=null\n"
                                                  "model.recompute_method=null\nmodel.recompute_num_layers=null\n"));
  EXPECT_THAT(text_of(Recompute::selective),
              HasSubstr("\nmodel.recompute_granularity=selective\nmodel.recompute_modules=[core_attn]\n"
                        "model.recompute_method=null\nmodel.recompute_num_layers=null\n"));
  EXPECT_THAT(text_of(Recompute::full), HasSubstr("\nmodel.recompute_granularity=full\nmodel.recompute_modules=null\n"
                                                  "model.recompute_method=uniform\nmodel.recompute_num_layers=1\n"));
  const std::string older = exporter::overrides_text(
      exporter::export_nemo({job, s, cost::even_stages(job, s, Recompute::selective, 1)}, exporter::NemoForm::nemo2));
  EXPECT_THAT(older, HasSubstr("model.config.recompute_modules=['core_attn']\n"));  // a literal of Python
  EXPECT_THAT(older, Not(HasSubstr("activation_func")));
}

TEST(NemoExport, TheOlderFormHasOtherPlaces) {
  const cost::Job job = export_job("llama3-8b", 64, 64, 4096);
  Strategy s;
  s.split.tp = 2;
  s.split.sp = true;
  s.dp = s.dp_inner = 32;
  const std::string text = exporter::overrides_text(
      exporter::export_nemo({job, s, cost::even_stages(job, s, Recompute::none, 1)}, exporter::NemoForm::nemo2));
  EXPECT_THAT(text, HasSubstr("trainer.strategy.tensor_model_parallel_size=2\n"));
  EXPECT_THAT(text, HasSubstr("trainer.strategy.ddp.use_distributed_optimizer=true\n"));
  EXPECT_THAT(text, HasSubstr("data.global_batch_size=64\n"));
  EXPECT_THAT(text, HasSubstr("optim.config.use_distributed_optimizer=true\n"));
}

}  // namespace
}  // namespace nest::test
