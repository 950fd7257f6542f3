"""Jobs for `ray job submit -- python -m jobs.NAME`: arguments in, one summary out."""
