// Folders to submit, run by bash with stand-ins for Slurm and the launchers: every host starts what the plan puts there.
#include "exporter/job_folder.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "export_support.h"
#include "launch/setup.h"
#include "plan/strategy_text.h"
#include "test_support/temporary_folder.h"

namespace nest::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class JobFolders : public ::testing::Test {
 protected:
  JobFolders() : folder_(own_.path()) {
    std::filesystem::create_directories(folder_ / "bin");
    stand_in("scontrol", "printf 'n%d\\n' 0 1 2 3");
    stand_in("srun",
             "while [[ $1 == --* ]]; do shift; done\nk=0\n"
             "while read -r host; do SLURM_PROCID=$k HOST=$host \"$@\" < /dev/null; k=$((k+1)); done < "
             "\"$SLURM_HOSTFILE\"");
    for (const char* launcher : {"torchrun", "accelerate"}) {
      stand_in(launcher, "echo \"$HOST $MASTER_ADDR $*\"");
    }
  }

  void stand_in(const char* name, const std::string& text) const {
    const std::filesystem::path file = folder_ / "bin" / name;
    std::ofstream(file) << "#!/bin/bash\n" << text << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

  static const exporter::JobKind& kind_of(std::string_view name) {
    const auto kinds = exporter::job_kinds();
    return *std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return name == kind.name; });
  }

  // Writes the folder and submits it: the lines that launchers say.
  std::vector<std::string> submit(const cost::Job& job, const std::string& strategy, int zero, const char* kind,
                                  const std::string& variables) {
    plan::StrategyRequest request = plan::parse_strategy(strategy);
    plan::fill_devices(request, job.cluster.devices);
    if (!request.inner_given) request.strategy.dp_inner = request.strategy.dp;
    const std::vector<StagePlan> stages = cost::even_stages(job, request.strategy, Recompute::none, zero);
    exporter::ExportTask task{job, request.strategy, stages};
    task.hosts = exporter::hosts_of(job.cluster, 0);
    const auto launch = exporter::launch_order(task.hosts, task.strategy);
    EXPECT_TRUE(launch);
    task.order = launch->order;
    task.launch = &*launch;
    const exporter::JobKind& chosen = kind_of(kind);
    for (const exporter::JobFile& file : exporter::job_files(task, chosen, chosen.parts(task))) {
      std::ofstream(folder_ / file.name) << file.content;
      files_[file.name] = file.content;
    }
    return run(variables + " bash job.sbatch");
  }

  std::vector<std::string> run(const std::string& command) const {
    const std::string line = "cd '" + folder_.string() + "' && PATH='" + folder_.string() +
                             "/bin':$PATH SLURM_JOB_NODELIST='n[0-3]' " + command + " > out.txt 2> err.txt";
    EXPECT_EQ(std::system(line.c_str()), 0) << line;
    std::ifstream file(folder_ / "out.txt");
    std::vector<std::string> lines;
    for (std::string each; std::getline(file, each);) lines.push_back(each);
    return lines;
  }

  TemporaryFolder own_;  // tests run side by side
  std::filesystem::path folder_;
  std::map<std::string, std::string> files_;
};

TEST_F(JobFolders, MegatronBridgeGetsItsRecipeAndOverrides) {
  const cost::Job job = export_job("llama3-8b", 32, 64);
  const std::vector<std::string> lines = submit(job, "tp=2,sp=1,mbs=1", 1, "bridge", "BRIDGE=/b");
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[3],
              StartsWith("n3 n0 --nnodes 4 --nproc-per-node 8 --node-rank 3 --master-addr n0 --master-port 29500 "
                         "/b/scripts/training/run_recipe.py --recipe llama3_8b_pretrain_config --mode pretrain "
                         "--dataset mock model.num_layers=32 "));
  EXPECT_THAT(lines[0], HasSubstr(" model.tensor_model_parallel_size=2 "));
  EXPECT_EQ(files_["hosts"], "node0000\nnode0001\nnode0002\nnode0003\n");
  EXPECT_THAT(files_["README.md"], HasSubstr("BRIDGE=… sbatch job.sbatch"));
  EXPECT_THAT(files_["README.md"], HasSubstr("- start from the recipe of this model"));
  // The script can be read again, overrides and all.
  const launch::LaunchSetup setup = launch::read_launch("plan.overrides", files_["plan.overrides"], {}, "", nullptr);
  EXPECT_EQ(setup.tp, 2);
}

