"""From text to vectors, and from vectors to files."""
