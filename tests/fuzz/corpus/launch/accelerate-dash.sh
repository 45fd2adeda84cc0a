accelerate launch - --num_processes=8 t.py --per_device_train_batch_size 2 --fsdp "full_shard auto_wrap"