TEST_F(JobFolders, NemoIsToldItsHosts) {
  const cost::Job job = export_job("llama3-8b", 32, 64);
  const std::vector<std::string> lines = submit(job, "tp=2,sp=1,mbs=1", 1, "nemo2", "RECIPE=mine");
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[1],
              HasSubstr(" --no-python nemo llm pretrain --factory mine trainer.num_nodes=4 trainer.devices=8 "));
  EXPECT_THAT(lines[1], HasSubstr(" trainer.strategy.tensor_model_parallel_size=2 "));
}

TEST_F(JobFolders, MegatronHasItsOptionsInTheScript) {
  const cost::Job job = export_job("llama3-8b", 32, 64);
  const std::vector<std::string> lines = submit(job, "tp=2,sp=1,pp=4,mbs=1", 1, "megatron", "MEGATRON=/m");
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[2], HasSubstr("--node-rank 2 "));
  EXPECT_THAT(lines[2], HasSubstr(" /m/pretrain_gpt.py --num-layers 32 "));
  const launch::LaunchSetup setup = launch::read_launch("launch.sh", files_["launch.sh"], {}, "", nullptr);
  EXPECT_EQ(setup.pp, 4);
  EXPECT_EQ(setup.world, 32);
}

TEST_F(JobFolders, TorchtitansHaveTheirConfigurations) {
  const cost::Job job = export_job("llama3-8b", 32, 64, 4096, "fsdp2");
  const std::vector<std::string> older = submit(job, "mbs=1", 3, "torchtitan", "");
  ASSERT_EQ(older.size(), 4U);
  EXPECT_THAT(older[0], ::testing::EndsWith(" -m torchtitan.train --job.config_file plan.toml"));
  EXPECT_THAT(files_["plan.toml"], HasSubstr("[parallelism]"));
  const std::vector<std::string> newer = submit(job, "mbs=1", 3, "torchtitan-main", "");
  EXPECT_THAT(newer[0], ::testing::EndsWith(" -m torchtitan.train --module plan --config plan"));
  EXPECT_THAT(files_["plan.py"], HasSubstr("def plan()"));
}

TEST_F(JobFolders, ProgramsOfPeopleComeFromVariables) {
  const cost::Job sharded = export_job("llama3-8b", 32, 64, 4096, "hf-fsdp");
  const std::vector<std::string> lines = submit(sharded, "mbs=1", 3, "fsdp", "TRAIN=train.py");
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[1], StartsWith("n1 n0 launch --config_file accelerate.yaml --num_machines 4 --num_processes 32 "
                                   "--machine_rank 1 --main_process_ip n0 --main_process_port 29500 train.py "
                                   "--per_device_train_batch_size 1 --gradient_accumulation_steps 2 --bf16 true"));
  const cost::Job deep = export_job("llama3-8b", 32, 64, 4096, "hf-deepspeed");
  EXPECT_THAT(submit(deep, "mbs=1", 3, "deepspeed", "TRAIN=train.py")[2],
              ::testing::EndsWith(" train.py --deepspeed deepspeed.json"));
  // Without it the job says what is missing, and starts nothing.
  const std::string line = "cd '" + folder_.string() + "' && PATH='" + folder_.string() +
                           "/bin':$PATH SLURM_JOB_NODELIST='n[0-3]' bash job.sbatch > out.txt 2> err.txt";
  EXPECT_NE(std::system(line.c_str()), 0);
  std::stringstream said;
  said << std::ifstream(folder_ / "err.txt").rdbuf();
  EXPECT_THAT(said.str(), HasSubstr("TRAIN: the training program"));
}

// Whatever is asked of a host goes to the program; one host needs nothing to be set.
TEST_F(JobFolders, OneHostStartsByItself) {
  const cost::Job job = export_job("llama3-8b", 8, 64, 4096, "fsdp2");
  submit(job, "mbs=1", 3, "torchtitan", "");
  EXPECT_THAT(run("bash launch.sh --training.steps 3"),
              ElementsAre(::testing::EndsWith(
                  "--node-rank 0 --master-addr localhost --master-port 29500 -m torchtitan.train --job.config_file "
                  "plan.toml --training.steps 3")));
}

}  // namespace
}  // namespace nest::test
