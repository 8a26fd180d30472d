"""The ids that ELMo reads characters by: 0 pads a sentence, then 256 bytes, then five marks."""

N_IDS = 262
"""Rows of a character embedding that reads these ids."""

PADDING = 0
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PAD_CHARACTER = 257, 258, 259, 260, 261

SENTENCE_MARKS = ("<S>", "</S>")
MIN_CHARACTERS_PER_TOKEN = 3
"""The begin, one byte or mark, the end."""
