"""On which GPUs: any placer works under any policy, never changes who runs and never makes a job wait."""
