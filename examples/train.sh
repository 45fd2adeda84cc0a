#!/bin/bash
#SBATCH --nodes=16
#SBATCH --gpus-per-node=8
# Continued pre-training of a 70 B model. Copied from a smaller run and scaled up.

GPUS_PER_NODE=8
NODES=${SLURM_NNODES:-16}
TP=8
PP=4

MODEL=(
  --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672
  --num-attention-heads 64 --group-query-attention --num-query-groups 8
  --seq-length 8192 --max-position-embeddings 8192
  --position-embedding-type rope --normalization RMSNorm --swiglu
  --disable-bias-linear --untie-embeddings-and-output-weights
  --hidden-dropout 0 --attention-dropout 0
  --vocab-size 128256
)
LAYOUT=(
  --tensor-model-parallel-size $TP
  --pipeline-model-parallel-size $PP
  --sequence-parallel
  --use-distributed-optimizer
  --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
)
BATCH=(--micro-batch-size 2 --global-batch-size 512 --bf16)

torchrun --nnodes $NODES --nproc-per-node $GPUS_PER_NODE \
  pretrain_gpt.py "${MODEL[@]}" "${LAYOUT[@]}" "${BATCH[@]}" \
  --lr 1e-5 --train-iters 2000 --data-path $DATA
