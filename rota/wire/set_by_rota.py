"""Variables that Rota sets for a job."""

SET_BY_ROTA = (
    *("CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "NNODES", "NODE_RANK", "RANK"),
    *("ROTA_ARRAY_COUNT", "ROTA_ARRAY_ID", "ROTA_ARRAY_INDEX"),
    *("ROTA_BATCH_SIZE", "ROTA_CHECKPOINT_DIR", "ROTA_FROM_STEP", "ROTA_GPUS", "ROTA_HOST", "ROTA_ATTEMPT", "ROTA_INCARNATION"),
    *("ROTA_JOB_ID", "ROTA_JOB_KEY", "ROTA_JOB_NAME", "ROTA_LIFE", "ROTA_NODE", "ROTA_NODE_GPUS", "ROTA_PARK"),
    *("ROTA_CPUS", "ROTA_CPU_WEIGHT", "ROTA_MEMORY_GIB"),
    *("ROTA_PARK_LIBRARY", "ROTA_RESTARTS", "ROTA_RUN_DIR", "WORLD_SIZE"),
)
"""Variables that Rota sets for a job. A spec that sets one is refused, since its value would have no effect."""
