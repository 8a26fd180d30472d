"""From a folder of text to a trained biLM."""
