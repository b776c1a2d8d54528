"""The device's owner: loads, traces, times and generates. Started as a process; nothing imports it. Only here is torch imported."""
