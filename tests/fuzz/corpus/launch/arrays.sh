#!/bin/bash
#SBATCH --nodes=8 --gpus-per-node=8
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS=${GPUS:-8}
TP=4; PP=$((TP/2))
DIST=(
    --nproc_per_node $GPUS --nnodes $SLURM_NNODES   # all of them
    --master_addr "$MASTER_ADDR" --rdzv_backend static
)
SIZES="--num-layers 8 --hidden-size=512 --num-attention-heads 8 \
  --seq-length 4096 --max-position-embeddings 4096 --vocab-size 1000"
SIZES+=' --ffn-hidden-size 1024'
if [ -n "$DEBUG" ]; then SIZES="--num-layers 2"; fi
srun numactl --membind=0 torchrun "${DIST[@]}" pretrain_gpt.py $SIZES \
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP} --sequence-parallel \
    --pipeline-model-parallel-layout 'Et*3|t*5L' --micro-batch-size 1 --global-batch-size 128 --bf16 \
    --use-distributed-optimizer --recompute-granularity selective --recompute-modules core_attn layernorm 2>&1 | tee log
