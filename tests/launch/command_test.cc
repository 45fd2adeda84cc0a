// Launchers and wrappers taken off.
#include "launch/command.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;

launch::TrainingCommand command_of(const std::string& text, const launch::ShellVariables& variables = {},
                                   const launch::ReadNamedFile& read = nullptr) {
  return launch::find_training_command("test", text, variables, read);
}

struct Launch {
  const char* text;
  std::int64_t world;  // 0: not known
};

TEST(Command, CountsRanks) {
  const Launch launches[] = {
      {"torchrun --nproc_per_node 8 --nnodes=4 train.py --a", 32},
      {"torchrun --nproc-per-node=8 train.py --a", 8},
      {"torchrun --standalone --nproc_per_node 4 train.py", 4},
      {"torchrun --nnodes 2:2 --nproc-per-node 8 train.py", 16},
      {"torchrun --nnodes 2:4 --nproc-per-node 8 train.py", 0},
      {"torchrun --nnodes $N --nproc-per-node 8 train.py", 0},
      {"torchrun --nnodes 2 --nproc-per-node gpu train.py", 0},
      {"N=3; torchrun --nnodes $N --nproc-per-node $((N+5)) train.py", 24},
      {"python -m torch.distributed.run --nnodes 2 --nproc_per_node 2 train.py", 4},
      {"python3 -u -m torch.distributed.launch --nproc_per_node=2 train.py", 2},
      {"srun -N 8 --ntasks-per-node=8 python -u train.py --a", 64},
      {"srun -n 128 --mpi=pmix python train.py", 128},
      {"#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=8\nsrun python train.py", 32},
      {"#SBATCH --nodes=4\n#SBATCH --ntasks=24\nsrun python train.py", 24},
      {"#SBATCH -N 4\n#SBATCH --ntasks-per-node=8\nsrun --nodes 2 python train.py", 16},
      {"#SBATCH -N 4\n#SBATCH --ntasks-per-node=1\nsrun torchrun --nnodes 4 --nproc-per-node 8 train.py", 32},
      {"sbatch <<EOF\n#SBATCH -N 2\n#SBATCH --ntasks-per-node=8\nsrun python train.py\nEOF\n", 16},
      {"srun -N8 --ntasks-per-node 1 numactl --cpunodebind=0 torchrun --nnodes 8 --nproc-per-node 8 train.py", 64},
      {"mpirun -np 16 -x FOO -H a:8,b:8 python train.py", 16},
      {"mpiexec -n 4 --map-by ppr:2:node python train.py", 4},
      {"deepspeed --num_nodes 2 --num_gpus 8 train.py --deepspeed", 16},
      {"deepspeed --include host1:0,1,2@host2:0,1 train.py", 5},
      {"nsys profile -o x --trace cuda,nvtx torchrun --nproc-per-node 8 --nnodes 2 train.py", 16},
      {"FOO=1 BAR=2 uv run --no-sync torchrun --nproc-per-node 8 train.py", 8},
      {"srun -N 2 bash -c 'export A=1; torchrun --nnodes 2 --nproc-per-node 8 train.py --x'", 16},
      {"srun -N 2 --ntasks-per-node 8 singularity exec --nv image.sif python train.py", 16},
      {"#SBATCH --nodes=6\ntorchrun --nnodes $SLURM_NNODES --nproc-per-node 8 train.py", 48},
      {"python train.py", 0},
  };
  for (const Launch& launch : launches) {
    const launch::TrainingCommand command = command_of(launch.text);
    EXPECT_EQ(command.program, "train.py") << launch.text;
    EXPECT_EQ(command.world().value_or(0), launch.world) << launch.text;
  }
}

TEST(Command, KeepsTheArgumentsOfTheProgram) {
  const launch::TrainingCommand command =
      command_of("torchrun --nproc-per-node 8 path/train.py --a 1 --nnodes 7 -m x\n");
  ASSERT_EQ(command.arguments.size(), 6U);
  EXPECT_EQ(command.arguments[2].text, "--nnodes");
  EXPECT_EQ(command.world(), 8);
  const launch::TrainingCommand module =
      command_of("torchrun --nproc-per-node 2 -m torchtitan.train --job.config_file a.toml");
  EXPECT_EQ(module.program, "torchtitan.train");
}

TEST(Command, SaysWhatItTook) {
  const launch::TrainingCommand command =
      command_of("python prepare.py\ntorchrun --nproc-per-node 8 train.py --a 1\necho done");
  EXPECT_EQ(command.program, "train.py");
  EXPECT_EQ(command.line, 2);
  ASSERT_EQ(command.notes.size(), 1U);
  EXPECT_THAT(command.notes[0], HasSubstr("2 commands"));
}

TEST(Command, ReadsHostfiles) {
  const auto read = [](const std::string& path) -> std::optional<std::string> {
    if (path == "hosts") return "a slots=8\n# b slots=8\nc slots=4\n";
    if (path == "bad") return "a\n";
    return std::nullopt;
  };
  EXPECT_EQ(command_of("deepspeed --hostfile hosts train.py", {}, read).world(), 12);
  EXPECT_EQ(command_of("deepspeed --hostfile nowhere train.py", {}, read).world(), std::nullopt);
  EXPECT_THAT(command_of("deepspeed --hostfile nowhere train.py", {}, read).ranks.unknown, HasSubstr("nowhere"));
  EXPECT_THROW(command_of("deepspeed --hostfile bad train.py", {}, read), InputError);
}

TEST(Command, RefusesWhatStartsNothing) {
  for (const char* text : {"echo hello", "", "bash other.sh", "torchrun --nnodes", "ls; cd /tmp"}) {
    EXPECT_THROW(command_of(text), InputError) << text;
  }
}

TEST(Command, ArraysInsideOfValues) {
  const launch::TrainingCommand command = command_of(
      "A=(\n  --num-layers 4\n  --hidden-size 128\n)\nCMD=\"python pretrain_gpt.py ${A[@]} --bf16\"\nbash -c "
      "\"$CMD\"\n");
  std::string words;
  for (const launch::ShellWord& word : command.arguments) words += word.text + " ";
  EXPECT_EQ(words, "--num-layers 4 --hidden-size 128 --bf16 ");
}

}  // namespace
}  // namespace nest::test
