"""The deterministic world: scheduler, faults, workloads."""
