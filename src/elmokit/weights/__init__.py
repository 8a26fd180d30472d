"""Weight files to tensors and back. One file in `formats/` and one line in its table for each layout."""
