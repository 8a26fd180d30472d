"""The table of commands. One module and one line each; a module is imported when its command is asked for."""

from __future__ import annotations

from cyclopts import App, Group, Parameter

from .. import __version__

USE = Group("Use", sort_key=0)
TRAIN = Group("Train", sort_key=1)
ASK = Group("Ask", sort_key=2)

app = App(
    name="elmokit",
    help="ELMo on today's PyTorch: published weights in, the published vectors out.",
    version=__version__,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,  # exit status and message are ours
    default_parameter=Parameter(negative=""),
)

COMMANDS = {
    "embed": (USE, "Embed a text: every token's vectors, to a file or the screen."),
    "info": (USE, "Say what a model is: shape, origin, what is unusual."),
    "convert": (USE, "Write a model in another format."),
    "models": (USE, "List the models that come with elmokit."),
    "bench": (USE, "Measure a model's speed on this machine, against AllenNLP."),
    "inspect": (TRAIN, "Look at a corpus before training on it."),
    "pretrain": (TRAIN, "Train a biLM on a folder of text; the same line goes on."),
    "adapt": (TRAIN, "Adapt a model to another text."),
    "perplexity": (ASK, "Say how well a model predicts a text."),
    "score": (ASK, "Print how surprising each token is."),
    "substitutes": (ASK, "Say what would stand in a gap."),
}

for name, (group, summary) in COMMANDS.items():
    app.command(f"elmokit.cli.{name}:{name}", name=name, group=group, help=summary)
