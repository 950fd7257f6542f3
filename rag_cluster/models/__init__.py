"""The ports to models, what is behind them, and their deterministic fakes."""
