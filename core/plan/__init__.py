"""Short, niced jobs without a device: started as processes by `core.planner`, imported by nothing."""
