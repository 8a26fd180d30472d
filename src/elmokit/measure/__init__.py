"""What this machine does with a model: words a second, against AllenNLP and against the machine's own ceiling."""
