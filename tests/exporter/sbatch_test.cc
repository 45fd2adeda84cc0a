// The job script, run by bash with stand-ins for Slurm and torchrun: every host starts the ranks that the plan puts there.
#include "exporter/sbatch.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "export_support.h"
#include "plan/strategy_text.h"
#include "test_support/temporary_folder.h"

namespace nest::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SbatchScripts : public ::testing::Test {
 protected:
  SbatchScripts() : folder_(own_.path()) {
    // Host names of the allocation; then srun, which runs the command for every line of the host file; then torchrun.
    program("scontrol", "printf 'n%d\\n' 0 1 2 3");
    program(
        "srun",
        "while [[ $1 == --* ]]; do [[ $1 == --distribution=arbitrary ]] && ok=1; shift; done\n"
        "[ \"$ok\" = 1 ] || exit 9\nk=0\n"
        "while read -r host; do SLURM_PROCID=$k HOST=$host \"$@\" < /dev/null; k=$((k+1)); done < \"$SLURM_HOSTFILE\"");
    program("torchrun", "echo \"$HOST $CUDA_VISIBLE_DEVICES $*\"");
  }

  // A line for every host, in the order of node ranks.
  std::vector<std::string> run(const std::string& script) {
    std::ofstream(folder_ / "job.sh") << script;
    const std::string command = "cd '" + folder_.string() + "' && PATH='" + folder_.string() +
                                "':$PATH SLURM_JOB_NODELIST='n[0-3]' bash job.sh > out.txt 2> err.txt";
    EXPECT_EQ(std::system(command.c_str()), 0) << script;
    std::ifstream file(folder_ / "out.txt");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  static std::string script_of(const cost::Job& job, const std::string& strategy, std::int64_t per_host = 0) {
    plan::StrategyRequest request = plan::parse_strategy(strategy);
    plan::fill_devices(request, job.cluster.devices);
    if (!request.inner_given) request.strategy.dp_inner = request.strategy.dp;
    const std::vector<StagePlan> stages = cost::even_stages(job, request.strategy, Recompute::none, 1);
    exporter::ExportTask task{job, request.strategy, stages};
    task.hosts = exporter::hosts_of(job.cluster, per_host);
    const auto launch = exporter::launch_order(task.hosts, task.strategy);
    if (launch) {
      task.order = launch->order;
      task.launch = &*launch;
    }
    return exporter::sbatch_text(task, exporter::export_megatron(task));
  }

 private:
  void program(const char* name, const std::string& body) {
    std::ofstream(folder_ / name) << "#!/usr/bin/env bash\n" << body << "\n";
    std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
  }

  TemporaryFolder own_;  // tests run side by side
  std::filesystem::path folder_;
};

TEST_F(SbatchScripts, StartHostsInThePlansOrder) {
  const cost::Job job = export_job("llama3-8b", 32, 64, 4096);
  // Replica by replica: stages of one pipeline on neighbouring hosts, which Megatron counts stage by stage.
  const std::string script = script_of(job, "tp=8,sp=1,pp=2,mbs=1,dp_inner=1");
  EXPECT_THAT(script, HasSubstr("#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=8\n"));
  const std::vector<std::string> lines = run(script);
  ASSERT_EQ(lines.size(), 4U);
  const char* const wanted[] = {"n0", "n2", "n1", "n3"};
  for (std::size_t k = 0; k < 4; ++k) {
    EXPECT_THAT(lines[k], ::testing::StartsWith(std::string(wanted[k]) +
                                                "  --nnodes 4 --nproc-per-node 8 --node-rank " + std::to_string(k) +
                                                " --master-addr n0 --master-port 29500 "
                                                "pretrain_gpt.py --num-layers 32 "));
    EXPECT_THAT(lines[k], HasSubstr(" --tensor-model-parallel-size 8 --sequence-parallel "));
  }
}

TEST_F(SbatchScripts, NamedHostsAreAskedFor) {
  cost::Job job = export_job("llama3-8b", 32, 64, 4096);
  job.cluster.node_names = {"d", "c", "b", "a"};
  const std::string script = script_of(job, "tp=8,sp=1,pp=2,mbs=1");
  EXPECT_THAT(script, HasSubstr("#SBATCH --nodelist=a,b,c,d\n"));
  std::vector<std::string> hosts;
  for (const std::string& line : run(script)) hosts.push_back(line.substr(0, line.find(' ')));
  EXPECT_THAT(hosts, ElementsAre("d", "c", "b", "a"));
}

TEST_F(SbatchScripts, HostsMayBePartsOfARack) {
  const cost::Job job =
      export_job(*model::find_model_preset("llama3-8b"), "gb200-nvl72", 72, 72, 4096, "megatron-core");
  EXPECT_THAT(script_of(job, "tp=4,sp=1,mbs=1"), HasSubstr("#SBATCH --nodes=18\n#SBATCH --ntasks-per-node=1\n"
                                                           "#SBATCH --gpus-per-node=4\n"));
  EXPECT_THAT(script_of(job, "tp=2,sp=1,mbs=1", 2), HasSubstr("#SBATCH --nodes=36\n"));
}

}  // namespace
}  // namespace nest::test
