# A plan of nest for torchtitan's main. As nest_plan.py in a folder of PYTHONPATH, on every host:
#     torchrun … -m torchtitan.train --module nest_plan --config plan
import dataclasses

from torchtitan.components.loss import CrossEntropyLoss
from torchtitan.config import CompileConfig, ParallelismConfig
from torchtitan.models.common.config_utils import decoder_vocab_size
from torchtitan.models.qwen3 import model_registry
from torchtitan.models.qwen3.config_registry import qwen3_14b
from torchtitan.trainer import Trainer


def plan() -> Trainer.Config:
    model_spec = model_registry("8B")
    base = dataclasses.replace(
        qwen3_14b(),
        model_spec=model_spec,
        loss=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec)),
    )
    return dataclasses.replace(
        base,
        training=dataclasses.replace(
            base.training,
            num_tokens_per_microbatch_per_dp_rank=8192,
            num_tokens_per_train_step=1048576,
            max_context_length=4096,
            mixed_precision_param="bfloat16",
            disable_cuda_graphs=True,
        ),
        parallelism=ParallelismConfig(
            data_parallel_replicate_degree=1,
            data_parallel_shard_degree=128,
            fsdp_reshard_after_forward="never",
            tensor_parallel_degree=1,
            context_parallel_degree=1,
            expert_parallel_degree=1,
            pipeline_parallel_degree=1,
        ),
        activation_checkpoint=None,
        compile=CompileConfig(enable=True, components=["model", "loss"], enable_async_tensor_parallel=False),
    )
