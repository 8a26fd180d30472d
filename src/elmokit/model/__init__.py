"""From ids to layers: the biLM and ELMo, in plain PyTorch. Nothing here opens a file.

Read in this order: config, batch, char_cnn, lstm, bilm, scalar_mix, elmo, softmax.
"""
