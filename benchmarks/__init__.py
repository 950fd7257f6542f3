"""What measures speed, memory and quality: `python -m benchmarks.NAME`."""
