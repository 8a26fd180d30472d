"""From text to numbers: characters, tokens, sentences, vocabularies, batches. Nothing here needs PyTorch."""
