"""Placers choose GPUs. Any placer works under any policy, never changes which jobs run and never makes a job wait."""
