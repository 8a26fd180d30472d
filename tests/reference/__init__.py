"""The oracle inside the repository: a slow NumPy biLM, random published-style checkpoints, and tests of both."""
