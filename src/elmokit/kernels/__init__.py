"""The recurrence of `model/lstm.py`, faster. Each path here is tested to equal it, values and gradients."""
